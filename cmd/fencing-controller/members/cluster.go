package members

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeclient "github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const (
	nodeClaim  = "authentication.kubernetes.io/node-name"
	nodesPage  = 500
	appLabel   = "app.kubernetes.io/managed-by"
	controller = "fencing-controller"
)

// Cluster implements Store and Reviewer with the API server.
type Cluster struct {
	Reader     client.Reader // not from a cache
	Writer     client.Client
	Namespace  string // of the books
	GroupLabel string
	Audience   string   // of the agents' tokens
	Agents     []string // their service accounts, namespace/name
}

var _ Store = (*Cluster)(nil)

func (c *Cluster) Read(ctx context.Context, group string) (*memberbook.Book, string, error) {
	m, err := c.configMap(ctx, BookName(group))
	if m == nil {
		return nil, "", err
	}
	if m.Labels[BookLabel] != "true" {
		return nil, "", fmt.Errorf("ConfigMap %s has no label %s=true: add the label again, or delete the ConfigMap", m.Name, BookLabel)
	}
	b, err := decode(group, m.Data[bookKey])
	return b, m.ResourceVersion, err
}

// configMap reads a ConfigMap; nil: there is none, or an error.
func (c *Cluster) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	var m corev1.ConfigMap
	switch err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &m); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	return &m, nil
}

func (c *Cluster) Nodes(ctx context.Context, group string) ([]string, error) {
	var names []string
	page := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := c.Reader.List(ctx, list, client.MatchingLabels{c.GroupLabel: group}, client.Limit(nodesPage), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("list the Nodes of the group: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if page = list.Continue; page == "" {
			return names, nil
		}
	}
}

func (c *Cluster) Write(ctx context.Context, b *memberbook.Book, version string) error {
	text, err := encode(b)
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: BookName(b.Group), Labels: map[string]string{BookLabel: "true", appLabel: controller},
		},
		Data: map[string]string{bookKey: text},
	}
	return c.put(ctx, m, version)
}

// Review implements Reviewer. The API server checks that the token's pod and Node still exist.
//
// Invariant: the node is the one in the token's own claim, which the API server has signed, whatever the caller says.
func (c *Cluster) Review(ctx context.Context, token string) (string, error) {
	r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{c.Audience}}}
	if err := c.Writer.Create(ctx, r); err != nil {
		return "", fmt.Errorf("check a token: %w", err)
	}
	return judgeToken(&r.Status, c.Audience, c.Agents)
}

// judgeToken returns the node to which a checked token belongs.
func judgeToken(s *authenticationv1.TokenReviewStatus, audience string, agents []string) (string, error) {
	if !s.Authenticated || !slices.Contains(s.Audiences, audience) {
		return "", fmt.Errorf("%w: the token is not valid for the audience %s", ErrRefused, audience)
	}
	known := slices.ContainsFunc(agents, func(a string) bool {
		space, name, _ := strings.Cut(a, "/")
		return space != "" && name != "" && s.User.Username == "system:serviceaccount:"+space+":"+name
	})
	if !known {
		return "", fmt.Errorf("%w: %s is not among members.agents", ErrRefused, s.User.Username)
	}
	claim := s.User.Extra[nodeClaim]
	if len(claim) != 1 || claim[0] == "" {
		return "", fmt.Errorf("%w: the token is bound to no node: project one of a pod, by Kubernetes 1.32 or later", ErrRefused)
	}
	return claim[0], nil
}

// Watch keeps the hub informed about Nodes and books. It returns when all have been seen once, or ctx ends.
func Watch(ctx context.Context, c cache.Cache, h *Hub, groupLabel string, log *slog.Logger) error {
	nodes, err := c.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	books, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return fmt.Errorf("watch books: %w", err)
	}
	seen := func(o any) {
		if n, ok := o.(*corev1.Node); ok {
			h.Seen(n.Name, Node{Group: n.Labels[groupLabel], State: stateOf(n)})
		}
	}
	a, err := nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, o any) { seen(o) },
		DeleteFunc: func(o any) {
			if n, ok := last(o).(*corev1.Node); ok {
				h.Gone(n.Name, stateOf(n))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	booked := func(o any) {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Labels[BookLabel] == deaths.ReportValue {
			return // an agent's report of dead nodes, which k8s/reconcile handles
		}
		if group, b, err := bookOf(o); err == nil {
			h.Booked(group, b)
		} else {
			log.Warn("cannot read the member-list history; the group keeps its list", "err", err)
		}
	}
	b, err := books.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: booked, UpdateFunc: func(_, o any) { booked(o) },
		DeleteFunc: func(o any) {
			if m, ok := last(o).(*corev1.ConfigMap); ok {
				h.Lost(m.Name) // by its name: the deleted content may not have been a book any more
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch books: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), a.HasSynced, b.HasSynced) {
		h.Synced()
	}
	return nil
}

func stateOf(n *corev1.Node) ownnode.State {
	s := ownnode.StateOf(read(n))
	// The result is 0 if the text is not a number in range: a value out of range would be newer than all later ones.
	if v, err := strconv.ParseUint(n.ResourceVersion, 10, 64); err == nil {
		s.Version = v
	}
	return s
}

// read is the part of a Node that an agent reads.
func read(n *corev1.Node) *kubeclient.Node {
	out := &kubeclient.Node{ObjectMeta: n.ObjectMeta}
	for i := range n.Spec.Taints {
		out.Spec.Taints = append(out.Spec.Taints, kubeclient.Taint{Key: n.Spec.Taints[i].Key})
	}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, kubeclient.NodeCondition{Type: string(c.Type), Status: string(c.Status)})
	}
	for _, a := range n.Status.Addresses {
		out.Status.Addresses = append(out.Status.Addresses, kubeclient.NodeAddress{Type: string(a.Type), Address: a.Address})
	}
	return out
}

// Exists reports whether a Node exists now, whatever this replica has seen.
func (c *Cluster) Exists(ctx context.Context, node string) (bool, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := c.Reader.Get(ctx, client.ObjectKey{Name: node}, m)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// last returns the last known state of a deleted object.
func last(o any) any {
	if t, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		return t.Obj
	}
	return o
}

// bookOf reads a ConfigMap. Its name has to match the group inside, so that no copy counts.
func bookOf(o any) (group string, b *memberbook.Book, err error) {
	m, ok := o.(*corev1.ConfigMap)
	if !ok || m.Labels[BookLabel] != "true" {
		return "", nil, errNoBook
	}
	if b, err = decodeAny(m.Data[bookKey]); err != nil {
		return "", nil, fmt.Errorf("ConfigMap %s: %w", m.Name, err)
	}
	if BookName(b.Group) != m.Name {
		return "", nil, fmt.Errorf("ConfigMap %s: it is the book of group %s, whose name is %s", m.Name, b.Group, BookName(b.Group))
	}
	return b.Group, b, nil
}

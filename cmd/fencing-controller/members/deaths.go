package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	// tellPause is between two reports of one node: who takes one over costs the API server no more than that.
	tellPause   = time.Second
	tellTimeout = 10 * time.Second
	tellTries   = 3
	longestNode = 253
)

// errNoNode says that there is no such Node.
var errNoNode = errors.New("the Node does not exist")

// DeathStore keeps what agents tell of dead nodes. It is read from the API server, and not from a cache.
type DeathStore interface {
	// Reporter is what a node's Node shows.
	Reporter(ctx context.Context, node string) (Reporter, error)
	// Reported is what the node's agent has told, nil if nothing, and its version for Report.
	Reported(ctx context.Context, node string) (r *deaths.Report, version string, err error)
	// Report replaces that version; [ErrConflict] if it is another by now. It is kept as long as the Node that tells it.
	Report(ctx context.Context, r *deaths.Report, by Reporter, version string) error
}

// Reporter is the Node of an agent that tells deaths.
type Reporter struct {
	UID        types.UID
	Boot       string // that it shows
	Annotation string // with deaths
}

// TellDeaths implements fencingv1.FencingMembersServer.
//
// Invariant: what is kept is kept for the node that the token is bound to, whatever the report says, and only while the Node shows
// the boot in which it was told.
func (s *Server) TellDeaths(ctx context.Context, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
	node, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if s.Deaths == nil {
		return nil, status.Error(codes.Unimplemented, "this controller takes no deaths")
	}
	now, err := reportOf(node, r)
	if err != nil {
		return nil, err
	}
	if !s.mayTell("deaths of " + node) {
		return nil, status.Error(codes.ResourceExhausted, "this node has told something a moment ago")
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	known, err := s.keep(ctx, now, r.GetAsk())
	switch {
	case err == nil:
		return knownOf(known), nil
	case errors.Is(err, errNoNode), errors.Is(err, deaths.ErrOtherBoot):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, deaths.ErrOld), errors.Is(err, ErrConflict):
		return nil, status.Error(codes.Aborted, err.Error())
	default:
		s.Logger.Warn("cannot store the deaths that an agent reports", "node", node, "err", err)
		return nil, status.Error(codes.Unavailable, "they cannot be kept now")
	}
}

// keep keeps a report, or, if only asked, says what was named last.
func (s *Server) keep(ctx context.Context, now *deaths.Report, ask bool) ([]deaths.Death, error) {
	for try := 1; ; try++ {
		// The Node is read first: if it changes its boot after that, the next report says so.
		by, err := s.Deaths.Reporter(ctx, now.Node)
		if err != nil {
			return nil, err
		}
		was, version, err := s.Deaths.Reported(ctx, now.Node)
		if err != nil {
			return nil, err
		}
		if ask {
			return deaths.Last(by.Annotation, was), nil
		}
		if err := deaths.Accept(was, *now, by.Boot); err != nil {
			return nil, err
		}
		now.Over, now.Heard = deaths.Digest(by.Annotation), time.Now()
		err = s.Deaths.Report(ctx, now, by, version)
		if err == nil {
			s.Logger.Info("an agent reported which nodes are dead", "node", now.Node, "deaths", len(now.Deaths))
			return now.Deaths, nil
		}
		if !errors.Is(err, ErrConflict) || try == tellTries {
			return nil, err
		}
	}
}

// mayTell reports whether something may be told now; what says what, and of which node.
func (s *Server) mayTell(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.told == nil {
		s.told = map[string]time.Time{}
	}
	if now.Sub(s.told[what]) < tellPause {
		return false
	}
	s.told[what] = now
	return true
}

// reportOf refuses reports that are none.
func reportOf(node string, r *fencingv1.DeathsReport) (*deaths.Report, error) {
	out := &deaths.Report{Node: node, Boot: r.GetBoot(), At: r.GetAt()}
	if len(r.GetDeaths()) > deaths.Most {
		return nil, status.Error(codes.InvalidArgument, "there are more deaths than a report may have")
	}
	for _, d := range r.GetDeaths() {
		at := d.GetAt()
		if d.GetNode() == "" || len(d.GetNode()) > longestNode || !deaths.IsBoot(d.GetBoot()) || len(d.GetProof()) > 16 || d.GetSaid() != "" && !deaths.IsBoot(d.GetSaid()) || at < 0 || at > latest {
			return nil, status.Errorf(codes.InvalidArgument, "the death of %.60q names no node or no boot, or is no death", d.GetNode())
		}
		out.Deaths = append(out.Deaths, deaths.Death{Node: d.GetNode(), Boot: d.GetBoot(), Proof: d.GetProof(), At: time.Unix(at, 0).UTC(), Said: d.GetSaid()})
	}
	return out, nil
}

func knownOf(list []deaths.Death) *fencingv1.DeathsKnown {
	out := &fencingv1.DeathsKnown{}
	for _, d := range list {
		out.Deaths = append(out.Deaths, &fencingv1.ProvenDeath{Node: d.Node, Boot: d.Boot, Proof: d.Proof, At: d.At.Unix(), Said: d.Said})
	}
	return out
}

var _ DeathStore = (*Cluster)(nil)

// Reporter implements DeathStore.
func (c *Cluster) Reporter(ctx context.Context, node string) (Reporter, error) {
	var n corev1.Node
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		if apierrors.IsNotFound(err) {
			return Reporter{}, errNoNode
		}
		return Reporter{}, fmt.Errorf("read the Node: %w", err)
	}
	return Reporter{UID: n.UID, Boot: deaths.Boot(n.Status.NodeInfo.BootID), Annotation: n.Annotations[deaths.Annotation]}, nil
}

// Reported implements DeathStore. One that cannot be read is an error: nothing is written over it.
func (c *Cluster) Reported(ctx context.Context, node string) (*deaths.Report, string, error) {
	var m corev1.ConfigMap
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: deaths.ReportName(node)}, &m)
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read what was told: %w", err)
	}
	r, err := deaths.ReportIn(m.Name, m.Labels, m.Data)
	if err == nil && r.Node != node {
		err = fmt.Errorf("ConfigMap %s: %w: it is that of node %s", m.Name, deaths.ErrUnreadable, r.Node)
	}
	if err != nil {
		return nil, "", err
	}
	return &r, m.ResourceVersion, nil
}

// Report implements DeathStore. The Node owns what it tells, so that Kubernetes deletes it with the Node: this account may not.
func (c *Cluster) Report(ctx context.Context, r *deaths.Report, by Reporter, version string) error {
	text, err := deaths.EncodeReport(*r)
	if err != nil {
		return err
	}
	return c.put(ctx, told(r.Node, by, deaths.ReportName(r.Node), deaths.ReportValue, deaths.ReportKey, text, c.Namespace), version)
}

// told is the ConfigMap with what a Node's agent has told. It belongs to the Node.
func told(node string, by Reporter, name, label, key, text, namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:          map[string]string{BookLabel: label, appLabel: controller},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: by.UID}},
		},
		Data: map[string]string{key: text},
	}
}

// put writes one over that version; "": there is none yet.
func (c *Cluster) put(ctx context.Context, m *corev1.ConfigMap, version string) (err error) {
	if m.ResourceVersion = version; version == "" {
		err = c.Writer.Create(ctx, m)
	} else {
		err = c.Writer.Update(ctx, m)
	}
	if version != "" && apierrors.IsForbidden(err) {
		err = c.underItsOwner(ctx, m)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return ErrConflict
	}
	return err
}

// underItsOwner writes a report under the owner that it has, if any: with the admission plugin OwnerReferencesPermissionEnforcement who may not
// delete an object may not change that.
//
// Invariant: a death is told, whether or not the object goes with its Node. The version of m is the one that was read for it.
func (c *Cluster) underItsOwner(ctx context.Context, m *corev1.ConfigMap) error {
	var was corev1.ConfigMap
	if err := c.Reader.Get(ctx, client.ObjectKeyFromObject(m), &was); err != nil {
		return err
	}
	m.OwnerReferences = was.OwnerReferences
	return c.Writer.Update(ctx, m)
}

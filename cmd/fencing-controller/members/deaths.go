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
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

const (
	// tellPause is the minimum time between two reports of one node, so that an attacker who takes over a node cannot
	// cause more load on the API server.
	tellPause   = time.Second
	tellTimeout = 10 * time.Second
	tellTries   = 3
	longestNode = 253
)

// errNoNode means that there is no such Node.
var errNoNode = errors.New("the Node does not exist")

// ToldStore keeps the agents' reports: of dead nodes, and against fencing nodes by their devices. It is read from the
// API server, not from a cache. A write replaces the version that was read, or fails with [ErrConflict] if the version
// has changed, and is kept as long as the reporting Node.
type ToldStore interface {
	// Reporter returns what the node's Node shows.
	Reporter(ctx context.Context, node string) (Reporter, error)
	// Reported returns the report of dead nodes by the node's agent, nil if there is none, and its version for Report.
	Reported(ctx context.Context, node string) (r *deaths.Report, version string, err error)
	Report(ctx context.Context, r *deaths.Report, by Reporter, version string) error
	// Sighted returns the agent's report against fencing, nil if there is none, and its version for See.
	Sighted(ctx context.Context, node string) (s *sightings.Sighting, version string, err error)
	See(ctx context.Context, node string, s *sightings.Sighting, by Reporter, version string) error
}

// Reporter is the Node of an agent that reports something.
type Reporter struct {
	UID        types.UID
	Boot       string // as shown by the Node
	Annotation string // the annotation with deaths
}

// TellDeaths implements fencingv1.FencingMembersServer.
//
// Invariant: a report is kept for the node that the token is bound to, whatever the report says, and only if the Node
// shows the boot in which it was sent.
func (s *Server) TellDeaths(ctx context.Context, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
	node, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if s.Told == nil {
		return nil, status.Error(codes.Unimplemented, "this controller takes no deaths")
	}
	now := &deaths.Report{Node: node, Boot: r.GetBoot(), At: r.GetAt()}
	if now.Deaths, err = deaths.OfTold(r.GetDeaths()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if !s.mayTell("deaths of " + node) {
		return nil, status.Error(codes.ResourceExhausted, "this node sent a report a moment ago")
	}
	var known []deaths.Death
	err = s.keep(ctx, node, "deaths", func(ctx context.Context, by Reporter) error {
		was, version, err := s.Told.Reported(ctx, node)
		if err != nil {
			return err
		}
		if r.GetAsk() {
			known = deaths.Last(by.Annotation, was)
			return nil
		}
		if err := deaths.Accept(was, *now, by.Boot); err != nil {
			return err
		}
		now.Over, now.Heard = deaths.Digest(by.Annotation), time.Now()
		if err := s.Told.Report(ctx, now, by, version); err != nil {
			return err
		}
		s.Logger.Info("an agent reported which nodes are dead", "node", node, "deaths", len(now.Deaths))
		known = now.Deaths
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &fencingv1.DeathsKnown{Deaths: deaths.Told(known)}, nil
}

// keep keeps a report of a node's agent. once checks and writes it, and is called again if another replica has written
// meanwhile.
func (s *Server) keep(ctx context.Context, node, what string, once func(ctx context.Context, by Reporter) error) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := ErrConflict
	for try := 0; try < tellTries && errors.Is(err, ErrConflict); try++ {
		// The Node is read first: if its boot changes after that, the next report shows it.
		var by Reporter
		if by, err = s.Told.Reporter(ctx, node); err == nil {
			err = once(ctx, by)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoNode), errors.Is(err, deaths.ErrOtherBoot):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, deaths.ErrOld), errors.Is(err, ErrConflict):
		return status.Error(codes.Aborted, err.Error())
	default:
		s.Logger.Warn("cannot store what an agent reports", "node", node, "what", what, "err", err)
		return status.Error(codes.Unavailable, "the report cannot be stored now")
	}
}

// mayTell reports whether a report is allowed now; what names the kind of report and the node.
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

var _ ToldStore = (*Cluster)(nil)

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

// Reported implements ToldStore. A report that cannot be read is an error: it is not overwritten.
func (c *Cluster) Reported(ctx context.Context, node string) (*deaths.Report, string, error) {
	m, err := c.configMap(ctx, deaths.ReportName(node))
	if m == nil {
		return nil, "", err
	}
	r, err := deaths.ReportIn(m.Name, m.Labels, m.Data)
	if err == nil && r.Node != node {
		err = fmt.Errorf("ConfigMap %s: %w: it is the report of node %s", m.Name, deaths.ErrUnreadable, r.Node)
	}
	if err != nil {
		return nil, "", err
	}
	return &r, m.ResourceVersion, nil
}

// Report implements ToldStore. The Node owns its report, so that Kubernetes deletes the report with the Node: this
// account may not delete it.
func (c *Cluster) Report(ctx context.Context, r *deaths.Report, by Reporter, version string) error {
	text, err := deaths.EncodeReport(*r)
	if err != nil {
		return err
	}
	return c.put(ctx, told(r.Node, by, deaths.ReportName(r.Node), deaths.ReportValue, deaths.ReportKey, text, c.Namespace), version)
}

// told returns the ConfigMap with the report of a Node's agent. It belongs to the Node.
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

// put replaces this version of a ConfigMap; "": there is none yet.
func (c *Cluster) put(ctx context.Context, m *corev1.ConfigMap, version string) (err error) {
	if m.ResourceVersion = version; version == "" {
		err = c.Writer.Create(ctx, m)
	} else {
		err = c.Writer.Update(ctx, m)
	}
	if version != "" && len(m.OwnerReferences) > 0 && apierrors.IsForbidden(err) {
		err = c.underItsOwner(ctx, m)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return ErrConflict
	}
	return err
}

// underItsOwner writes a report with the owner that it already has, if any: with the admission plugin
// OwnerReferencesPermissionEnforcement an account that may not delete an object may not change its owner.
//
// Invariant: a death is reported even if the object cannot be deleted together with its Node. The version of m is the
// one that was read before.
func (c *Cluster) underItsOwner(ctx context.Context, m *corev1.ConfigMap) error {
	var was corev1.ConfigMap
	if err := c.Reader.Get(ctx, client.ObjectKeyFromObject(m), &was); err != nil {
		return err
	}
	m.OwnerReferences = was.OwnerReferences
	return c.Writer.Update(ctx, m)
}

package fencing

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	skippedReason = "FencingSkipped"
	// mostNote is the number of bytes of an Event's note that explain why. The server accepts 1024 bytes in all, and
	// refuses an Event with more.
	mostNote = 600
	// leasesAge is the greatest age of the latest read of all Leases: nodes renew their Leases so often that an older
	// read would still show it.
	leasesAge = 4 * time.Second
)

// survey reads all Nodes, for the limits of storms.
func (r *Runner) survey(ctx context.Context, c *fenceconfig.Config, fences []NodeFence) (*storm.Survey, map[string]nodefence.Node, error) {
	at := r.Now()
	running, switched, off, isolated, proven := map[string]time.Time{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}
	for i := range fences {
		s := fences[i].Status
		if s.Phase == nodefence.Running && s.Step != nodefence.Recovery {
			running[fences[i].Spec.NodeName], switched[fences[i].Spec.NodeName] = s.StartedAt, s.Isolated || s.Switched
		}
		off[fences[i].Spec.NodeName] = s.Switched && s.Step == nodefence.Power
		isolated[fences[i].Spec.NodeName] = s.Isolated
		if p := s.Proof; p != nil && !p.Contradicted {
			proven[fences[i].Spec.NodeName] = p.Boot
		}
	}
	nodes, owners, places := map[string]nodefence.Node{}, owners{}, places{}
	var members []storm.Member
	etcd, err := r.etcdMembers(ctx)
	if err != nil {
		return nil, nil, err
	}
	silent, err := r.silentNodes(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	for page := ""; ; {
		var list corev1.NodeList
		if err := r.Reader.List(ctx, &list, client.Limit(pageSize), client.Continue(page)); err != nil {
			return nil, nil, fmt.Errorf("list Nodes: %w", err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			n := nodeOf(o)
			nodes[o.Name] = n
			owners.add(o)
			places.add(o, n.Ready)
			m := storm.Member{
				Name: o.Name, Boot: n.Boot, Group: o.Labels[r.GroupLabel], Managed: c.Nodes[o.Name] != nil, Ready: n.Ready, Since: n.NotReadySince,
				Created: o.CreationTimestamp.Time, Silent: silent[o.Name], Fencing: running[o.Name], Switched: switched[o.Name], Off: off[o.Name],
				Isolated: isolated[o.Name], Part: partOf(o, etcd, fences),
			}
			m.Sighting = sightingOf(o, n.Boot, r.told[sightings.KeptName(o.Name)])
			m.Dead = n.Boot != "" && n.Disputed != n.Boot && (n.Fenced == n.Boot || proven[o.Name] == n.Boot)
			members = append(members, m)
		}
		if page = list.Continue; page == "" {
			break
		}
	}
	r.Crashes.know(owners)
	r.places = places
	p := storm.Policy{
		Settle: c.Cluster.Settle, Gone: gone(fences, nodes),
		MaxUnhealthy: c.Cluster.MaxUnhealthy, MaxSilent: c.Cluster.MaxSilent, MaxConcurrent: c.Cluster.MaxConcurrent, Cooldown: c.Cluster.Cooldown,
		MaxDeadPercent: r.MaxDeadPercent,
		SkipLeaseHeld:  c.Cluster.SkipLeaseHeld, SkipDisconnected: c.Cluster.SkipDisconnected, OnlyWithQuorum: c.Cluster.OnlyWithQuorum,
	}
	if c.Broken {
		p.Broken = fenceconfig.ClusterObject + " has problems: kubectl fence config check"
	}
	s := p.Look(members, at, &r.storms)
	r.see(nodes, s)
	r.Metrics.unhealthy.Reset()
	for group, n := range s.Unhealthy() {
		r.Metrics.unhealthy.WithLabelValues(group).Set(float64(n))
	}
	for policy, n := range s.Says() {
		r.Metrics.sightings.WithLabelValues(policy).Set(float64(n))
	}
	return s, nodes, nil
}

// sightingOf returns what the agent of a Node reports about other nodes, on the Node or to its controller (told; nil:
// nothing). A report counts as none if it cannot be read, or was made in another boot than the one that the Node shows.
func sightingOf(n *corev1.Node, boot string, told *sightings.Sighting) *sightings.Sighting {
	var written *sightings.Sighting
	if text, there := n.Annotations[sightings.Annotation]; there {
		written, _ = sightings.Decode(text)
	}
	return sightings.Of(boot, written, told)
}

// hear reads what agents have reported to their controllers, from the ConfigMaps that were read in this program's
// namespace, or in another one.
func (r *Runner) hear(ctx context.Context, own *corev1.ConfigMapList) error {
	list := own
	switch r.ToldIn {
	case "":
		return nil
	case r.Namespace:
	default:
		list = &corev1.ConfigMapList{}
		err := r.Reader.List(ctx, list, client.InNamespace(r.ToldIn), client.MatchingLabels{sightings.KeptLabel: sightings.KeptValue})
		if err != nil {
			return fmt.Errorf("list ConfigMaps of %s: %w", r.ToldIn, err)
		}
	}
	r.told = map[string]*sightings.Sighting{}
	for i := range list.Items {
		if o := &list.Items[i]; sightings.IsFresh(o.Data, r.Now()) {
			r.told[o.Name] = sightings.Kept(o.Labels, o.Data)
		}
	}
	return nil
}

// silentNodes returns the nodes whose Leases have run out by this clock. If an older role does not allow listing
// Leases, it returns none, and all other limits apply. If they cannot be listed for another reason, it returns an
// error: this limit is meant for an API server in trouble.
func (r *Runner) silentNodes(ctx context.Context, now time.Time) (map[string]bool, error) {
	if now.Sub(r.listedAt) >= leasesAge || r.listed == nil {
		ends, renewals := map[string]time.Time{}, map[string]renewal{}
		for page := ""; ; {
			var list coordinationv1.LeaseList
			if err := r.Reader.List(ctx, &list, client.InNamespace(corev1.NamespaceNodeLease), client.Limit(pageSize), client.Continue(page)); err != nil {
				if !apierrors.IsForbidden(err) {
					return nil, fmt.Errorf("list Leases: %w", err)
				}
				if r.noLeases != err.Error() { // log it once
					r.noLeases = err.Error()
					r.Logger.Warn("max_silent_percent has no effect, since Leases cannot be listed: apply nodefence.yaml of this version", "err", err)
				}
				r.listed, r.renewals = nil, nil
				return nil, nil
			}
			read := r.Now()
			for i := range list.Items {
				if l := &list.Items[i]; l.Spec.RenewTime != nil {
					text, lasts := renewalOf(l)
					ends[l.Name] = l.Spec.RenewTime.Add(lasts)
					renewals[l.Name] = r.renewals[l.Name].next(text, read, lasts)
				}
			}
			if page = list.Continue; page == "" {
				break
			}
		}
		r.listed, r.renewals, r.listedAt, r.noLeases = ends, renewals, now, ""
	}
	out := map[string]bool{}
	for name, end := range r.listed {
		out[name] = now.After(end)
	}
	return out, nil
}

// waits informs people that a limit keeps a node from being fenced, once for each change. Only the replica that comes
// first for the node does so.
func (r *Runner) waits(name string, f nodefence.Facts, a nodefence.Action) {
	if a.Held == "" {
		if f.Object == nil {
			delete(r.held, name)
		}
		return
	}
	if r.held == nil {
		r.held = map[string]string{}
	}
	if r.held[name] == a.Held || ownership.Delay(name, r.Self, r.Replicas(), r.Pause) > 0 {
		return
	}
	r.held[name] = a.Held
	r.Metrics.skipped.WithLabelValues(a.Held).Inc()
	r.Logger.Warn("fencing by devices is held up", "node", name, "policy", a.Held, "why", a.Why)
	about := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	r.Events.Eventf(about, nil, corev1.EventTypeWarning, skippedReason, "FencingHeld-"+a.Held, "%s: %s; %s", a.Held, clip(a.Why), anyway(a.Held, name))
}

// anyway tells a person how to fence the node in spite of the limit.
func anyway(reason, node string) string {
	if reason == storm.ControlPlane {
		return "an order waits for that as well, and then shows how to override it: kubectl fence node " + node
	}
	return "to fence it anyway: kubectl fence node " + node
}

// clip cuts a note to the length that the API server accepts.
func clip(note string) string {
	if len(note) <= mostNote {
		return note
	}
	return strings.ToValidUTF8(note[:mostNote], "") + " ..."
}

package storm

import (
	"fmt"
	"time"
)

// ControlPlane is the reason why a node of the control plane is not fenced although it has failed.
const ControlPlane = "ControlPlaneAtRisk"

// Part is a Node's part in the control plane.
type Part struct {
	In        bool // by its labels, or because a member of etcd runs there
	Etcd      bool // a member of etcd runs there
	EtcdReady bool // and that member is Ready
	Claimed   bool // a NodeFence has cut it off, or may do so without asking again
}

// controlPlane is asked before anything else, even for a step that a person has ordered: without a control plane,
// nothing is switched on again.
//
// Invariant: at most one node of the control plane is cut off at a time. Before a replica looks, it records in the
// NodeFence that it may cut a node off ([Part.Claimed]). It does not continue if it sees that another node's NodeFence
// is claimed in this way. Of two replicas that look at the same moment, at least one sees the other, and no clocks are
// compared. No order of a person changes that.
//
// Invariant: no node of the control plane is cut off while another one is not Ready, or has not been Ready for settle,
// nor if fewer Ready members of etcd than a quorum would be left. A person's order (word) does override that, for the
// Nodes that were not Ready when the order was given.
func (s *Survey) controlPlane(m Member, word bool) Verdict {
	if !m.Part.In {
		return allowed
	}
	refuse := func(format string, args ...any) Verdict {
		return Verdict{Reason: ControlPlane, Text: m.Name + " belongs to the control plane, and " + fmt.Sprintf(format, args...), Anyway: s.digest}
	}
	for _, o := range s.sorted {
		if o.Name != m.Name && o.Part.In && o.Part.Claimed {
			v := refuse("so does %s, which is being fenced: only one of them is fenced at a time", o.Name)
			v.Anyway = ""
			return v
		}
	}
	if len(s.policy.Gone) > 0 {
		v := refuse("%s may be cut off, and has no Node that would show whether it did: end its NodeFence first", s.policy.Gone[0])
		v.Anyway = ""
		return v
	}
	if word {
		return allowed
	}
	others := 0
	for _, o := range s.sorted {
		switch {
		case o.Name == m.Name || !o.Part.In:
		case !o.Ready, o.Silent:
			return refuse("so does %s, which is not Ready or is not heard: fencing a second one may end the quorum of etcd", o.Name)
		case s.now.Sub(o.Since) < s.policy.Settle && o.Since.Sub(o.Created) > 0:
			return refuse("so does %s, which has only been Ready for %v: waits settle=%d s", o.Name, s.now.Sub(o.Since).Truncate(time.Second), int(s.policy.Settle.Seconds()))
		default:
			others++
		}
	}
	if others == 0 {
		return refuse("no other node does: nothing would be left to switch it on again")
	}
	return s.etcd(m, refuse)
}

// etcd counts members where they are visible; elsewhere only the nodes of the control plane are known.
func (s *Survey) etcd(m Member, refuse func(string, ...any) Verdict) Verdict {
	members, left := 0, 0
	for _, o := range s.sorted {
		if !o.Part.Etcd {
			continue
		}
		if members++; o.Name != m.Name && o.Part.EtcdReady && o.Ready {
			left++
		}
	}
	if quorum := members/2 + 1; m.Part.Etcd && left < quorum {
		return refuse("without it %d of %d members of etcd would be left that are Ready, and %d are a quorum", left, members, quorum)
	}
	return allowed
}

// InControlPlane reports whether a node belongs to the control plane, as far as the survey shows.
func (s *Survey) InControlPlane(node string) bool { return s.members[node].Part.In }

package storm

import (
	"fmt"
	"time"
)

// ControlPlane is the reason for which a node of the control plane is left alone, though it has failed.
const ControlPlane = "ControlPlaneAtRisk"

// Part is what a Node has to do with the control plane.
type Part struct {
	In        bool // by its labels, or because a member of etcd runs there
	Etcd      bool // a member of etcd runs there
	EtcdReady bool // and is Ready
	Claimed   bool // a NodeFence has cut it off, or may do so without asking again
}

// controlPlane is asked before anything else, and also of what a person has ordered: a control plane that is lost switches
// nothing on again.
//
// Invariant: of the nodes of the control plane at most one is cut off at a time. A replica that may cut one off has said so in its
// NodeFence before it looks ([Part.Claimed]), and does not go on if it sees that another one has: of two replicas that look
// at one moment, at least one sees the other, and no clock is compared. No word of a person changes that.
//
// Invariant: no node of the control plane is cut off while another one is not Ready, or has not been Ready for settle, nor if
// fewer members of etcd than a quorum would be left. A person's word (word) does change that, for the Nodes that were not
// Ready when the word was given.
func (s *Survey) controlPlane(m Member, word bool) Verdict {
	if !m.Part.In {
		return allowed
	}
	refuse := func(format string, args ...any) Verdict {
		return Verdict{Reason: ControlPlane, Text: m.Name + " belongs to the control plane, and " + fmt.Sprintf(format, args...), Anyway: s.digest}
	}
	for _, o := range s.sorted {
		if o.Name != m.Name && o.Part.In && o.Part.Claimed {
			v := refuse("%s, which does too, is being fenced: only one of them at a time", o.Name)
			v.Anyway = ""
			return v
		}
	}
	if len(s.policy.Gone) > 0 {
		v := refuse("%s may be cut off and has no Node that says whether it did: end its NodeFence first", s.policy.Gone[0])
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
			return refuse("%s, which does too, is not Ready or is not heard: fencing a second one may end the quorum of etcd", o.Name)
		case s.now.Sub(o.Since) < s.policy.Settle && o.Since.Sub(o.Created) > 0:
			return refuse("%s, which does too, has been Ready for %v only: waits settle=%d s", o.Name, s.now.Sub(o.Since).Truncate(time.Second), int(s.policy.Settle.Seconds()))
		default:
			others++
		}
	}
	if others == 0 {
		return refuse("no other node does: nothing would be left that switches it on again")
	}
	return s.etcd(m, refuse)
}

// etcd counts members where they can be seen; elsewhere the nodes of the control plane are all that is known.
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

// InControlPlane reports whether a node belongs to the control plane, as far as the look shows.
func (s *Survey) InControlPlane(node string) bool { return s.members[node].Part.In }

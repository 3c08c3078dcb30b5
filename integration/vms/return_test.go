package vms

import (
	"fmt"
	"slices"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// These checks are about what the others report of a node that was reset: FENCED while it is away and, when it is back,
// the death of its former boot.

// noteBoots records the moment when all was well, and the incarnations of all nodes then.
func (s *story) noteBoots(v *observe.View) {
	s.well, s.boots = time.Now(), map[string]string{}
	for node, status := range v.Status {
		s.boots[node] = status.GetSelf().GetBootNonce()
	}
}

// fenced waits until the observers, which are still cut off from the nodes, know that their incarnations have ended:
// the horizon has passed, or the node's next boot has written its slot on the LUN.
func (s *story) fenced(of, observers []string) {
	s.t.Helper()
	v := s.await(upLimit, "FENCED, while cut off", observers, func(v *observe.View) string {
		for _, o := range observers {
			for _, node := range of {
				if n := seenBy(v, o, node); n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED {
					return fmt.Sprintf("%s reports %s as %s", o, node, n.GetState())
				}
			}
		}
		return ""
	})
	for _, o := range observers {
		for _, node := range of {
			d := seenBy(v, o, node).GetDeath()
			if d.GetBootNonce() != s.boots[node] {
				s.t.Fatalf("%s reports that incarnation %q of %s is dead, and that was %q", o, d.GetBootNonce(), node, s.boots[node])
			}
			s.logf("%s: %s is FENCED, %s", o, node, d.GetProof())
		}
	}
}

func seenBy(v *observe.View, observer, node string) *fencingv1.NodeStatus {
	for _, n := range v.Status[observer].GetNodes() {
		if n.GetName() == node {
			return n
		}
	}
	return nil
}

// returned is called when all is well again. It checks that the nodes that were reset are back in another incarnation,
// and that all others know the death of the former one from the new boot. No other node may have changed its
// incarnation or be taken for dead.
func (s *story) returned(v *observe.View) {
	s.t.Helper()
	var gone, stayed []string
	for _, node := range s.nodes {
		if reset, ok := s.resetAt(node, s.well); ok {
			gone = append(gone, node)
			s.deadTooSoon(node, reset)
		} else {
			stayed = append(stayed, node)
		}
	}
	for _, node := range s.nodes {
		boot := v.Status[node].GetSelf().GetBootNonce()
		if again := slices.Contains(gone, node); (boot != s.boots[node]) != again || boot == "" {
			s.t.Fatalf("%s was incarnation %q and is %q; reset: %v", node, s.boots[node], boot, again)
		}
		for _, o := range stayed {
			d := seenBy(v, o, node).GetDeath()
			switch {
			case d.GetBootNonce() == boot && d != nil:
				s.t.Fatalf("%s takes the present incarnation of %s for dead: %v", o, node, d)
			case slices.Contains(gone, node) && (d.GetProof() != fencingv1.Proof_PROOF_BOOT || d.GetBootNonce() != s.boots[node]):
				s.t.Fatalf("%s does not know by another boot of %s that incarnation %q has ended: %v", o, node, s.boots[node], d)
			}
		}
	}
	if len(gone) > 0 && len(stayed) > 0 {
		s.logf("%v back; %v know by the new boot that the one before has ended", gone, stayed)
	}
}

// deadTooSoon checks that no node was taken for dead before the hypervisor saw its reset.
func (s *story) deadTooSoon(node string, reset time.Time) {
	s.t.Helper()
	for _, other := range without(s.nodes, node) {
		at, ok := s.saidAt(other, s.well, func(d decision) bool { return d.Msg == "death of a node confirmed" && d.Peer == node })
		if ok && at.Before(reset) {
			s.t.Fatalf("%s took %s for dead %v before its reset", other, node, reset.Sub(at))
		}
	}
}

package agent

import (
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// The agents of this group have no watchdogs and prove no death by themselves. The controller reports over real sockets
// that a member has lost power. The agents do not believe it while that member runs, believe it within seconds after
// the member is gone, and stop when the controller takes it back.
func TestDeathsThatTheControllerFinds(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	c := newListController(t, f.dir)
	three := []string{"n1", "n2", "n3"}
	f.configureController(c, three...)
	for _, n := range three {
		c.store.node(n, nil)
	}
	f.start(three...)
	f.agree(three...)
	f.mark()
	dead := func(s *fencingv1.Status) *fencingv1.NodeStatus {
		for _, n := range s.GetNodes() {
			if n.GetName() == "n3" {
				return n
			}
		}
		return nil
	}
	found := deathlist.Death{Node: "n3", Boot: hex64(uint64('3')), Proof: nodefence.ByPower, Reference: "node-fence-n3", At: time.Now().UTC()}
	c.store.hub.Found([]deathlist.Death{found}) // from a board that reports a wrong state
	for _, n := range []string{"n1", "n2"} {
		f.awaitLog(n, "is not accepted yet")
	}
	f.calm(three...)
	f.stop("n3", ErrAbandon)
	for _, n := range []string{"n1", "n2"} {
		f.until(n, "told that n3 is dead", func(s *fencingv1.Status) bool {
			o := dead(s)
			return o.GetState() == fencingv1.NodeState_NODE_STATE_FENCED && o.GetDeath().GetProof() == fencingv1.Proof_PROOF_POWER
		})
	}
	back := found
	back.Contradicted = true
	c.store.hub.Found([]deathlist.Death{back})
	for _, n := range []string{"n1", "n2"} {
		f.until(n, "told that n3 was heard", func(s *fencingv1.Status) bool {
			return dead(s).GetState() != fencingv1.NodeState_NODE_STATE_FENCED
		})
	}
}

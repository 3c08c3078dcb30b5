package fencing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// sees makes the agent of a node report that it sees the boot of n4 run.
func (s *stage) sees(by string, number uint64) {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.Get(context.Background(), clientKey(by), n); err != nil {
		s.t.Fatal(err)
	}
	n.Annotations = map[string]string{sightings.Annotation: sightings.Encode(sightings.Sighting{Boot: deaths.Boot(n.Status.NodeInfo.BootID), Number: number, Sees: map[string]string{"n4": s.boot()}})}
	s.put(n)
}

// Guard (two writers): a board's off does not count against agents that see that very boot. Nothing is proven for the
// recovery, nothing is switched on, and no storage is given back. When they no longer see it, the off counts. One of
// these agents alone delays nothing, except the agent of the node itself.
func TestABoardThatAgentsContradict(t *testing.T) {
	for _, c := range []struct {
		by    []string
		holds bool
	}{{nil, false}, {[]string{"n1"}, false}, {[]string{"n1", "n2"}, true}, {[]string{"n4"}, true}} {
		t.Run(fmt.Sprint(c.by), func(t *testing.T) {
			s := sanStage(t)
			s.r.GroupLabel, s.r.MaxDeadPercent = "group", 100
			for _, n := range []string{"n1", "n2", "n3", "n4"} {
				o := &corev1.Node{}
				_ = s.Get(context.Background(), clientKey(n), o)
				o.Labels = map[string]string{"group": "worker"}
				s.put(o)
			}
			s.on = false // the board is another machine's, which is off
			number := uint64(0)
			rounds := func(n int) {
				for range n {
					for _, by := range c.by {
						number++
						s.sees(by, number)
					}
					s.round()
				}
			}
			rounds(40)
			f := s.fence()
			proven, err := s.r.Proof(t.Context(), "n4", s.boot())
			if err != nil || f == nil {
				t.Fatal(err, f)
			}
			if held := f.Status.Proof == nil && len(s.r.Seen("n4", s.boot())) > 0 && strings.Contains(f.Status.Message, "see that very boot"); held != c.holds || proven == c.holds {
				t.Errorf("held %v, proven %v: %+v", held, proven, f.Status)
			}
			if len(s.r.Seen("n4", "another")) != 0 || len(s.r.Seen("n4", "")) != 0 {
				t.Error("another boot is seen")
			}
			if c.holds && slices.ContainsFunc(s.ran, func(m string) bool { return m != "check" }) {
				t.Errorf("%v", s.ran)
			}
			for _, by := range c.by { // they withdraw it
				n := &corev1.Node{}
				_ = s.Get(context.Background(), clientKey(by), n)
				n.Annotations = nil
				s.put(n)
			}
			s.rounds(5)
			if f := s.fence(); f.Status.Proof == nil || f.Status.Proof.Kind != nodefence.ByPower {
				t.Errorf("afterwards nothing is proven: %+v", f.Status)
			}
		})
	}
}

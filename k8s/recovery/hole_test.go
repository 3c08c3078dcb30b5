package recovery

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// disputedStory is a node that all agents take for dead, that runs, and whose kubelet is silent until the barrier stands.
// It is heard before anything is deleted, and goes silent again. What happens then is Kubernetes' doing alone: the pods
// end as slowly as they may. The taint comes off some time after the dispute was noted; negative: never. It reports whether
// a volume was taken from a container that runs, or two of one ordinal ran.
func disputedStory(t *testing.T, seed uint64, off, silent time.Duration) bool {
	t.Helper()
	w := newWorld(seed)
	w.faults, w.grace = false, time.Minute
	replicas := []*replica{{name: "a"}, {name: "b"}}
	run := func(d time.Duration, ends func() bool) {
		for end := w.now.Add(d); w.now.Before(end) && !ends() && len(w.problems) == 0; {
			w.step()
			w.lateCalls(belief.Settings{MinReporters: 2, Unknown: true})
			for _, c := range replicas {
				w.replicaTick(c, belief.Settings{MinReporters: 2, Unknown: true})
			}
		}
	}
	run(20*time.Second, func() bool { return false })
	n := w.nodeNamed(w.running[0].node)
	n.api, n.stuck, n.gossip, n.watchdog, n.cutAt = false, true, false, false, w.now
	run(time.Minute, func() bool { return n.tainted })
	n.api, n.stuck, n.nextRenewal, n.attempt = true, false, w.now, time.Time{}
	run(10*time.Second, func() bool { return n.note == n.real })
	if n.note != n.real || w.deleted > 0 || len(w.problems) > 0 {
		t.Fatalf("seed %d: no dispute before a deletion: note %q, %d deleted, %v", seed, n.note, w.deleted, w.problems)
	}
	noted := w.now
	for _, at := range []time.Duration{silent, silent + 90*time.Second} {
		run(noted.Add(at).Sub(w.now), func() bool {
			if n.tainted && off >= 0 && w.now.Sub(noted) >= off {
				n.tainted, n.taint, n.version = false, "", w.bump()
			}
			return false
		})
		n.api, n.stuck = false, true
	}
	if len(w.problems) == 0 && n.tainted != (off < 0) {
		t.Errorf("seed %d: tainted %v at the end", seed, n.tainted)
	}
	return len(w.problems) > 0
}

// A node that is disputed with the taint on it, and goes silent again, loses its pods and volumes to Kubernetes while they
// run. It does not where somebody has taken the taint off before: the annotation keeps the controller from it. That is
// what docs/controller.md tells a person to do first (docs/adr/0036). RECOVERY_RUNS=N says how many stories.
func TestADisputedNodeGoesSilentAgain(t *testing.T) {
	runs := 20
	if n, err := strconv.Atoi(os.Getenv("RECOVERY_RUNS")); err == nil {
		runs = n
	}
	for _, silent := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
		for _, off := range []time.Duration{-1, 0, 15 * time.Second} {
			wrong := 0
			for seed := range uint64(runs) {
				if disputedStory(t, seed, off, silent) {
					wrong++
				}
			}
			t.Logf("silent again %v after the dispute, the taint comes off after %v: %d of %d lose what runs", silent, off, wrong, runs)
			if before := off >= 0 && off <= silent; before && wrong > 0 || off < 0 && wrong == 0 {
				t.Errorf("silent again %v after the dispute, the taint comes off after %v: %d of %d", silent, off, wrong, runs)
			}
		}
	}
}

package recovery

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// disputedStory plays a node that runs although all agents call it dead, and whose kubelet is silent until the barrier
// is set. The kubelet is heard before anything is deleted, and falls silent again. From then on only Kubernetes acts:
// the pods end as slowly as they may. The taint is removed some time after the dispute was recorded; negative: never.
//
// It reports whether a volume was taken from a running container, or two containers of one ordinal ran.
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

// A node that is in dispute with the taint on it, and becomes silent again, loses its pods and volumes to Kubernetes
// while they run. It does not if the taint was removed before: the annotation stops the controller. That is what
// docs/controller.md tells a person to do first (docs/adr/0036). RECOVERY_RUNS=N sets the number of stories.
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

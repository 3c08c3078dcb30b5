package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// batch is what a random test plays: a number of schedules from a seed on.
type batch struct {
	base uint64
	runs int
}

// asked returns a batch of so many runs: ordinary, or short with -short. SIM_SEED replays one schedule with a trace;
// together with SIM_RUNS it plays that many schedules from there on. A test whose schedules cost share times as much
// plays only one in share of those that SIM_RUNS requests.
func asked(t *testing.T, ordinary, short, share int) batch {
	t.Helper()
	b := batch{base: rand.Uint64() >> 1, runs: ordinary}
	switch {
	case race.Detector:
		// The race detector can judge only what schedules that run beside each other share.
		b.runs = max(2, 2*runtime.GOMAXPROCS(0)/share)
	case testing.Short():
		b.runs = short
	}
	if seed := envNumber(t, "SIM_SEED"); seed != 0 {
		b = batch{base: seed, runs: 1}
	}
	if n := envNumber(t, "SIM_RUNS"); n != 0 {
		b.runs = max(1, int(n)/share)
	}
	return b
}

// play runs the batch on all processors and passes the final states to take in the order of the seeds. The violation
// with the lowest seed fails the test, whatever the number of processors.
func (b batch) play(t *testing.T, schedule func(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster, take func(seed uint64, c *Cluster)) {
	t.Helper()
	violated, said := "", time.Now()
	inOrder(b.runs, func(i int) *Cluster {
		seed := b.base + uint64(i)
		defer func() {
			if p := recover(); p != nil {
				panic(fmt.Sprintf("seed %d (replay: make sim SEED=%d): %v", seed, seed, p))
			}
		}()
		return schedule(seed, b.runs == 1, t.Logf)
	}, func(i int, c *Cluster) (goOn bool) {
		seed := b.base + uint64(i)
		if v := c.Violations(); len(v) > 0 {
			violated = fmt.Sprintf("seed %d (replay: make sim SEED=%d):\n%s", seed, seed, strings.Join(v, "\n"))
			return false
		}
		if take(seed, c); time.Since(said) > time.Minute {
			said = time.Now()
			t.Logf("%d of %d schedules", i+1, b.runs)
		}
		return true
	})
	if violated != "" {
		t.Fatal(violated)
	}
}

// inOrder makes n results on all processors and passes them to take in their order, until take returns false.
func inOrder[T any](n int, do func(i int) T, take func(i int, made T) (goOn bool)) {
	var (
		mu          sync.Mutex
		begun, over int
		waiting     = map[int]T{}
		enough      bool
		all         sync.WaitGroup
	)
	next := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		begun++
		return begun - 1, begun <= n && !enough
	}
	end := func(i int, made T) {
		mu.Lock()
		defer mu.Unlock()
		waiting[i] = made
		for made, ok := waiting[over]; ok && !enough; made, ok = waiting[over] {
			enough = !take(over, made)
			delete(waiting, over)
			over++
		}
	}
	for range min(runtime.GOMAXPROCS(0), n) {
		all.Go(func() {
			for i, ok := next(); ok; i, ok = next() {
				end(i, do(i))
			}
		})
	}
	all.Wait()
}

// Guard: the output of a long run depends only on its seeds, and not on which processor finished first.
func TestResultsComeInTheOrderOfTheirSeeds(t *testing.T) {
	for _, last := range []int{999, 0, 500} {
		var got []int
		inOrder(1000, func(i int) int {
			for range i % 7 {
				runtime.Gosched()
			}
			return i * i
		}, func(i, made int) bool {
			if made != i*i {
				t.Errorf("%d is handed over as %d", made, i)
			}
			got = append(got, i)
			return i != last
		})
		if len(got) != last+1 {
			t.Errorf("%d results up to %d", len(got), last)
		}
		for i, g := range got {
			if g != i {
				t.Fatalf("result %d is that of %d", i, g)
			}
		}
	}
}

// TestRandomSchedules subjects the cores to all faults and checks only safety. It prints the seed of a schedule that
// fails.
func TestRandomSchedules(t *testing.T) {
	b := asked(t, 150, 40, 1)
	resets, bridged, strikes, sentences, proofs := 0, 0, 0, 0, map[watchdog.Proof]int{}
	b.play(t, RandomSchedule, func(_ uint64, c *Cluster) {
		resets, bridged, strikes, sentences = resets+c.Resets(), bridged+c.Bridged(), strikes+c.check.Strikes, sentences+c.Sentences()
		for proof, n := range c.Proofs() {
			proofs[proof] += n
		}
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d resets, %d of them by a node that had learned who lives; %d times beside a majority, %d boots condemned; deaths published: %d proven by time, %d by another boot on the LUN, %d by sentence",
		b.runs, b.base, resets, strikes, bridged, sentences, proofs[watchdog.ProofTime], proofs[watchdog.ProofBoot], proofs[watchdog.ProofSentence])
}

// This test does the same with a Lease in place of the LUN.
func TestRandomLeaseSchedules(t *testing.T) {
	b := asked(t, 150, 40, 1)
	resets, grants, bridged, proofs := 0, 0, 0, map[watchdog.Proof]int{}
	b.play(t, RandomLeaseSchedule, func(_ uint64, c *Cluster) {
		resets, grants, bridged = resets+c.Resets(), grants+c.Grants(), bridged+c.Bridged()
		for proof, n := range c.Proofs() {
			proofs[proof] += n
		}
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d resets, %d times a node began to feed under a grant, %d times beside a majority, deaths published: %d proven by time",
		b.runs, b.base, resets, grants, bridged, proofs[watchdog.ProofTime])
	if b.runs >= 40 && grants == 0 {
		t.Error("no node fed under a grant: the schedules prove nothing")
	}
}

// This test does the same with groups that are large enough for samples. It plays a tenth as many, because each has six
// times as many pairs of nodes.
func TestRandomSampledSchedules(t *testing.T) {
	b := asked(t, 30, 16, 10)
	resets, vouches, sweeps, links, stretched := 0, 0, 0, 0, 0
	b.play(t, RandomSampledSchedule, func(seed uint64, c *Cluster) {
		resets, vouches, sweeps, links = resets+c.Resets(), vouches+c.check.Vouches, sweeps+c.check.Sweeps, links+c.check.Links
		if n := c.check.Stretched; n > 0 {
			t.Logf("seed %d: a quorum lasted longer than allowed, by at most a quarter of the margin, in %d steps", seed, n)
			stretched++
		}
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d resets, %d vouches, %d sweeps, %d checks of whole links; in %d a quorum lasted a little longer than allowed",
		b.runs, b.base, resets, vouches, sweeps, links, stretched)
	if b.runs >= 16 && (vouches == 0 || sweeps == 0 || links == 0) {
		t.Error("no vouch, no sweep, or no whole link: the schedules prove nothing")
	}
}

// Guard: these seeds found mutants of netgossip/probing that a few random seeds can miss: a peer that is never asked
// again after a sweep (12030), or when samples begin (12004, 13000). With sentences 12030 takes another course, in
// which a sweep ended while a peer that it had yet to ask was a sample.
func TestKnownSampledSchedules(t *testing.T) {
	for _, seed := range []uint64{12030, 12004, 13000} {
		// The mutants were found in this course.
		for _, v := range sampledSchedule(seed, false, false, t.Logf).Violations() {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
	// These have sentences. In the second one a node is paused for 80 s while a sample is open; a mutant then vouched
	// for a moment after the pause.
	for _, seed := range []uint64{12030, 3534642627631483337} {
		for _, v := range RandomSampledSchedule(seed, false, t.Logf).Violations() {
			t.Errorf("seed %d, with sentences: %s", seed, v)
		}
	}
}

// envNumber returns the number in an environment variable, or 0 if it is empty.
func envNumber(t *testing.T, name string) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

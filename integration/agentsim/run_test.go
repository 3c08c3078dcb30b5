package agentsim

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

// number returns the value of an environment variable, or a default.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}

// This test plays AGENTSIM_RUNS schedules from AGENTSIM_SEED on; make agentsim sets both variables. If there are many,
// it uses as many processes as there are processors.
func TestRandomSchedules(t *testing.T) { play(t, Random, 20) }

// This test does the same with groups in which nodes take random samples and ask for claims.
func TestRandomSchedulesOfSampledGroups(t *testing.T) { play(t, Sampled, 2) }

func play(t *testing.T, made func(seed uint64) Schedule, runs uint64) {
	switch {
	case race.Detector:
		runs = 2 // its runtime breaks in long bubbles (go.dev/issue/78156)
	case testing.Short():
		runs = max(1, runs/3)
	}
	seed, runs := number(t, "AGENTSIM_SEED", 1), number(t, "AGENTSIM_RUNS", runs)
	if jobs := uint64(runtime.NumCPU()); os.Getenv("AGENTSIM_RUNS") != "" && os.Getenv(oneOfMany) == "" && jobs > 1 && runs >= 4*jobs {
		playIn(t, jobs, seed, runs)
		return
	}
	var sum Result
	var virtual time.Duration
	kinds := map[string]int{}
	began, said := time.Now(), time.Now()
	for i := range runs {
		s := made(seed + i)
		r := run(t, s)
		mustHold(t, s, r)
		virtual += s.End
		sum.Feeds, sum.Resets, sum.Events = sum.Feeds+r.Feeds, sum.Resets+r.Resets, sum.Events+r.Events
		sum.Ties, sum.Deaths, sum.Orders = sum.Ties+r.Ties, sum.Deaths+r.Deaths, sum.Orders+r.Orders
		for _, e := range s.Events {
			kinds[e.Kind.String()]++
		}
		if time.Since(said) > time.Minute {
			said = time.Now()
			t.Logf("%d of %d schedules", i+1, runs)
		}
	}
	var list []string
	for k, n := range kinds {
		list = append(list, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(list)
	t.Logf("%d schedules from seed %d, %v of virtual time in %v: %d feeds, %d resets, %d events told to subscribers, %d proofs of death, %d equal splits of healthy groups, %d orders obeyed, 0 violations\nfaults: %s",
		runs, seed, virtual.Round(time.Second), time.Since(began).Round(time.Second), sum.Feeds, sum.Resets, sum.Events, sum.Deaths, sum.Ties, sum.Orders, strings.Join(list, ", "))
}

// oneOfMany names the variable that is set for the processes of playIn.
const oneOfMany = "AGENTSIM_ONE_OF_MANY"

// playIn plays the schedules in several processes, each of which uses one processor. Each process prints what it has
// played; if one fails, the others continue.
func playIn(t *testing.T, jobs, seed, runs uint64) {
	outputs, errs := make([][]byte, jobs), make([]error, jobs)
	var all sync.WaitGroup
	for j := range jobs {
		from, to := runs*j/jobs, runs*(j+1)/jobs
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
		cmd.Env = append(os.Environ(), oneOfMany+"=1", fmt.Sprintf("AGENTSIM_SEED=%d", seed+from), fmt.Sprintf("AGENTSIM_RUNS=%d", to-from))
		all.Go(func() { outputs[j], errs[j] = cmd.CombinedOutput() })
	}
	all.Wait()
	for j, err := range errs {
		if t.Logf("process %d of %d:\n%s", j+1, jobs, outputs[j]); err != nil {
			t.Errorf("process %d of %d: %v", j+1, jobs, err)
		}
	}
}

func TestScheduleIsMadeFromItsSeed(t *testing.T) {
	for seed := range uint64(50) {
		a, b := Random(seed), Random(seed)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("seed %d: two schedules\n%v\n%v", seed, a, b)
		}
		for node := range a.Nodes {
			a.agentConfig(node, "/nonexistent", 0, a.everybody(), asAll) // panics if it is refused
		}
		for _, e := range a.Events {
			if e.At >= a.End || e.String() == "nothing" {
				t.Errorf("seed %d: event %v at %v of %v", seed, e, e.At, a.End)
			}
		}
	}
}

func TestShrinkFindsWhatMatters(t *testing.T) {
	s := Schedule{}
	for i := range 20 {
		s.Events = append(s.Events, Event{At: time.Duration(i), Kind: Heal})
	}
	s.Events[3].Kind, s.Events[17].Kind = Split, Kill
	runs := 0
	short := Shrink(s, func(s Schedule) bool {
		runs++
		has := func(k Kind) bool { return slices.ContainsFunc(s.Events, func(e Event) bool { return e.Kind == k }) }
		return has(Split) && has(Kill)
	}, 200)
	if len(short.Events) != 2 || short.Events[0].Kind != Split || short.Events[1].Kind != Kill {
		t.Errorf("%d runs, %v", runs, short.Events)
	}
	if short = Shrink(s, func(Schedule) bool { return false }, 5); len(short.Events) != 20 {
		t.Errorf("an unlucky shrink loses events: %v", short.Events)
	}
}

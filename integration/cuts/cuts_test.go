package cuts

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// enableEnv asks for these tests, cacheEnv names the folder for what is fetched, binEnv that with the agent's programs,
	// tableEnv the Markdown file whose tables are brought up to date.
	enableEnv = "FENCING_TEST_CUTS"
	cacheEnv  = "FENCING_CUTS_CACHE"
	binEnv    = "FENCING_BIN"
	tableEnv  = "FENCING_CUTS_TABLE"

	// afterHeal is how long a reset would still be counted after the networks are back: some systems strike then.
	afterHeal = 12 * time.Second
	// proofLimit bounds the wait for what is told of a machine that does not come back.
	proofLimit = 3 * time.Minute
)

var (
	timesFlag    = flag.Int("times", 10, "cuts of each length")
	goneFlag     = flag.Int("gone", 3, "cuts without end and losses of power, each")
	lengthsFlag  = flag.String("lengths", "3,5,8,10,15,20", "of the cuts, in seconds")
	clustersFlag = flag.Int("clusters", 1, "of each system, beside each other")
	systemsFlag  = flag.String("systems", "", "only systems whose names match this regular expression")
	seedFlag     = flag.Uint64("seed", 1, "of the moments at which cuts begin")
)

var systems = []*system{agent("fast"), agent("default"), agent("careful"), pacemaker}

// fault is what happens to one machine of a cluster.
type fault struct {
	length time.Duration // of a cut; 0: it does not end before the others may act
	power  bool          // or the machine loses its power
}

func (f fault) String() string {
	switch {
	case f.power:
		return "power lost"
	case f.length == 0:
		return "cut off for good"
	}
	return fmt.Sprintf("cut of %v", f.length)
}

// outcome is what came of it, as times since the fault; 0: it did not happen.
type outcome struct {
	fault             fault
	reset, idle, told time.Duration // idle: without quorum
	others            int           // machines on the other side that were reset
}

// TestCuts goes through all systems at once.
func TestCuts(t *testing.T) {
	if os.Getenv(enableEnv) == "" {
		t.Skipf("set %s=1 to cut machines off (make test-vms KIND=cuts)", enableEnv)
	}
	if err := missing(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h, err := newHost(ctx, os.Getenv(cacheEnv), os.Getenv(binEnv), "../cluster/uml/preload/xstate.c", func(text string) { fmt.Println(text) })
	if err != nil {
		t.Fatal(err)
	}
	faults, err := allFaults(*lengthsFlag, *timesFlag, *goneFlag)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := regexp.Compile(*systemsFlag)
	if err != nil {
		t.Fatalf("-systems: %v", err)
	}
	dir, err := os.MkdirTemp("", "cuts-")
	if err != nil {
		t.Fatal(err)
	}
	r := &results{began: time.Now(), path: os.Getenv(tableEnv)}
	var all sync.WaitGroup
	for i, s := range systems {
		if !chosen.MatchString(s.name) {
			continue
		}
		row, err := r.row(h, s)
		if err != nil {
			t.Fatal(err)
		}
		left := &queue{faults: slices.Clone(faults)}
		for n := range *clustersFlag {
			rng := rand.New(rand.NewPCG(*seedFlag, uint64(100*i+n)))
			all.Go(func() {
				err := compete(ctx, h, s, filepath.Join(dir, fmt.Sprintf("%d-%d", i, n)), left, rng, func(o outcome) { r.add(row, o) })
				if err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			})
		}
	}
	all.Wait()
	fmt.Print(r)
	if err := r.write(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("what the machines said is kept in %s", dir)
		return
	}
	_ = os.RemoveAll(dir) // nothing of value
}

// allFaults in the order in which they happen: one of each kind first.
func allFaults(lengths string, times, gone int) (faults []fault, err error) {
	for n := range max(times, gone) {
		for text := range strings.SplitSeq(lengths, ",") {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || seconds <= 0 {
				return nil, fmt.Errorf("-lengths: %q is no number of seconds", text)
			}
			if n < times {
				faults = append(faults, fault{length: time.Duration(seconds * float64(time.Second))})
			}
		}
		if n < gone {
			faults = append(faults, fault{}, fault{power: true})
		}
	}
	return faults, nil
}

// queue is what the clusters of a system share.
type queue struct {
	mu     sync.Mutex
	faults []fault // guarded by mu
	next   int     // machine that is cut off; guarded by mu
}

func (q *queue) take() (f fault, victim int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.faults) == 0 {
		return fault{}, 0, false
	}
	f, q.faults = q.faults[0], q.faults[1:]
	q.next++
	return f, q.next % len(names), true
}

// compete goes from fault to fault, on one cluster.
func compete(ctx context.Context, h *host, s *system, dir string, left *queue, rng *rand.Rand, done func(outcome)) error {
	c, err := newCluster(ctx, h, s, dir)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		if err := c.well(ctx); err != nil {
			return err
		}
		f, victim, ok := left.take()
		if !ok {
			return nil
		}
		// Anywhere between two heartbeats.
		if err := wait(ctx, time.Second+time.Duration(rng.Int64N(int64(2*time.Second)))); err != nil {
			return err
		}
		o, err := c.suffer(ctx, f, c.machines[victim])
		if err != nil {
			return fmt.Errorf("%v of %s: %w", f, names[victim], err)
		}
		done(o)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// suffer is one fault, until all is well again.
func (c *cluster) suffer(ctx context.Context, f fault, victim *machine) (outcome, error) {
	at, err := c.inflict(f, victim)
	if err != nil {
		return outcome{}, err
	}
	if f.length > 0 {
		err = wait(ctx, time.Until(at.Add(f.length)))
	} else {
		err = c.untilTold(ctx, at, victim)
	}
	if err != nil {
		return outcome{}, err
	}
	if _, err := c.heal(); err != nil {
		return outcome{}, err
	}
	if f.power {
		if err := victim.start(); err != nil {
			return outcome{}, err
		}
	}
	if err := wait(ctx, afterHeal); err != nil {
		return outcome{}, err
	}
	if err := c.well(ctx); err != nil {
		return outcome{}, err
	}
	return c.outcome(f, victim, at), nil
}

func (c *cluster) inflict(f fault, victim *machine) (time.Time, error) {
	if f.power {
		return time.Now(), victim.kill()
	}
	return c.cut(victim)
}

// untilTold waits until one of the others may act.
func (c *cluster) untilTold(ctx context.Context, at time.Time, victim *machine) error {
	ctx, cancel := context.WithTimeout(ctx, proofLimit)
	defer cancel()
	for c.toldAfter(at, victim) == 0 {
		if wait(ctx, pace) != nil {
			return nil // never told, which is an outcome
		}
	}
	return nil
}

// toldAfter is when the first of the others may act, 0 if none may.
func (c *cluster) toldAfter(at time.Time, victim *machine) (least time.Duration) {
	for _, m := range c.machines {
		if m == victim {
			continue
		}
		moment, ok := m.first(at, func(text string) bool { return c.system.told(text) == victim.name })
		if d := moment.Sub(at); ok && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

func (c *cluster) outcome(f fault, victim *machine, at time.Time) outcome {
	o := outcome{fault: f, told: c.toldAfter(at, victim)}
	for _, m := range c.machines {
		moment, ok := m.resetAfter(at)
		switch {
		case !ok:
		case m == victim:
			o.reset = moment.Sub(at)
		default:
			o.others++
		}
	}
	if moment, ok := victim.first(at, c.system.isIdle); ok {
		o.idle = moment.Sub(at)
	}
	return o
}

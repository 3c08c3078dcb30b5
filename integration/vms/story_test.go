package vms

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

const (
	// upLimit bounds boots and returns: four machines that boot at once share two processors with everything else.
	upLimit = 3 * time.Minute
	// askLimit bounds one question to an agent.
	askLimit = 10 * time.Second
	// recheck is the pause between two checks of all agents: each check costs an emulated processor about 100 ms.
	recheck = 2 * time.Second
	// progressEvery is the interval at which a long wait logs what it waits for.
	progressEvery = 20 * time.Second
	// patience is the time that emulation on busy processors may add to a bound that the agents keep.
	patience = 10 * time.Second
	// If a machine waits for processors for more than starvedShare of the time, slow results in it prove nothing.
	starvedShare = 0.25
	// If the host stands still for longer than standstill, what is observed proves nothing.
	standstill = 2 * time.Second
)

// story is one scenario while it runs.
type story struct {
	*lab
	t       *testing.T
	name    string
	began   time.Time
	stalls  *observe.Stalls
	budget  *fencingv1.TimeBudget // published by the agents
	well    time.Time             // when the scenario began, with all nodes well
	boots   map[string]string     // the incarnations of the nodes at that moment
	dropped []fabric.Hop
	// before is the time for which each machine had waited for processors when the scenario began.
	before map[string]time.Duration
}

// logf logs a line of progress.
func (s *story) logf(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1fs %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// fatal ends the scenario because something did not happen in time. If the machines stood still or waited for
// processors, that proves nothing, and the scenario is skipped. Use t.Fatal for what must never happen, however slow
// the machines are.
func (s *story) fatal(format string, args ...any) {
	s.t.Helper()
	text := fmt.Sprintf(format, args...)
	if took := s.stalls.Since(s.began); took > standstill {
		s.t.Skipf("this proves nothing: the machine stood still for %v: %s", took.Round(time.Millisecond), text)
	}
	elapsed := time.Since(s.began)
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		if waited := s.waited(name) - s.before[name]; waited > time.Duration(starvedShare*float64(elapsed)) {
			s.t.Skipf("this proves nothing: in %v the threads of machine %s waited %v for a processor: %s",
				elapsed.Round(time.Second), name, waited.Round(time.Second), text)
		}
	}
	s.t.Fatal(text)
}

// waited returns the time for which a machine has waited for processors since it was started; 0: unknown.
func (s *story) waited(name string) time.Duration {
	waited, err := s.machines[name].Waited()
	if err != nil {
		s.t.Log(err)
	}
	return waited
}

// begin records the state of the lab before this scenario.
func (s *story) begin(l *lab) {
	s.lab = l
	s.before = map[string]time.Duration{}
	for name := range l.machines {
		s.before[name] = s.waited(name)
	}
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.fatal("%v", err)
	}
}

// run runs a script on a node.
func (s *story) run(node, script string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	out, err := s.machines[node].Run(ctx, script)
	s.must(err)
	return out
}

// status returns what the agent of a node reports about itself, or nil if it does not answer.
func (s *story) status(ctx context.Context, node string) *fencingv1.Status {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := s.machines[node].Get(ctx, "http://127.0.0.1:9110/debug/state")
	if err != nil {
		return nil
	}
	var state struct {
		Status json.RawMessage `json:"status"`
	}
	status := new(fencingv1.Status)
	if json.Unmarshal([]byte(text), &state) != nil || protojson.Unmarshal(state.Status, status) != nil || status.Self == nil {
		return nil
	}
	return status
}

func (s *story) view(of []string) *observe.View {
	v := &observe.View{Now: time.Now(), Status: map[string]*fencingv1.Status{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range of {
		wg.Go(func() {
			if status := s.status(s.t.Context(), node); status != nil {
				mu.Lock()
				v.Status[node] = status
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return v
}

// await asks the nodes repeatedly until the conditions hold.
func (s *story) await(within time.Duration, what string, of []string, conditions ...observe.Condition) *observe.View {
	s.t.Helper()
	v := s.view(of)
	missing := observe.All(conditions...)(v)
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	said := time.Now()
	for missing != "" {
		if time.Since(said) > progressEvery {
			s.logf("waiting: %s", missing)
			said = time.Now()
		}
		if time.Now().After(deadline) {
			s.fatal("%s: not within %v: %s", what, within, missing)
		}
		for _, m := range s.machines {
			s.must(m.Ended())
		}
		<-ticker.C
		v = s.view(of)
		missing = observe.All(conditions...)(v)
	}
	s.logf("%s", what)
	return v
}

// armed holds when all watchdogs run.
func armed(of ...string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range of {
			if !v.Status[node].GetWatchdog().GetArmed() {
				return node + " is not armed"
			}
		}
		return ""
	}
}

// allWell waits until the nodes count each other on all networks, hold their slots and are armed.
func (s *story) allWell(what string) *observe.View {
	s.t.Helper()
	v := s.await(upLimit, what, s.nodes, observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, s.nodes...), observe.Counting(s.nodes...),
		observe.Networks(true, networks, s.nodes), observe.LUNReady(s.nodes...), armed(s.nodes...))
	s.budget = v.Status[s.nodes[0]].GetTimeBudget()
	return v
}

// until waits until a moment, for faults with a fixed length.
func (s *story) until(at time.Time) { <-time.After(time.Until(at)) }

// eventually waits for something in the events of the machines that a slow lab may delay.
func (s *story) eventually(deadline time.Time, what string, condition func() string) {
	s.t.Helper()
	if missing := s.poll(deadline, condition); missing != "" {
		s.fatal("%s: %s", what, missing)
	}
}

// surely waits for something that safety requires: however slow the lab is, two parts must not both live for so long.
func (s *story) surely(deadline time.Time, what string, condition func() string) {
	s.t.Helper()
	if missing := s.poll(deadline, condition); missing != "" {
		s.t.Fatalf("%s: %s", what, missing)
	}
}

func (s *story) poll(deadline time.Time, condition func() string) (missing string) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if missing = condition(); missing == "" || time.Now().After(deadline) {
			return missing
		}
		<-ticker.C
	}
}

// resetAt returns when the hypervisor first saw the node reset after a moment.
func (s *story) resetAt(node string, after time.Time) (time.Time, bool) {
	return s.first(node, after, func(e machine.Event) bool { return isReset(e) })
}

func (s *story) first(node string, after time.Time, is func(machine.Event) bool) (time.Time, bool) {
	events, _ := s.machines[node].Events()
	for _, e := range events {
		if e.At.After(after) && is(e) {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// alive waits until the kernels of the nodes have seen two feeds after a moment, and checks that no node was reset.
func (s *story) alive(of []string, since, after time.Time) {
	s.t.Helper()
	s.eventually(latest(after, time.Now()).Add(3*feedInterval+patience), "fed on", func() string {
		for _, node := range of {
			if at, reset := s.resetAt(node, since); reset {
				s.fatal("%s was reset %v after the fault", node, at.Sub(since))
			}
			if n := len(s.feeds(node, after, time.Now())); n < 2 {
				return fmt.Sprintf("%s was fed %d times", node, n)
			}
		}
		return ""
	})
	s.logf("%s: was still fed, and not reset", strings.Join(of, " "))
}

// unharmed checks that a fault at this moment resets no node: all nodes are still fed when a node that had lost its
// permission because of the fault could no longer be.
func (s *story) unharmed(of []string, at time.Time) {
	s.t.Helper()
	b := s.budget
	s.alive(of, at, at.Add(b.GetDMax().AsDuration()+b.GetFeedInterval().AsDuration()+time.Second))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reset waits until all the nodes were reset, at the latest by the horizon that the agents publish, and records each
// reset.
func (s *story) reset(of []string, cut time.Time, horizon time.Duration) (last time.Time) {
	s.t.Helper()
	s.surely(cut.Add(horizon+patience), fmt.Sprintf("%s: reset", strings.Join(of, " ")), func() string {
		for _, node := range of {
			if _, ok := s.resetAt(node, cut); !ok {
				return node + " was not reset"
			}
		}
		return ""
	})
	for _, node := range of {
		at, _ := s.resetAt(node, cut)
		s.record(node, cut, at, horizon)
		if at.After(last) {
			last = at
		}
	}
	return last
}

// cut drops all traffic between the two sides on the given networks, in addition to what is already cut.
func (s *story) cut(on []string, a, b []string) time.Time {
	at := s.drop(between(on, a, b)...)
	s.logf("cut %s between %s and %s", strings.Join(on, "+"), strings.Join(a, " "), strings.Join(b, " "))
	return at
}

// between returns all traffic between two sets of machines.
func between(on, a, b []string) (hops []fabric.Hop) {
	for _, network := range on {
		for _, x := range a {
			for _, y := range b {
				hops = append(hops, fabric.Hop{Network: network, From: x, To: y}, fabric.Hop{Network: network, From: y, To: x})
			}
		}
	}
	return hops
}

// drop cuts single directions.
func (s *story) drop(hops ...fabric.Hop) time.Time {
	rules := fabric.Rules{Cut: map[fabric.Hop]bool{}}
	for _, hop := range append(hops, s.dropped...) {
		rules.Cut[hop] = true
		s.dropped = append(s.dropped, hop)
	}
	at := time.Now()
	s.fabric.Set(rules)
	return at
}

// heal ends all cuts.
func (s *story) heal() time.Time {
	s.dropped = nil
	at := time.Now()
	s.fabric.Set(fabric.Rules{})
	s.logf("networks healed")
	return at
}

// oneHalf waits until one of the halves was reset as a whole, and returns that half first.
func (s *story) oneHalf(cut time.Time, a, b []string) (lost, won []string) {
	s.t.Helper()
	horizon := s.budget.GetHorizonTie().AsDuration()
	s.surely(cut.Add(horizon+patience), "one half is reset", func() string {
		for _, node := range slices.Concat(a, b) {
			if _, ok := s.resetAt(node, cut); ok {
				return ""
			}
		}
		return "nobody was reset"
	})
	lost, won = a, b
	for _, node := range b {
		if _, ok := s.resetAt(node, cut); ok {
			lost, won = b, a
		}
	}
	last := s.reset(lost, cut, horizon)
	s.alive(won, cut, last)
	return lost, won
}

package vms

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// The stories in this file are about the agent and its machine.

func without(all []string, node string) (rest []string) {
	for _, other := range all {
		if other != node {
			rest = append(rest, other)
		}
	}
	return rest
}

func (s *story) service(node, verb string) {
	s.t.Helper()
	s.must(s.machines[node].Service(s.t.Context(), verb))
}

const killAgent = "kill -9 $(pidof fencing-agent)"

// agentRestarted: the unit restarts a killed agent, and the new one takes over the watchdog while it counts down.
func (s *story) agentRestarted() {
	at := time.Now()
	s.run("n4", killAgent)
	s.logf("killed")
	s.unharmed(s.nodes, at)
}

// agentKilled: nobody feeds the watchdog after the agent is gone.
func (s *story) agentKilled() {
	s.service("n4", "norestart")
	at := time.Now()
	s.run("n4", killAgent)
	s.logf("killed")
	rest := without(s.nodes, "n4")
	s.alive(rest, at, s.reset([]string{"n4"}, at, s.budget.GetHorizonMajority().AsDuration()))
}

// agentStopped: an agent that is stopped no longer feeds, and cannot undo that when it continues later.
func (s *story) agentStopped() {
	at := time.Now()
	s.run("n2", "kill -STOP $(pidof fencing-agent)")
	s.logf("stopped")
	s.alive(without(s.nodes, "n2"), at, s.reset([]string{"n2"}, at, s.budget.GetHorizonMajority().AsDuration()))
}

// pause is longer than the watchdog's timeout, and longer than anything that the others wait for.
const pause = 60 * time.Second

// machinePaused: a machine that was paused while time went on must not be fed when it is resumed.
func (s *story) machinePaused() {
	if built.tsc == 0 {
		s.t.Skip("on this processor an emulated machine has no clock that runs on while it is paused")
	}
	at := time.Now()
	s.must(s.machines["n3"].Signal(syscall.SIGSTOP))
	s.logf("paused")
	rest := without(s.nodes, "n3")
	s.alive(rest, at, at.Add(pause))
	resumed := time.Now()
	s.must(s.machines["n3"].Signal(syscall.SIGCONT))
	s.logf("resumed")
	s.eventually(resumed.Add(patience), "reset after the pause", func() string {
		if _, ok := s.resetAt("n3", at); !ok {
			return "n3 was not reset"
		}
		return ""
	})
	reset, _ := s.resetAt("n3", at)
	if fed := s.feeds("n3", resumed, reset); len(fed) > 0 {
		s.t.Fatalf("n3 was fed %v after it was resumed", fed[0].Sub(resumed))
	}
	s.logf("reset %v after it was resumed, not fed", reset.Sub(resumed).Round(time.Millisecond))
	s.note("n3", at, reset)
	s.alive(rest, at, reset)
}

// shortPause is longer than evidence counts, and shorter than the watchdog's countdown.
const shortPause = 13 * time.Second

// pausedAndCutOff: a permission from before the pause does not allow a feed after it. The watchdog alone would let this
// node live on.
func (s *story) pausedAndCutOff() {
	if built.tsc == 0 {
		s.t.Skip("on this processor an emulated machine has no clock that runs on while it is paused")
	}
	if d := s.budget.GetDMax().AsDuration(); d >= shortPause {
		s.t.Fatalf("evidence counts for %v, which a pause of %v does not outlast", d, shortPause)
	}
	paused := "n3"
	rest := without(s.nodes, paused)
	at := time.Now()
	s.must(s.machines[paused].Signal(syscall.SIGSTOP))
	s.cut(networks, []string{paused}, rest)
	s.until(at.Add(shortPause))
	resumed := time.Now()
	s.must(s.machines[paused].Signal(syscall.SIGCONT))
	s.logf("resumed")
	last := s.reset([]string{paused}, at, s.budget.GetHorizonMajority().AsDuration())
	if fed := s.feeds(paused, resumed, last); len(fed) > 0 {
		s.t.Fatalf("%s was fed %v after it was resumed, by a permission from before the pause of %v", paused, fed[0].Sub(resumed), shortPause)
	}
	s.alive(rest, at, last)
}

// upgrade: all agents are replaced, one after the other. Nobody is reset, and nobody is LEFT.
func (s *story) upgrade() {
	at := time.Now()
	for _, node := range s.nodes {
		s.run(node, "ln -sfn next "+current)
		s.service(node, "restart")
		s.await(upLimit, node+" runs the next version", s.nodes, runs(node, nextVersion),
			observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, s.nodes...), observe.Counting(s.nodes...), observe.LUNReady(s.nodes...), armed(s.nodes...))
	}
	for _, node := range s.nodes {
		if text, ok := s.saidLeft(node, at); ok {
			s.fatal("%s said LEFT during the upgrade: %s", node, text)
		}
	}
	s.unharmed(s.nodes, at)
	// The next scenario boots this version.
	for _, node := range s.nodes {
		s.run(node, "ln -sfn first "+current)
	}
}

func runs(node, version string) observe.Condition {
	return func(v *observe.View) string {
		if got := v.Status[node].GetSelf().GetVersion(); got != version {
			return fmt.Sprintf("%s runs %q", node, got)
		}
		return ""
	}
}

// saidLeft returns a line in which the agent reported another node as LEFT.
func (s *story) saidLeft(node string, after time.Time) (text string, found bool) {
	_, found = s.first(node, after, func(e machine.Event) bool {
		d, ok := agentLine(e)
		if !ok || d.Msg != "membership changed" || len(without(d.Left, node)) == 0 {
			return false
		}
		text = e.Text
		return true
	})
	return text, found
}

// kernelPanic: a kernel that panics restarts the machine by itself, and the others continue.
func (s *story) kernelPanic() {
	at := time.Now()
	ctx := s.t.Context()
	// This command never returns: the reset ends it.
	go func() { _, _ = s.machines["n1"].Run(ctx, "echo c > /proc/sysrq-trigger") }()
	s.eventually(at.Add(watchdogTimeout+patience), "reset after the panic", func() string {
		if _, ok := s.resetAt("n1", at); !ok {
			return "n1 was not reset"
		}
		return ""
	})
	reset, _ := s.resetAt("n1", at)
	s.note("n1", at, reset)
	s.unharmed(without(s.nodes, "n1"), at)
}

// clockJumps: no decision reads the wall clock.
func (s *story) clockJumps() {
	for _, jump := range []int{3600, -7200} {
		at := time.Now()
		s.run("n2", fmt.Sprintf("date -u -s @$(( $(date +%%s) + %d ))", jump))
		s.logf("clock of n2 set by %d s", jump)
		s.unharmed(s.nodes, at)
	}
	s.run("n2", fmt.Sprintf("date -u -s @%d", time.Now().Unix()))
}

// outOfMemory: the kernel kills the agent. The unit's OOMScoreAdjust prevents that, but an operator may have undone it.
func (s *story) outOfMemory() {
	at := time.Now()
	s.run("n3", "echo 1000 > /proc/$(pidof fencing-agent)/oom_score_adj && echo f > /proc/sysrq-trigger")
	s.eventually(at.Add(patience), "the kernel ends the agent", func() string {
		if _, ok := s.first("n3", at, func(e machine.Event) bool { return strings.HasPrefix(e.Text, "agent ended: signal: killed") }); !ok {
			return "it runs"
		}
		return ""
	})
	s.unharmed(s.nodes, at)
}

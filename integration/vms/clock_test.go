package vms

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// moment is an event that carries the time of the guest's own clock. It arrives late, because two processors handle it
// in turn. It is therefore dated by the guest's clock, shifted by the smallest difference that was seen in the same
// boot.
type moment struct {
	guest   float64 // seconds on a clock of the guest
	arrived time.Time
}

// dated returns when each of the moments happened, on the clock of this process.
func dated(moments []moment) (at []time.Time) {
	if len(moments) == 0 {
		return nil
	}
	since := moments[0].arrived
	least := time.Duration(1<<63 - 1)
	for _, m := range moments {
		least = min(least, m.arrived.Sub(since)-seconds64(m.guest))
	}
	for _, m := range moments {
		at = append(at, since.Add(least+seconds64(m.guest)))
	}
	return at
}

func seconds64(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// boots splits the events of a machine at its resets.
func boots(events []machine.Event) (out [][]machine.Event) {
	from := 0
	for i, e := range events {
		if isReset(e) {
			out = append(out, events[from:i])
			from = i + 1
		}
	}
	return append(out, events[from:])
}

func isReset(e machine.Event) bool { return e.Kind == machine.QMP && e.Source == "RESET" }

// feedMoment reads a line of the kernel's trace, such as
// "fencing-agent-103 [000] ..... 30.824545: watchdog_start: watchdog0 err=0".
func feedMoment(e machine.Event) (moment, bool) {
	before, _, ok := strings.Cut(e.Text, ": ")
	fields := strings.Fields(before)
	if e.Kind != control.Feed || e.Source == "stop" || !ok || len(fields) == 0 {
		return moment{}, false
	}
	uptime, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	return moment{uptime, e.At}, err == nil
}

// countdown returns what the node's kernel counted down before the reset: the configured timeout, or the short one if
// the agent had condemned its boot. softdog leaves no trace of a new timeout, so this relies on the agent's log.
func (s *story) countdown(node string, cut, reset time.Time) time.Duration {
	if at, ok := s.decidedAt(node, cut, func(d decision) bool { return d.Reason == "condemned" }); ok && at.Before(reset) {
		return sentenceTimeout
	}
	return watchdogTimeout
}

// decision is what a line of the agent's log contains.
type decision struct {
	Time        time.Time
	Msg, Action string
	Reason      string
	Quorum      bool
	Peer, Boot  string
	Fenced      bool
	Left        []string
	Joined      []string
}

func agentLine(e machine.Event) (d decision, ok bool) {
	if e.Kind != control.Log || e.Source != control.SourceAgent || json.Unmarshal([]byte(e.Text), &d) != nil {
		return d, false
	}
	return d, true
}

// feeds returns the times at which the node's kernel restarted the countdown of its watchdog.
func (s *story) feeds(node string, from, to time.Time) (out []time.Time) {
	events, _ := s.machines[node].Events()
	for _, boot := range boots(events) {
		var moments []moment
		for _, e := range boot {
			if m, ok := feedMoment(e); ok {
				moments = append(moments, m)
			}
		}
		for _, at := range dated(moments) {
			if at.After(from) && at.Before(to) {
				out = append(out, at)
			}
		}
	}
	return out
}

// decidedAt returns when the agent of the node first logged such a decision after a moment.
func (s *story) decidedAt(node string, after time.Time, is func(decision) bool) (time.Time, bool) {
	return s.saidAt(node, after, func(d decision) bool { return d.Msg == "verdict changed" && is(d) })
}

// saidAt returns when the agent of the node first logged such a line after a moment.
func (s *story) saidAt(node string, after time.Time, is func(decision) bool) (time.Time, bool) {
	for _, l := range s.lines(node, after) {
		if is(l.decision) {
			return l.at, true
		}
	}
	return time.Time{}, false
}

// line is a line of the agent's log with the time at which it was written.
type line struct {
	decision
	at time.Time
}

// lines returns what the agent of the node has logged after a moment.
func (s *story) lines(node string, after time.Time) (out []line) {
	events, _ := s.machines[node].Events()
	for _, boot := range boots(events) {
		var moments []moment
		var said []decision
		for _, e := range boot {
			if d, ok := agentLine(e); ok {
				moments = append(moments, moment{float64(d.Time.UnixMicro()) / 1e6, e.At})
				said = append(said, d)
			}
		}
		for i, at := range dated(moments) {
			if at.After(after) {
				out = append(out, line{said[i], at})
			}
		}
	}
	return out
}

func starved(d decision) bool { return d.Action == "starve" }

func wonSplit(d decision) bool { return d.Action == "feed" && d.Reason == "split_won" }

func TestDates(t *testing.T) {
	began := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	line := func(uptime string, arrived time.Duration) machine.Event {
		return machine.Event{Kind: control.Feed, Source: "start", At: began.Add(arrived), Text: "agent-1 [000] ..... " + uptime + ": watchdog_start: watchdog0 err=0"}
	}
	events := []machine.Event{
		line("10.5", 600*time.Millisecond), line("12.5", 2500*time.Millisecond), line("14.5", 5*time.Second),
		{Kind: machine.QMP, Source: "RESET", At: began.Add(14 * time.Second)}, line("3.25", 30*time.Second),
	}
	var got []time.Duration
	for _, boot := range boots(events) {
		var moments []moment
		for _, e := range boot {
			m, ok := feedMoment(e)
			if !ok {
				t.Fatalf("not read: %q", e.Text)
			}
			moments = append(moments, m)
		}
		for _, at := range dated(moments) {
			got = append(got, at.Sub(began).Round(time.Millisecond))
		}
	}
	want := []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond, 4500 * time.Millisecond, 30 * time.Second}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/recorder"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// TestWhatAStepTells: the last records are written once whenever feeding ends, and only if this will reset the node.
func TestWhatAStepTells(t *testing.T) {
	armed, bare := wdt.State{Status: wdt.Armed, Armed: true, Slack: 25 * time.Second}, wdt.State{Status: wdt.Unarmed}
	starved := wdt.State{Status: wdt.Starved, Armed: true}
	effects := func(action watchdog.Action, reason watchdog.Reason, changed bool) watchdog.Effects {
		fx := watchdog.Effects{Changed: changed}
		fx.Decision.Action, fx.Decision.Reason = action, reason
		return fx
	}
	feed, feeding := effects(watchdog.Feed, watchdog.ReasonNetworkQuorum, true), effects(watchdog.Feed, watchdog.ReasonNetworkQuorum, false)
	starve, starving := effects(watchdog.Starve, watchdog.ReasonQuorumLost, true), effects(watchdog.Starve, watchdog.ReasonQuorumLost, false)
	starting := effects(watchdog.Starve, watchdog.ReasonStarting, true)
	condemn := effects(watchdog.Starve, watchdog.ReasonCondemned, true)
	condemn.Condemn = time.Second
	condemned := condemn
	condemned.Changed = false
	strike := starving
	strike.Strike = true

	var h chronicle
	for i, c := range []struct {
		fx      watchdog.Effects
		dog     wdt.State
		strikes bool
		want    []history.Kind
	}{
		{starting, bare, false, []history.Kind{history.Decision, history.Watchdog}},
		{feed, bare, false, []history.Kind{history.Decision}},
		{feeding, armed, false, []history.Kind{history.Watchdog}},
		{feeding, armed, false, nil},
		{starve, armed, false, []history.Kind{history.Decision, history.LastWords}},
		{starving, starved, false, []history.Kind{history.Watchdog}},
		{starving, starved, false, nil},
		{feed, armed, false, []history.Kind{history.Decision, history.Watchdog}},
		{starve, armed, false, []history.Kind{history.Decision, history.LastWords}},
		{strike, armed, false, nil}, // onFence is expire
		{strike, armed, true, []history.Kind{history.Struck}},
		{strike, armed, true, nil},
		{condemn, armed, true, []history.Kind{history.Decision, history.Condemned}},
		{condemned, armed, true, nil},
		{starve, bare, false, []history.Kind{history.Decision, history.Watchdog}}, // this resets nothing
	} {
		var got []history.Kind
		for _, r := range h.records(&c.fx, &c.dog, c.strikes, func() string { return "why" }) {
			got = append(got, r.Kind)
			if r.Kind != history.Watchdog && (r.Text != "why" || r.Reason != c.fx.Decision.Reason.String()) {
				t.Errorf("step %d: %+v", i, r)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

// TestOrdersInTheHistory: the node that gave an order records who gave it there and why. The node that ended knows only
// which node gave it. An order that was refused at once is not recorded.
func TestOrdersInTheHistory(t *testing.T) {
	a := &Agent{}
	a.published.history.recorder = recorder.New(recorder.Config{Clock: func() boottime.Instant { return 0 }})
	w := &order{FenceOrder: publish.FenceOrder{Node: "n4", Boot: 0x024bc581b3a34be3, By: "alice", Reason: "it hangs"}}
	a.noteOrder(w, nil)
	a.noteOrder(w, &watchdog.Refused{Why: watchdog.RefusedBusy})
	w.Reason = ""
	a.noteOrder(w, &watchdog.Refused{Why: watchdog.RefusedDisobeyed})
	var got []string
	for _, r := range a.published.history.recorder.Recent() {
		got = append(got, r.Line())
	}
	want := []string{
		"ordered that n4 ends, which has announced its self-fence: boot 024bc581b3a34be3, by alice, reason: it hangs",
		"ordered that n4 ends, and was not obeyed: boot 024bc581b3a34be3, by alice",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

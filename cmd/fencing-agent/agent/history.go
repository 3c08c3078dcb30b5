package agent

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/recorder"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// chronicle is the agent's history. The loop owns it.
type chronicle struct {
	recorder  *recorder.Recorder // nil: nothing is kept
	sampler   history.Sampler
	dog       wdt.Status
	starving  bool
	condemned bool
	struck    bool
}

// newRecorder creates the writer of the history, unless no history is kept.
func (a *Agent) newRecorder() *recorder.Recorder {
	if a.cfg.Experimental.HistoryMegabytes == 0 {
		return nil
	}
	c := recorder.Config{
		Path: a.cfg.HistoryFile(), Slots: history.SlotsFor(int64(a.cfg.Experimental.HistoryMegabytes) << 20), Boot: a.self.boot,
		Clock: a.clock, Log: a.log, Reg: a.opts.Registry,
	}
	c.Opened = func(err error) {
		if err != nil {
			err = fmt.Errorf("history file %s: %w; the agent tries again, and until then keeps no history over a reset", c.Path, err)
		}
		a.published.parts.Note("history", err)
	}
	if a.opts.Watchdog == nil && a.cfg.Watchdog.Driver != config.DriverNone { // a dry run or a test resets no node
		c.Kernel = recorder.KernelLog
	}
	return recorder.New(c)
}

func (a *Agent) startHistory(background spawn) {
	if a.published.history.recorder == nil {
		return
	}
	a.published.history.recorder.Note(history.Record{Kind: history.Started, Text: "version " + a.opts.Version})
	background(a.published.history.recorder.Run)
}

// chronicle records the results of a step. It runs on the loop, waits for nothing, and runs before the node may be
// taken down.
func (a *Agent) chronicle(fx *watchdog.Effects) {
	h := &a.published.history
	if h.recorder == nil {
		return
	}
	dog := a.guard.feeder.State()
	v := func() string { v := a.verdict(fx.Decision); return v.Text() }
	for _, r := range h.records(fx, &dog, a.guard.strike != nil, v) {
		switch r.Kind {
		case history.LastWords, history.Condemned, history.Struck:
			h.recorder.Last(r)
		default:
			h.recorder.Note(r)
		}
	}
	if !fx.Left.IsEmpty() {
		h.recorder.Note(history.Record{Kind: history.Gone, Nodes: a.roster.Names(fx.Left)})
	}
	if !fx.Joined.IsEmpty() {
		h.recorder.Note(history.Record{Kind: history.Back, Nodes: a.roster.Names(fx.Joined)})
	}
}

// records returns the records that a step adds to this node's history, in order. strikes means that the agent takes the
// node down if fx asks for it.
func (h *chronicle) records(fx *watchdog.Effects, dog *wdt.State, strikes bool, sentence func() string) []history.Record {
	r := history.Record{
		Action: fx.Decision.Action.String(), Reason: fx.Decision.Reason.String(), Quorum: fx.Decision.Quorum, Armed: dog.Armed, Slack: dog.Slack,
	}
	starving := fx.Decision.Action == watchdog.Starve && dog.Armed && fx.Decision.Reason != watchdog.ReasonStarting
	var kinds []history.Kind
	if fx.Changed {
		kinds = append(kinds, history.Decision)
	}
	if starving && !h.starving {
		kinds = append(kinds, history.LastWords)
	}
	if fx.Condemn != 0 && !h.condemned {
		kinds, h.condemned = append(kinds, history.Condemned), true
	}
	if fx.Strike && strikes && !h.struck {
		kinds, h.struck = append(kinds, history.Struck), true
	}
	h.starving = starving
	var out []history.Record
	if len(kinds) > 0 {
		r.Text = sentence()
	}
	for _, k := range kinds {
		r.Kind = k
		out = append(out, r)
	}
	if dog.Status != h.dog {
		h.dog = dog.Status
		out = append(out, history.Record{Kind: history.Watchdog, Text: watchdogIs(dog), Armed: dog.Armed, Slack: dog.Slack})
	}
	return out
}

// watchdogIs describes the state of the watchdog, or in a dry run the state that it would have.
func watchdogIs(dog *wdt.State) string {
	if dog.DryRun {
		return dog.Status.String() + " (dry run: it resets nothing)"
	}
	return dog.Status.String()
}

// sample records the worst values of some seconds.
func (a *Agent) sample(now boottime.Instant, f *picture.Facts) {
	if a.published.history.recorder == nil {
		return
	}
	write, read := f.Latency()
	if r, due := a.published.history.sampler.Note(now.Sub(0), f.Watchdog.Armed, f.Watchdog.Slack, write, read); due {
		a.published.history.recorder.Note(r)
	}
}

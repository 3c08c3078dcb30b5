package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// ErrAbandon is the cause of a context's end that makes Run return as if the process had been killed: nothing is
// disarmed and no peer is told. It is for simulations.
var ErrAbandon = errors.New("abandoned like a killed process")

func abandoned(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrAbandon) }

// maxIdle limits the time between two steps, so that silence leads to a step as well.
const maxIdle = 500 * time.Millisecond

// loop is the goroutine that owns the core. It returns nil after a planned stop, or the error because of which it
// cannot continue.
func (a *Agent) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	a.life.work = newBatch(len(a.cfg.SystemNetworks), a.roster.Size())
	a.life.began = a.clock()
	stopping := ctx.Done()
	for {
		select {
		case <-a.box.wake:
		case <-timer.C:
		case <-stopping:
			if abandoned(ctx) {
				return nil // a killed process announces nothing
			}
			stopping = nil
			a.log.Info("stopping as planned: telling peers and the LUN, then disarming the watchdog")
			a.core.Stop()
			a.published.history.recorder.Note(history.Record{Kind: history.Stopped})
			a.leaving.by = a.clock().Add(a.stopPatience())
		}
		if a.opts.Hold != nil {
			if err := a.opts.Hold(); err != nil {
				return err
			}
		}
		a.box.take(&a.life.work)
		err := a.handle(&a.life.work)
		a.life.work.reset()
		if err != nil {
			return err
		}
		now := a.clock()
		a.life.alive.Store(int64(now))
		wake := a.step(now)
		if stopping == nil {
			if (a.stopKnown(now) || now >= a.leaving.by) && a.mayLeave() {
				return nil
			}
			wake = min(wake, a.sayAgain(now))
		}
		timer.Reset(min(maxIdle, max(0, wake.Sub(now))))
	}
}

// handle passes all reports to the parts that they concern.
func (a *Agent) handle(b *batch) error {
	if b.fatal != nil {
		return b.fatal
	}
	now := a.clock()
	a.hear(b)
	a.linksChanged(b)
	a.signalled(b)
	for _, o := range b.lun {
		a.lunOpened(o)
	}
	for _, l := range b.locked {
		a.core.SlotLocked(now, l.device, l.err)
	}
	a.listed(now, b)
	a.lunAnswered(now, b.completions)
	a.leaseCompleted(b.leases)
	a.followTerms(now, b.termsSaved)
	a.hearWords(b.words)
	a.hearOrders(b.orders)
	return a.identityLost()
}

// identityLost ends the agent if another agent turns out to own this node's slot, and this agent never did: two agents
// have one name, and the other was first.
func (a *Agent) identityLost() error {
	arb := a.core.Arbiter()
	if arb == nil {
		return nil
	}
	err := arb.Failure()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, diskquorum.ErrRival) && !arb.EverClaimed():
		return err
	case !a.lun.failed:
		a.lun.failed = true
		a.log.Error("the LUN is given up until the agent is restarted", "error", err)
	}
	return nil
}

// step evaluates the core and carries out its effects, permission first.
func (a *Agent) step(now boottime.Instant) boottime.Instant {
	began := time.Now()
	a.core.SetWallTime(began.UnixMilli())
	a.core.SetUnheard(a.kube.unheard.Load() && a.cfg.Kubernetes.Follows())
	fx := a.core.Step(now)
	a.metrics.Decided(time.Since(began))
	a.guard.permit(now, fx, a.core.CondemnedBy())
	a.guard.noteArming(now, a.core.Arming())
	a.chronicle(fx)
	a.guard.takeDown(now, a.core.Since(), fx)
	a.disk(now, fx)
	a.say(fx)
	a.demandEvidence()
	if fx.Ask != nil {
		a.gossip.Ask(fx.Ask)
	}
	a.kube.pace.Urge(fx.AskAPI)
	a.noteEdges(now, fx)
	a.publish(now, fx)
	a.answerWords(now, fx)
	a.answerOrders(fx)
	a.noteDeaths(now, fx)
	a.kube.deaths.note(a, now, fx)
	a.kube.sightings.note(a, now, fx)
	a.report(now, fx)
	a.kube.marks.note(a, fx)
	a.members.Follow(now, a.core, a.roster, &fx.Rosters)
	if fx.Rosters.Directory != nil {
		a.renumber(fx.Rosters.Directory) // last: it changes all indices
	}
	return fx.Wake
}

// say passes the statement to the networks.
func (a *Agent) say(fx *watchdog.Effects) {
	a.gossip.Tell(fx.Relay)
	if old, st := a.gossip.Said(), fx.Statement; st != old {
		a.gossip.Say(st, a.roster, urgencyOf(old, st, fx))
	}
}

// urgencyOf is how soon the peers have to get a statement. Its parts about the watchdog and about leaving concern all
// peers. Which peers it sees only matters to peers that count closely, and those get it anyway.
func urgencyOf(old, st *netgossip.Statement, fx *watchdog.Effects) gossip.Urgency {
	switch {
	case st.Sentence > 0 && (old == nil || old.Sentence != st.Sentence):
		return gossip.Last
	case fx.Spread || old == nil || old.Stopping != st.Stopping || old.Sentence != st.Sentence || old.Guard != st.Guard || old.Standing != st.Standing:
		return gossip.Now
	case fx.Nudge:
		return gossip.Soon
	}
	return gossip.Whenever
}

// demandEvidence sets how closely the networks watch the peers.
func (a *Agent) demandEvidence() {
	v := a.core.NetworkView()
	d := a.core.Merger().Demand(&v, a.core.Rosters().Quorum())
	d.Each = a.core.Releasing() || a.core.Arming() || a.core.Rosters().Moving()
	a.gossip.SetDemand(d)
}

func (a *Agent) disk(now boottime.Instant, fx *watchdog.Effects) {
	if fx.Lock >= 0 {
		for _, k := range a.lun.keepers {
			k.Lock(fx.Lock)
		}
	}
	a.submitLUN(now, fx.Ops)
	a.performLease(now)
	if fx.Attempt != nil {
		a.log.Info("ballot ended", "decided", fx.Attempt.Decided, "adopted", fx.Attempt.Adopted,
			"ios", fx.Attempt.IOs, "reason", fx.Attempt.Reason)
	}
}

// report logs a changed decision, once, with everything needed to understand it.
func (a *Agent) report(now boottime.Instant, fx *watchdog.Effects) {
	d := fx.Decision
	if fx.Changed {
		level := slog.LevelInfo
		if d.Action == watchdog.Starve && d.Reason != watchdog.ReasonStarting || d.Action == watchdog.Hold {
			level = slog.LevelWarn
		}
		what := []any{
			"action", d.Action.String(), "reason", d.Reason.String(), "quorum", d.Quorum,
			"tally", a.verdict(d).Tally.String(), "until_s", max(0, d.Until.Sub(now)).Seconds(),
			"view", a.roster.Names(a.core.View().Counted),
		}
		if _, ok := a.grant(now); ok {
			what = append(what, "split", a.core.Split().Split.String(), "why", a.core.Split().Why)
		}
		a.log.Log(context.Background(), level, "verdict changed", what...)
	}
	a.noteTroubles(now)
	if fx.Changed {
		a.countTie(now, d.Reason)
	}
	if fx.Changed || now.Sub(a.published.at) >= time.Second {
		a.alarmNames(a.core.Twins(), gossip.OtherAddress)
		a.reportStrangers(now)
		a.noteBar(now)
		a.noteWorn()
		a.show(now, fx.Changed)
	}
}

// renumber makes the agent use the indices of another roster. The gossip follows, one network after the other. Reports
// with the old indices are handled first; later ones are translated by name.
func (a *Agent) renumber(to *roster.Roster) {
	old := a.box.renumber(len(a.cfg.SystemNetworks), to)
	if err := a.handle(&old); err != nil {
		a.box.put(func(b *batch) { b.fatal = err })
	}
	n := roster.Renumber(a.roster, to)
	a.core.Renumber(to)
	if a.members.Grow(to.Size()) {
		a.core.SetBudget(a.cfg.BudgetFor(a.cfg.LatestReset(), to.Size()))
	}
	prevLeft, deaths := make([]time.Time, to.Size()), make([]watchdog.Death, to.Size())
	for i, k := range n {
		if k >= 0 {
			prevLeft[k], deaths[k] = a.published.left[i], a.deaths.known[i]
		}
	}
	defer a.warnCrowded()
	a.roster, a.published.left, a.deaths.known, a.deaths.fenced = to, prevLeft, deaths, a.core.Deaths().Fenced()
	a.published.flapping = n.Set(a.published.flapping)
	a.links.edges = netgossip.NewEdges(len(a.cfg.SystemNetworks), to.Size())
	a.life.work = newBatch(len(a.cfg.SystemNetworks), to.Size())
	a.gossip.Follow(to)
	if a.published.opened {
		a.published.hub.Update(a.nodes(a.core.Available()), nil)
	}
}

package gossipsim

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// clock returns the virtual time of the bubble.
func clock() boottime.Instant { return boottime.Instant(time.Now().UnixNano()) }

// agent is one life of a node that uses the method [Evidence]: the gossip half of the real agent. Only the goroutine of
// its loop touches merger and last.
type agent struct {
	w      *world
	node   int
	roster *roster.Roster
	boot   uint64
	nets   []*swim.Instance
	peers  []atomic.Pointer[swim.Instance] // the same instances, for the Sink
	doubts *swim.Doubts                    // nil: the parameter set has none
	said   atomic.Pointer[netgossip.Statement]
	leaves atomic.Bool

	mu      sync.Mutex
	reports []report
	warm    bool
	wake    boottime.Wake
	quit    chan struct{}
	loop    sync.WaitGroup

	merger *netgossip.Merger
	last   netgossip.View
	silent []netgossip.Silence
	shown  roster.Set // nodes published as available
	demand netgossip.Demand
}

// report is a message to the loop from an instance or from the node's kernel.
type report struct {
	network, peer int
	answer        netgossip.Answer // without a Statement there was no answer
	at            boottime.Instant // of a change of membership, a miss or a vouch; zero: there was none
	kind          reportKind
	up            bool // the peer is alive, or the network is up, or the miss voids the evidence
	silent        []netgossip.Silence
}

type reportKind uint8

const (
	answered reportKind = iota
	member
	link
	missed
	vouched
	farewell
	doubted
)

// newAgent creates a life of a node. With warm the node starts as if it had been in contact with all others until now.
func newAgent(w *world, node int, boot uint64, warm bool) *agent {
	r := *w.roster
	r.Self = node
	a := &agent{
		w: w, node: node, roster: &r, boot: boot,
		peers: make([]atomic.Pointer[swim.Instance], w.cfg.Networks),
		wake:  boottime.NewWake(), quit: make(chan struct{}),
		merger: netgossip.NewMerger(netgossip.MergerConfig{
			Roster: &r, Networks: w.cfg.Networks, Policy: w.cfg.policy(), MaxAge: w.params.EvidenceMaxAge,
		}),
		warm: warm,
	}
	if warm {
		for k := range w.cfg.Networks {
			for p := range w.roster.Size() {
				a.merger.Answered(netgossip.Answer{Network: k, Peer: p, SentAt: clock(), Statement: w.firstWords[p].statement})
			}
		}
	}
	if !w.undoubted {
		a.doubts = swim.NewDoubts(swim.DoubtsConfig{
			Networks: w.cfg.Networks, Policy: w.cfg.policy(), Clock: clock,
			Left: func(_ *roster.Roster, silent []netgossip.Silence) { a.post(report{kind: doubted, silent: silent}) },
		})
	}
	a.evaluate(clock())
	return a
}

// start opens and starts an instance on each network, and then the loop.
func (a *agent) start() error {
	for k := range a.w.cfg.Networks {
		in, err := swim.New(swim.Config{
			Network: k, Name: networkName(k), Label: labelOf(k), Roster: a.roster,
			BindAddr: addrOf(k, a.node), Port: port, Params: a.w.params, Transport: a.w.fab.listen,
			Clock: clock, Sink: a, Statement: a.said.Load, Logger: slog.New(slog.DiscardHandler), Metrics: a.w.metrics,
			Known: a.known, Doubts: a.doubts,
		})
		if err != nil {
			return errors.Join(err, a.stop(false))
		}
		a.nets = append(a.nets, in)
		a.peers[k].Store(in)
		in.SetDemand(a.demand)
		if err := in.Start(); err != nil {
			return errors.Join(err, a.stop(false))
		}
	}
	a.loop.Go(a.run)
	if a.doubts != nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.loop.Go(func() { a.doubts.Run(ctx) })
		a.loop.Go(func() { <-a.quit; cancel() })
	}
	return nil
}

// stop ends the life. With leave the peers are informed.
func (a *agent) stop(leave bool) error {
	if leave {
		a.leaves.Store(true)
		a.post(report{kind: farewell})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(a.nets))
	for k, in := range a.nets {
		wg.Go(func() { errs[k] = in.Stop(ctx, leave) })
	}
	wg.Wait()
	close(a.quit)
	a.loop.Wait()
	return errors.Join(errs...)
}

func (a *agent) list(network int) (*memberlist.Memberlist, error) { return listOf(a.nets[network]) }

// linkChanged passes on the kernel's report about the node's side of a network.
func (a *agent) linkChanged(network int, up bool) {
	a.post(report{kind: link, network: network, up: up})
}

// post passes a report to the loop. It never blocks.
func (a *agent) post(r report) {
	a.mu.Lock()
	a.reports = append(a.reports, r)
	a.mu.Unlock()
	a.wake.Signal()
}

// MemberChanged implements swim.Sink.
func (a *agent) MemberChanged(network, peer int, alive bool, at boottime.Instant) {
	a.post(report{kind: member, network: network, peer: peer, up: alive, at: at})
}

// Answered implements swim.Sink.
func (a *agent) Answered(x netgossip.Answer) {
	a.post(report{network: x.Network, peer: x.Peer, answer: x})
	a.others(x.Network, func(in *swim.Instance) { in.Proven(a.roster.Name(x.Peer), x.SentAt, x.Statement != nil) })
}

// Vouched implements swim.Sink.
func (a *agent) Vouched(network int, at boottime.Instant) {
	a.post(report{kind: vouched, network: network, at: at})
}

// Missed implements swim.Sink. It makes the other networks ask at once.
func (a *agent) Missed(network, peer int, since boottime.Instant, void bool) {
	a.post(report{kind: missed, network: network, peer: peer, at: since, up: void})
	a.others(network, func(in *swim.Instance) { in.Verify(peer) })
}

// Doubted implements swim.Sink.
func (a *agent) Doubted(network int) { a.others(network, (*swim.Instance).Doubt) }

// others calls do for the instances of the other networks. While the agent starts there may be none.
func (a *agent) others(network int, do func(*swim.Instance)) {
	for k := range a.peers {
		if in := a.peers[k].Load(); in != nil && k != network {
			do(in)
		}
	}
}

// Heard and Conflict implement swim.Sink: neither changes a view.
func (a *agent) Heard(int, int, boottime.Instant) {}
func (a *agent) Conflict(int, string, string)     {}

// run is the loop. It evaluates the merger when a report may have changed the view, and when evidence expires. The real
// agent evaluates at every report, with the same result; for a thousand nodes in one process that would be too slow.
func (a *agent) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []report
	// armed is the time for which the timer is set. To reset it needlessly is expensive, see fabric.schedule.
	var armed boottime.Instant
	for {
		select {
		case <-a.quit:
			return
		case <-a.wake:
		case <-timer.C:
		}
		a.mu.Lock()
		batch, a.reports = a.reports, batch[:0]
		a.mu.Unlock()
		matters := false
		for i := range batch {
			matters = a.take(&batch[i]) || matters
			batch[i] = report{}
		}
		now := clock()
		if matters || now >= a.last.NextExpiry {
			a.evaluate(now)
		}
		if next := a.last.NextExpiry; next != armed {
			armed = next
			timer.Reset(min(time.Hour, max(0, next.Sub(now))))
		}
	}
}

// take passes the report to the merger and reports whether the view may have changed. An answer of a counted peer that
// still sees this node only delays the expiry, and so does a vouch.
func (a *agent) take(r *report) bool {
	switch r.kind {
	case farewell:
		a.say()
		return false
	case doubted:
		a.silent = r.silent
		return true
	case link:
		a.merger.LinkChanged(r.network, r.up)
		if r.up {
			a.nets[r.network].Renew() // its old evidence is void
		}
		return true
	case member:
		a.merger.MemberChanged(r.network, r.peer, r.up, r.at)
		// A vouch may cover the peer now.
		return !r.up || !a.last.Seen.Has(r.peer)
	case missed:
		a.merger.Missed(r.network, r.peer, r.at, r.up)
		return true
	case vouched:
		a.merger.Vouched(r.network, r.at)
		return false
	}
	a.merger.Answered(r.answer)
	s := r.answer.Statement
	if s == nil {
		return !a.last.Counted.Has(r.peer) || r.answer.Sight != netgossip.SightSeen
	}
	return !a.last.Counted.Has(r.peer) || !s.Seen.Has(a.node) || s.RosterDigest != a.roster.Digest || s.RosterEpoch != a.roster.Epoch
}

// evaluate renews the view, the statement and the simulation's record of both.
func (a *agent) evaluate(now boottime.Instant) {
	v := a.merger.Evaluate(now, a.w.quorum)
	changed := v.Seen != a.last.Seen || v.Counted != a.last.Counted
	a.last = v
	if d := a.merger.Demand(&v, a.w.quorum); d != a.demand {
		a.demand = d
		for _, in := range a.nets {
			in.SetDemand(d)
		}
	}
	available, byDoubt := v.Seen, roster.Set{}
	for _, x := range a.silent { // as watchdog.Core publishes it
		if available.Has(x.Peer) && !a.merger.AnsweredSince(x.Peer, x.Since) {
			available.Remove(x.Peer)
			byDoubt.Add(x.Peer)
		}
	}
	available.Add(a.node)
	if changed {
		a.say()
	}
	if changed || available != a.shown {
		a.shown = available
		a.w.obs.changed(a.node, v.Counted, available, byDoubt)
	}
}

// say replaces the statement and sends it to the peers at once, as the agent does when a view has changed.
func (a *agent) say() {
	a.said.Store(a.statement(a.last.Seen, a.last.Counted, a.last.QuorumUntil > 0))
	for _, in := range a.nets {
		in.Nudge()
	}
}

func (a *agent) statement(seen, counted roster.Set, feeding bool) *netgossip.Statement {
	return &netgossip.Statement{
		Boot: a.boot, RosterEpoch: a.roster.Epoch, RosterDigest: a.roster.Digest, Token: netgossip.Token{Nonce: a.boot},
		Seen: seen, View: counted, Feeding: feeding, Stopping: a.leaves.Load(), Version: "sim",
	}
}

// known returns what a warm node knows of its peers: the statement of their first life.
func (a *agent) known(peer int) (*netgossip.Statement, uint64) {
	if !a.warm {
		return nil, 0
	}
	k := a.w.firstWords[peer]
	return k.statement, k.digest
}

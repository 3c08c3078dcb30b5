package agent

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// status is the latest facts for the API. It never waits for the loop, and reads from the file system itself what the
// loop must not wait for. Any goroutine may call it; the caller owns the result.
func (a *Agent) status() *fencingv1.Status {
	f := a.published.facts.Load()
	if f == nil {
		return nil
	}
	st := f.Status(a.clock(), a.guard.until())
	st.PreviousBoot = picture.PreviousBoot(a.published.history.recorder.Before())
	for _, l := range st.GetLuns() {
		if real, err := filepath.EvalSymlinks(l.GetPath()); err == nil {
			l.Device = filepath.Base(real)
		}
	}
	return st
}

// facts describes everything at now. It runs on the loop.
func (a *Agent) facts(now boottime.Instant) *picture.Facts {
	f := &picture.Facts{
		Now: now, Wall: time.Now(), Config: a.cfg,
		Self:    picture.Self{Version: a.opts.Version, Boot: a.self.boot, Started: a.self.started},
		Verdict: a.verdict(a.core.Decision()), Won: a.core.Split().Split == tie.Won, Terms: a.termsFacts(),
		Roster: a.roster, Lists: a.listFacts(),
		View: a.core.View(), Expected: a.core.Rosters().Expected(), Available: a.core.Available(), Restarting: a.core.Restarting(), Fenced: a.core.Deaths().Fenced(), ByLUN: a.core.ByLUN(),
		Nodes: a.nodeFacts(now), Networks: a.networkFacts(now), Devices: a.deviceFacts(now), Slot: a.slotFacts(now),
		Strangers: slices.Clone(a.lun.strangers.names), Lease: a.kube.lease != nil && a.kube.lease.answers,
		Watchdog: a.guard.feeder.State(), Device: a.guard.device, Barred: a.core.Barred(), Missing: a.published.parts.Missing(), Budget: a.budget(),
	}
	if g, ok := a.grant(now); ok {
		f.Grant = &g
	}
	f.API.Configured = a.prefersAPI()
	f.API.Reachable, f.API.At = a.core.API()
	return f
}

// verdict is a decision and its inputs.
func (a *Agent) verdict(d watchdog.Decision) picture.Verdict {
	view, split := a.core.View(), a.core.Split()
	return picture.Verdict{
		Decision: d, Since: a.core.Since(), OnQuorumLoss: a.cfg.OnQuorumLoss,
		Tally:      picture.Tally{Reachable: view.Seen.Len() + 1, Counted: view.Counted.Len(), ByLUN: view.Counted.Minus(a.core.NetworkView().Counted).Len(), Expected: a.core.Rosters().Size(), Quorum: a.core.Rosters().Quorum()},
		TieBreaker: a.core.TieBreaker(d.Reason), Why: split.Why, Relayed: split.Relayed, WaitsForAPI: a.core.AsksAPI(d.Reason),
		DisarmedBy: a.core.DisarmedBy(), OrderedBy: a.core.CondemnedBy(),
	}
}

func (a *Agent) termsFacts() picture.Terms {
	_, others := a.core.TermsHeard()
	return picture.Terms{Own: a.core.Terms().String(), Agreed: a.core.Agreed(), Missing: a.unheard(), Others: others}
}

func (a *Agent) listFacts() picture.Lists {
	s := a.core.Rosters().Succession()
	out := picture.Lists{
		Base: s.Base().Ref(), Newest: s.Top().Epoch, Changing: !s.Settled() || s.Next() != nil, Standing: members.Standing(s), Waiting: a.core.Rosters().WaitingFor(),
	}
	if o := s.Offer(); o != nil {
		out.Newest = o.Epoch
	}
	if next := s.Next(); next != nil {
		out.Newest = next.Epoch
	}
	return out
}

func (a *Agent) nodeFacts(now boottime.Instant) []picture.Node {
	out := make([]picture.Node, a.roster.Size())
	for p := range out {
		n := &out[p]
		n.Said, n.Anchor = a.core.Merger().Statement(p)
		if p == a.roster.Self {
			n.Said, n.Anchor = a.gossip.Said(), now
		}
		n.Sighted, n.Since = a.core.Merger().Sighted(p), a.links.edges.Since(p)
		n.Left, n.LeftReason = a.published.left[p], a.core.LeftReason(p)
		n.Death = a.core.Deaths().Of(p)
		n.Boot = a.core.Deaths().KnownBoot(p)
		n.Note = a.noteOf(a.roster.Name(p), n.Death)
		n.Sentence = a.core.SentenceOf(now, p)
		if in, ok := a.core.Deaths().ProvenIn(now, p); ok {
			n.ProvenIn = &in
		}
	}
	return out
}

func (a *Agent) networkFacts(now boottime.Instant) []picture.Network {
	states := a.gossip.States()
	out := make([]picture.Network, len(states))
	for i, s := range states {
		n := &out[i]
		n.State, n.Up, n.Links = s, a.core.Merger().NetworkUp(i), make([]picture.Link, a.roster.Size())
		for p := range n.Links {
			if p == a.roster.Self {
				continue
			}
			l := &n.Links[p]
			l.Alive, l.Proven, l.Reachable = a.core.Merger().LinkState(i, p, now)
			l.Since = a.links.edges.LinkSince(i, p)
		}
		for _, name := range s.Suspects {
			if p, ok := a.roster.Index(name); ok {
				n.Links[p].Suspect = n.Links[p].Reachable
			}
		}
	}
	return out
}

func (a *Agent) deviceFacts(now boottime.Instant) []picture.Device {
	out := make([]picture.Device, len(a.lun.keepers))
	arb := a.core.Arbiter()
	for i, k := range a.lun.keepers {
		d := &out[i]
		d.Path, d.Trouble = k.Path, a.deviceTrouble(i, arb, now)
		if arb != nil {
			d.InFlight = arb.InFlight(i, now)
			d.Write, d.Read = k.Latency()
		}
	}
	return out
}

func (a *Agent) slotFacts(now boottime.Instant) *picture.Slot {
	arb := a.core.Arbiter()
	if arb == nil {
		return nil
	}
	s := arb.Status(now)
	return &picture.Slot{
		Number: s.Slot, Claimed: s.Claimed, Sequence: s.Sequence, LastWrite: s.LastWrite, LastRead: s.LastRead,
		Rival: errors.Is(arb.Failure(), diskquorum.ErrRival),
	}
}

// budget is the time budget with the driver's own timeout, once that is known. Peers that do not know of a sentence do
// not use its horizon.
func (a *Agent) budget() watchdog.Budget {
	if s := a.guard.feeder.State(); s.Info.Timeout > 0 && !s.Condemned {
		return a.cfg.BudgetFor(s.Info.Latest(), a.members.Largest())
	}
	return a.cfg.BudgetFor(a.cfg.LatestReset(), a.members.Largest())
}

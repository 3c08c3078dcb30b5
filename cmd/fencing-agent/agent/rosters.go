package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	// membersInterval is the time between two looks at the configuration for another list.
	membersInterval = 2 * time.Second
	saveRetry       = 5 * time.Second // after a list could not be stored
	rosterNag       = time.Minute     // between two lines about the same trouble with lists
)

// rosterWork is what the agent has under way about its lists of members. The loop owns it.
type rosterWork struct {
	cache   *rosterCache
	saves   chan *netgossip.Saved // capacity 1: at most one is under way
	nagged  boottime.Instant
	lacking netgossip.RosterRef // was logged as lacking
}

// beginRosters finds out which lists the agent goes by: those it remembers, else the one of its
// configuration.
func (a *Agent) beginRosters() (*netgossip.Succession, error) {
	c := a.cfg
	a.rosters = rosterWork{cache: newRosterCache(c), saves: make(chan *netgossip.Saved, 1)}
	own, err := netgossip.RosterOf(uint64(c.Members.Epoch), c.StaticMembers(), c.NodeName)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	saved, err := a.rosters.cache.load()
	if err != nil {
		return nil, err
	}
	s, err := netgossip.NewSuccession(saved, own, func(r *netgossip.Roster) int { return r.Quorum(int(c.Quorum.Size)) })
	if err != nil {
		return nil, fmt.Errorf("members, and what %s remembers of them: %w", a.rosters.cache.path, err)
	}
	if top := s.Top(); top.Epoch > own.Epoch {
		a.log.Warn("members: a later list than that of the configuration is in use, as the cache says; update the configuration",
			"configured_epoch", own.Epoch, "used_epoch", top.Epoch, "cache", a.rosters.cache.path)
	}
	if s.Fresh() {
		a.log.Warn("members: this node waits until another one says that its list is in force; the first list of a group has epoch 0",
			"epoch", own.Epoch)
	}
	if saved == nil {
		err := a.rosters.cache.save(&netgossip.Saved{Fresh: s.Fresh(), Chain: s.Chain()})
		switch {
		case err != nil && s.Fresh():
			return nil, fmt.Errorf("%w; a node that joins a group must be able to remember the list", err)
		case err != nil:
			a.log.Warn("members: the list cannot be stored, so it cannot be changed while the group runs", "error", err)
		}
	}
	if next := s.Prepare(); next != nil {
		err := a.rosters.cache.save(next)
		if s.Saved(err); err != nil {
			return nil, fmt.Errorf("%w; the changed list of members must be remembered before it is used", err)
		}
	}
	if a.roster, err = s.Directory(nil, a.self(own)); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	return s, nil
}

// self is the own node as a list knows it, or by its own addresses.
func (a *Agent) self(r *netgossip.Roster) netgossip.Member {
	if r.Self >= 0 {
		return r.Members[r.Self]
	}
	return netgossip.Member{Name: a.cfg.NodeName}
}

// startRosters starts the goroutine that stores lists and the one that reads the configuration.
func (a *Agent) startRosters(background spawn) {
	background(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-a.rosters.saves:
				err := a.rosters.cache.save(s)
				if err != nil {
					a.log.Error("members: a list cannot be stored, so it is not taken up", "error", err, "retry", saveRetry)
					wait(ctx, saveRetry)
				}
				a.box.put(func(b *batch) { b.rosterSaved = append(b.rosterSaved, err) })
			}
		}
	})
	if a.opts.ConfigPath != "" {
		background(a.watchMembers)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// watchMembers reads the list again whenever the configuration file has changed.
func (a *Agent) watchMembers(ctx context.Context) {
	var last []byte
	for {
		text, err := os.ReadFile(a.opts.ConfigPath)
		if err == nil && !bytes.Equal(text, last) {
			last = text
			a.readMembers()
		}
		if wait(ctx, membersInterval); ctx.Err() != nil {
			return
		}
	}
}

func (a *Agent) readMembers() {
	m, err := config.LoadMembers(a.opts.ConfigPath, os.Getenv)
	if err != nil {
		a.log.Error("the changed configuration is not valid, its list of members is not taken up", "error", err)
		return
	}
	r, err := netgossip.RosterOf(uint64(m.Epoch), m.List(), a.cfg.NodeName)
	if err != nil {
		a.log.Error("the list of members in the changed configuration", "error", err)
		return
	}
	a.box.put(func(b *batch) { b.rosters = append(b.rosters, r) })
}

// learn takes a list into consideration.
func (a *Agent) learn(r *netgossip.Roster) {
	if arb := a.core.Arbiter(); arb != nil && r.Size() > arb.Slots() {
		a.log.Error("a list of members is not taken up: the LUN has too few slots", "epoch", r.Epoch, "members", r.Size(), "slots", arb.Slots())
		return
	}
	if q := int(a.cfg.Quorum.Size); q > 0 && (q > r.Size() || 2*q <= r.Size()) {
		a.log.Error("a list of members is not taken up: quorum.size does not fit it", "epoch", r.Epoch, "members", r.Size(), "quorum_size", q)
		return
	}
	if err := a.core.LearnRoster(r); err != nil {
		a.log.Error("a list of members is not taken up", "epoch", r.Epoch, "digest", hex64(r.Digest), "error", err)
	}
}

// followRosters carries out what a step wants done about the list of members.
func (a *Agent) followRosters(now boottime.Instant, fx *watchdog.Effects) {
	r := &fx.Rosters
	s := a.core.Succession()
	if r.Save != nil {
		if o := r.Save.Offer; o != nil {
			a.log.Info("members: storing a list, to be taken up when all counted nodes have it", "epoch", o.Epoch,
				"digest", hex64(o.Digest), "members", o.Size())
		}
		a.rosters.saves <- r.Save // has room: the next is not handed out before this one is done
	}
	if r.Changed {
		a.log.Info("members: "+standingText(s), "in_force", s.Base().Ref().String(), "newest", s.Top().Ref().String(),
			"members", s.Top().Size(), "quorum", a.core.Quorum())
		if s.Removed() {
			a.log.Warn("members: this node was removed from the group: it counts no more, and its watchdog is disarmed; stop the agent")
		}
	}
	if a.nagsRosters(now) {
		if !r.Fetch.IsZero() {
			a.nag(now, "members: another node has a later list; give this node the same configuration", "node", a.roster.Name(r.From), "list", r.Fetch.String())
		}
		if r.Rival >= 0 {
			a.nag(now, "members: another list has the same epoch, and neither node counts the other; raise members.epoch with each change of the list",
				"node", a.roster.Name(r.Rival))
		}
		if w := a.core.WaitingFor(); !w.IsEmpty() {
			a.nag(now, "members: a change of the list is under way", "stage", standingText(s), "waiting_for", a.roster.Names(w))
		}
	}
	if r.Directory != nil {
		a.renumber(r.Directory)
	}
}

func (a *Agent) nagsRosters(now boottime.Instant) bool {
	return a.rosters.nagged == 0 || now.Sub(a.rosters.nagged) >= rosterNag
}

func (a *Agent) nag(now boottime.Instant, msg string, attrs ...any) {
	a.rosters.nagged = now
	a.log.Warn(msg, attrs...)
}

// standingText says in words how the change of a list stands.
func standingText(s *netgossip.Succession) string {
	switch {
	case s.Removed():
		return "this node is not on the list in force"
	case s.Fresh():
		return "no list is known to be in force"
	case len(s.Chain()) > 1:
		var epochs []string
		for _, r := range s.Chain() {
			epochs = append(epochs, fmt.Sprint(r.Epoch))
		}
		return "majorities of the lists of epochs " + strings.Join(epochs, " and ") + " are needed"
	case s.Offer() != nil:
		return fmt.Sprintf("the list of epoch %d is ready to be taken up", s.Offer().Epoch)
	default:
		return "one list is in force"
	}
}

// renumber makes another roster the one by whose indices everything counts, and has the
// gossip follow, one network after the other. What was reported by the old numbers is
// handled first; what still comes is translated by name.
func (a *Agent) renumber(to *netgossip.Roster) {
	old := a.box.renumber(len(a.nets), to)
	if err := a.handle(&old); err != nil {
		a.box.put(func(b *batch) { b.fatal = err })
	}
	n := netgossip.Renumber(a.roster, to)
	a.core.Renumber(to)
	prevLeft, deaths := make([]time.Time, to.Size()), make([]watchdog.Death, to.Size())
	for i, k := range n {
		if k >= 0 {
			prevLeft[k], deaths[k] = a.prevLeft[i], a.deaths[i]
		}
	}
	a.roster, a.prevLeft, a.deaths, a.fenced = to, prevLeft, deaths, a.core.Fenced()
	a.edges = netgossip.NewEdges(len(a.nets), to.Size())
	a.work = newBatch(len(a.nets), to.Size())
	select {
	case <-a.rebuild:
	default:
	}
	a.rebuild <- to // has room: the only sender has just made it
	if a.opened {
		a.hub.Update(a.nodes(a.core.Available()), nil)
	}
}

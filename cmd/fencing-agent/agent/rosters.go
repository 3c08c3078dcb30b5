package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	saveRetry   = 5 * time.Second // after a list could not be stored
	askInterval = 5 * time.Second // between two questions to the source for a list that peers have
	repeatAfter = time.Minute     // between two lines about the same trouble with lists
)

// rosterWork is what the agent has under way about its lists of members. The loop owns it.
type rosterWork struct {
	cache      *rosterCache
	source     MemberSource
	kube       *kubeMembers       // the same, if that is where lists come from
	unnumbered bool               // its lists come without epochs
	again      chan struct{}      // capacity 1: the source is to read again soon
	asked      boottime.Instant   // it was told so then
	refused    string             // why its latest list was refused
	saves      chan *roster.Saved // capacity 1: at most one is under way
	complained boottime.Instant
	handing    handing
	largest    int // most members that a roster in force ever had: what the time budget is made for
}

// beginRosters finds out which lists the agent goes by: those it remembers, else the first one
// of its source.
func (a *Agent) beginRosters(ctx context.Context) (*roster.Succession, error) {
	c := a.cfg
	a.rosters.cache, a.rosters.saves, a.rosters.again = newRosterCache(c), make(chan *roster.Saved, 1), make(chan struct{}, 1)
	a.rosters.source = a.opts.Members
	switch {
	case a.rosters.source != nil:
	case c.Members.Source == config.SourceKubernetes:
		a.rosters.kube = a.kubeMembers()
		a.rosters.source = a.rosters.kube
	default:
		a.rosters.source = &fileMembers{config: c, path: a.opts.ConfigPath, log: a.log}
	}
	saved, err := a.rosters.cache.load()
	if err != nil {
		return nil, err
	}
	own, err := a.firstList(ctx, saved != nil)
	if err != nil {
		return nil, err
	}
	s, err := a.succession(saved, own)
	if err != nil {
		return nil, err
	}
	if next := s.Prepare(); next != nil {
		err := a.rosters.cache.save(next)
		if s.Saved(err); err != nil {
			return nil, fmt.Errorf("%w; the changed list of members must be remembered before it is used", err)
		}
	}
	self := roster.Member{Name: c.NodeName}
	if own != nil && own.Self >= 0 {
		self = own.Members[own.Self]
	}
	if a.roster, err = s.Directory(nil, self); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	a.rosters.showPresent(s)
	return s, nil
}

// showPresent tells the source, and peers that lack one, by which lists the node goes.
func (w *rosterWork) showPresent(s *roster.Succession) {
	w.handing.showGives(s)
	if w.kube == nil {
		return
	}
	// What a fresh node goes by is no more than what it was shown.
	if r := s.Top(); !s.Fresh() && w.kube.present.Load() != r {
		w.kube.present.Store(r)
	}
}

// firstList is the first list of the source; nil if that has none to give at once, and none is needed.
func (a *Agent) firstList(ctx context.Context, remembered bool) (*roster.Roster, error) {
	l, err := a.rosters.source.First(ctx, remembered)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	if remembered && len(l.Members) == 0 {
		return nil, nil
	}
	a.rosters.unnumbered = !l.Numbered
	own, err := l.roster(a.cfg.NodeName)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	return own, nil
}

// succession goes on with what is remembered, or begins with the first list of the source.
func (a *Agent) succession(saved *roster.Saved, own *roster.Roster) (*roster.Succession, error) {
	quorum := func(r *roster.Roster) int { return r.Quorum(int(a.cfg.Quorum.Size)) }
	begin, numbered := saved, own
	if a.rosters.unnumbered {
		numbered = nil
		if saved == nil {
			begin = &roster.Saved{Fresh: true, Chain: []*roster.Roster{own}}
		}
	}
	s, err := roster.NewSuccession(begin, numbered, quorum)
	if err != nil {
		return nil, fmt.Errorf("members, and what %s remembers of them: %w", a.rosters.cache.path, err)
	}
	if top := s.Top(); numbered != nil && top.Epoch > numbered.Epoch {
		a.log.Warn("members: a later list than that of the configuration is in use, as the cache says; update the configuration",
			"configured_epoch", numbered.Epoch, "used_epoch", top.Epoch, "cache", a.rosters.cache.path)
	}
	switch {
	case s.Fresh() && s.Base().Epoch == 0:
		a.log.Warn("members: this node remembers no list; it waits until another one says that this list is in force, or all its members have met",
			"members", s.Base().Size())
	case s.Fresh():
		a.log.Warn("members: this node waits until another one says that its list is in force; the first list of a group has epoch 0",
			"epoch", s.Base().Epoch)
	}
	if saved != nil {
		return s, nil
	}
	// Who forgets its list goes by whatever the configuration says after the next restart: two
	// parts of a group could be quorate by two lists of one epoch.
	if err := a.rosters.cache.save(&roster.Saved{Fresh: s.Fresh(), Chain: s.Chain()}); err != nil {
		return nil, fmt.Errorf("%w; the list must be remembered over a restart: make the folder writable for the agent, or set members.cacheFile", err)
	}
	return s, nil
}

// startRosters starts the goroutine that stores lists and the one that follows their source.
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
					boottime.Wait(ctx, saveRetry)
				}
				a.box.put(func(b *batch) { b.rosterSaved = append(b.rosterSaved, err) })
			}
		}
	})
	background(func(ctx context.Context) {
		a.rosters.source.Follow(ctx, a.rosters.again, func(l MemberList) {
			a.box.put(func(b *batch) { b.lists = append(b.lists, l) })
		})
	})
}

// learn takes a list of the source into consideration.
func (a *Agent) learn(l MemberList) {
	r, err := l.roster(a.cfg.NodeName)
	if err == nil {
		err = a.fits(r)
	}
	if err == nil && l.Numbered {
		err = a.core.LearnRoster(r)
	}
	switch {
	case err == nil:
		a.rosters.refused = ""
	case err.Error() != a.rosters.refused: // a source shows the same list again and again
		a.rosters.refused = err.Error()
		a.log.Error("a list of members is not taken up", "epoch", l.Epoch, "members", len(l.Members), "error", err)
	}
	if err == nil && !l.Numbered {
		a.core.SightRoster(r, l.ReadAt)
	}
}

// fits reports why a list cannot be gone by with the configuration of this node.
func (a *Agent) fits(r *roster.Roster) error {
	if arb := a.core.Arbiter(); arb != nil && r.Size() > arb.Slots() {
		return fmt.Errorf("the LUN has %d slots for %d members: make a larger one with fencectl lun init", arb.Slots(), r.Size())
	}
	if q := int(a.cfg.Quorum.Size); q > 0 && (q > r.Size() || 2*q <= r.Size()) {
		return fmt.Errorf("quorum.size %d does not fit %d members: it must be more than half of them and no more than all", q, r.Size())
	}
	return nil
}

// readAgain asks the source for the list that a peer has and this node lacks.
func (a *Agent) readAgain(now boottime.Instant) {
	if a.rosters.asked > 0 && now.Sub(a.rosters.asked) < askInterval {
		return
	}
	a.rosters.asked = now
	select {
	case a.rosters.again <- struct{}{}:
	default: // it has been asked already
	}
}

// followRosters carries out what a step wants done about the list of members.
func (a *Agent) followRosters(now boottime.Instant, fx *watchdog.Effects) {
	r := &fx.Rosters
	s := a.core.Succession()
	if r.Save != nil {
		if o := r.Save.Offer; o != nil {
			a.log.Info("members: storing a list, to be taken up when all counted nodes have stored it", "epoch", o.Epoch,
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
	if !r.Fetch.IsZero() {
		a.readAgain(now)
	}
	coming := a.askForList(now, r)
	if a.nagsRosters(now) {
		if !r.Fetch.IsZero() && !coming {
			a.complain(now, "members: another node has a list that this node's source does not show; give both the same configuration", "node", a.roster.Name(r.From), "list", r.Fetch.String())
		}
		if r.Rival >= 0 {
			a.complain(now, "members: another list has the same epoch, and neither node counts the other; raise members.epoch with each change of the list",
				"node", a.roster.Name(r.Rival))
		}
		if w := a.core.WaitingFor(); !w.IsEmpty() {
			a.complain(now, "members: a change of the list is under way", "stage", standingText(s), "waiting_for", a.roster.Names(w))
		}
	}
	a.rosters.showPresent(s)
	if r.Directory != nil {
		a.renumber(r.Directory)
	}
}

func (a *Agent) nagsRosters(now boottime.Instant) bool {
	return a.rosters.complained == 0 || now.Sub(a.rosters.complained) >= repeatAfter
}

func (a *Agent) complain(now boottime.Instant, msg string, attrs ...any) {
	a.rosters.complained = now
	a.log.Warn(msg, attrs...)
}

// standingText says in words how the change of a list stands.
func standingText(s *roster.Succession) string {
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
	case s.Next() != nil:
		return fmt.Sprintf("the list of epoch %d is known, and stored when all counted nodes know it", s.Next().Epoch)
	case s.Offer() != nil:
		return fmt.Sprintf("the list of epoch %d is ready to be taken up", s.Offer().Epoch)
	default:
		return "one list is in force"
	}
}

// renumber makes another roster the one by whose indices everything counts, and has the
// gossip follow, one network after the other. What was reported by the old numbers is
// handled first; what still comes is translated by name.
func (a *Agent) renumber(to *roster.Roster) {
	old := a.box.renumber(len(a.cfg.SystemNetworks), to)
	if err := a.handle(&old); err != nil {
		a.box.put(func(b *batch) { b.fatal = err })
	}
	n := roster.Renumber(a.roster, to)
	a.core.Renumber(to)
	if to.Size() > a.rosters.largest { // never back: peers may reckon with what they were told
		a.rosters.largest = to.Size()
		a.core.SetBudget(a.cfg.BudgetFor(a.cfg.Watchdog.Timeout, a.rosters.largest))
	}
	prevLeft, deaths := make([]time.Time, to.Size()), make([]watchdog.Death, to.Size())
	for i, k := range n {
		if k >= 0 {
			prevLeft[k], deaths[k] = a.published.left[i], a.deaths.known[i]
		}
	}
	defer a.warnCrowded()
	a.roster, a.published.left, a.deaths.known, a.deaths.fenced = to, prevLeft, deaths, a.core.Fenced()
	a.links.edges = netgossip.NewEdges(len(a.cfg.SystemNetworks), to.Size())
	a.life.work = newBatch(len(a.cfg.SystemNetworks), to.Size())
	a.gossip.Follow(to)
	if a.published.opened {
		a.published.hub.Update(a.nodes(a.core.Available()), nil)
	}
}

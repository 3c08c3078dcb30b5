package agent

import (
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	handInterval = 2 * time.Second  // between two peers, or networks, that are asked for a list
	handPatience = 10 * time.Second // after which people are told that it does not come
)

// handing is what the agent has under way about lists that agents hand to each other.
// The loop owns all but gives.
type handing struct {
	gives   atomic.Pointer[[]*roster.Roster] // what may be handed over; the gossip reads it
	version uint64                           // of the succession, that gives was made for

	list  roster.Ref // that is asked for; zero: none
	since boottime.Instant
	asked boottime.Instant
	tries int

	refused   roster.Ref // came, and cannot be gone by here
	refusedAt boottime.Instant
}

// showGives follows the lists that this node goes by.
func (h *handing) showGives(s *roster.Succession) {
	if h.gives.Load() != nil && h.version == s.Version() {
		return
	}
	h.version = s.Version()
	lists := s.HandsOver()
	h.gives.Store(&lists) // the succession does not change a chain that it has shown
}

// handsOver is swim.Config.HandsOver.
func (h *handing) handsOver(list roster.Ref) *roster.Roster {
	if gives := h.gives.Load(); gives != nil {
		for _, r := range *gives {
			if r.Ref() == list {
				return r
			}
		}
	}
	return nil
}

// askForList asks one of those who have taken a list up for it, each time another one, on
// another network. It reports whether there is reason to wait for it.
func (a *Agent) askForList(now boottime.Instant, fx *watchdog.RosterEffects) bool {
	h := &a.rosters.handing
	if fx.Fetch != h.list {
		h.list, h.since, h.asked, h.tries = fx.Fetch, now, 0, 0
	}
	if fx.Fetch.IsZero() || fx.Holders.IsEmpty() || fx.Fetch == h.refused && now.Sub(h.refusedAt) < repeatAfter {
		return false
	}
	if h.asked == 0 || now.Sub(h.asked) >= handInterval {
		a.gossip.Fetch(a.roster.Names(fx.Holders), a.roster.Self, h.tries, fx.Fetch)
		h.asked = now
		h.tries++
	}
	return now.Sub(h.since) < handPatience
}

// learnHanded takes a list that was handed over into consideration, like one of the source.
func (a *Agent) learnHanded(r *roster.Roster) {
	h := &a.rosters.handing
	if r.Ref() != h.list {
		return // it has come on another network, or is not wanted any more
	}
	err := a.fits(r)
	if err == nil {
		err = a.core.HandRoster(r)
	}
	if err != nil {
		h.refused, h.refusedAt = r.Ref(), a.clock()
		a.log.Error("a list of members that another node has handed over is not taken up", "list", r.Ref().String(), "members", r.Size(), "error", err)
		return
	}
	h.list = roster.Ref{}
	a.log.Info("members: another node has handed over a list that this node's source does not show", "list", r.Ref().String(), "members", r.Size())
}

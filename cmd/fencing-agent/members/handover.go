package members

import (
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	handInterval = 2 * time.Second  // between two peers, or networks, that are asked for a list
	handPatience = 10 * time.Second // after which the log says that the list does not arrive
)

// handing is the agent's work on lists that agents hand to each other. The loop owns all fields but gives.
type handing struct {
	gives   atomic.Pointer[[]*roster.Roster] // what may be handed over; the gossip reads it
	version uint64                           // of the succession for which gives was made

	list  roster.Ref // the list that is asked for; zero: none
	since boottime.Instant
	asked boottime.Instant
	tries int

	refused   roster.Ref // arrived, but cannot be used here
	refusedAt boottime.Instant
}

// showGives follows the lists that this node uses.
func (h *handing) showGives(s *roster.Succession) {
	if h.gives.Load() != nil && h.version == s.Version() {
		return
	}
	h.version = s.Version()
	lists := s.HandsOver()
	h.gives.Store(&lists) // the succession does not change a chain that it has shown
}

// HandsOver returns a list that this node uses, nil if it uses no such list. Any goroutine may call it.
func (m *Members) HandsOver(list roster.Ref) *roster.Roster {
	if gives := m.handing.gives.Load(); gives != nil {
		for _, r := range *gives {
			if r.Ref() == list {
				return r
			}
		}
	}
	return nil
}

// ask asks a node that uses a list for that list, each time another node, or on another network. It reports whether it
// is too early to complain that the list is missing.
func (m *Members) ask(now boottime.Instant, directory *roster.Roster, fx *watchdog.RosterEffects) bool {
	h := &m.handing
	if fx.Fetch != h.list {
		h.list, h.since, h.asked, h.tries = fx.Fetch, now, 0, 0
	}
	if fx.Fetch.IsZero() || fx.Holders.IsEmpty() || fx.Fetch == h.refused && now.Sub(h.refusedAt) < repeatAfter {
		return false
	}
	if h.asked == 0 || now.Sub(h.asked) >= handInterval {
		m.cfg.Fetch(directory.Names(fx.Holders), h.tries, fx.Fetch)
		h.asked = now
		h.tries++
	}
	return now.Sub(h.since) < handPatience
}

// LearnHanded considers a list that was handed over, like a list of the source.
func (m *Members) LearnHanded(now boottime.Instant, core *watchdog.Core, r *roster.Roster) {
	h := &m.handing
	if r.Ref() != h.list {
		return // the list has arrived on another network already, or is no longer wanted
	}
	err := m.fits(core, r)
	if err == nil {
		err = core.Rosters().Succession().Hand(r)
	}
	if err != nil {
		h.refused, h.refusedAt = r.Ref(), now
		m.log.Error("a list of members that another node handed over is not adopted", "list", r.Ref().String(), "members", r.Size(), "error", err)
		return
	}
	h.list = roster.Ref{}
	m.log.Info("another node handed over a list of members that this node's source does not show", "list", r.Ref().String(), "members", r.Size())
}

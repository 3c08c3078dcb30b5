package members

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	saveRetry   = 5 * time.Second // after a list could not be stored
	askInterval = 5 * time.Second // between two questions to the source for a list that peers have
	repeatAfter = time.Minute     // between two lines about the same trouble with lists
)

// Config is what Members need. Each function's comment says how it is called.
type Config struct {
	Config *config.Config
	Path   string         // of the file of Config, which is read again when it changes; empty: it is never read again
	Source Source         // nil: as configured
	Kube   *client.Client // of the API server, if the list comes from there
	// Node gets what the controller reports about this node's Node, if the list comes from the controller. It is called
	// from a goroutine that Start has started, and must not block. It may be nil.
	Node func(ownnode.State)
	// Reached gets whether the controller answers, each time that this may have changed. It is called like Node. It may
	// be nil.
	Reached func(bool)
	// NodeUID returns the UID of the latest Node that was passed to Node, even before a restart. The same goroutine
	// calls both; nil: none is known.
	NodeUID func() string
	// Found gets all deaths that the controller has found by now, if the list comes from the controller. It is called
	// like Node.
	Found    func([]deaths.Death)
	Registry prometheus.Registerer // for the metrics of the controller as a source; nil: none
	Version  string                // of the agent
	Logger   *slog.Logger
	Clock    boottime.Clock

	// Local finds this node's address on a network; if there are several, the listed one. The zero Addr: none is listed.
	Local func(sn *config.SystemNetwork, listed netip.Addr) (netip.Addr, error)
	// Waiting answers probes of the agent's health until it is stopped, while Begin waits for a first list.
	Waiting func(problem *atomic.Pointer[string]) (stop func())

	// Listed gets each list that the source shows, and Saved the outcome of each write. Both are called from goroutines
	// that Start has started, and must not block.
	Listed func(List)
	Saved  func(error)
	// Fetch asks one of the holders of a list for that list, each try another holder. Follow calls it.
	Fetch func(holders []string, try int, list roster.Ref)
}

// Members holds and stores this node's lists of members.
type Members struct {
	cfg        Config
	log        *slog.Logger
	cache      *cache
	source     Source
	nodes      *nodeSource        // source, if it is the API server's Nodes
	controller *controllerSource  // the same
	unnumbered bool               // the lists of the source have no epochs
	again      boottime.Wake      // the source should read again soon
	asked      boottime.Instant   // when the source was last asked
	refused    string             // why the latest list of the source was refused
	saves      chan *roster.Saved // capacity 1: at most one is under way
	complained boottime.Instant
	handing    handing
	largest    int
	begun      *roster.Saved // what Keep has to store; nil: everything is stored
	alone      bool          // the first list names only this node
}

// New prepares everything, and reads nothing yet.
func New(c Config) *Members {
	m := &Members{cfg: c, log: c.Logger, cache: newCache(c.Config), source: c.Source, saves: make(chan *roster.Saved, 1), again: boottime.NewWake()}
	switch {
	case m.source != nil:
	case c.Config.Members.Source == config.SourceKubernetes:
		m.nodes = newNodeSource(&c)
		m.source = m.nodes
	case c.Config.Members.Source == config.SourceController:
		m.controller = newControllerSource(&c)
		m.source = m.controller
	default:
		m.source = &fileSource{config: c.Config, path: c.Path, log: c.Logger}
	}
	return m
}

// FromNodes reports whether the list is made of the API server's Nodes.
func (m *Members) FromNodes() bool { return m.nodes != nil }

// Begin finds out which lists the agent uses: the remembered ones, otherwise the first one from its source, for which
// it waits until ctx ends. All indices are those of the directory.
func (m *Members) Begin(ctx context.Context) (s *roster.Succession, directory *roster.Roster, err error) {
	saved, err := m.cache.load()
	if err != nil {
		return nil, nil, err
	}
	own, err := m.first(ctx, saved != nil)
	if err != nil {
		return nil, nil, err
	}
	if s, err = m.succession(saved, own); err != nil {
		return nil, nil, err
	}
	if next := s.Prepare(); next != nil {
		err := m.cache.save(next)
		if s.Saved(err); err != nil {
			return nil, nil, fmt.Errorf("%w; the changed list of members must be stored before it is used", err)
		}
	}
	self := roster.Member{Name: m.cfg.Config.NodeName}
	if own != nil && own.Self >= 0 {
		self = own.Members[own.Self]
	}
	if directory, err = s.Directory(nil, self); err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	m.showPresent(s)
	m.largest = directory.Size()
	return s, directory, nil
}

// Largest is the most members that a directory ever had. The time budget is computed for it, and never gets shorter,
// since peers may depend on the earlier figure.
func (m *Members) Largest() int { return m.largest }

// Grow records the size of another directory, and reports whether it is the largest so far.
func (m *Members) Grow(size int) bool {
	if size <= m.largest {
		return false
	}
	m.largest = size
	return true
}

// showPresent tells the source, and peers that lack a list, which lists the node uses.
func (m *Members) showPresent(s *roster.Succession) {
	m.handing.showGives(s)
	if m.controller != nil {
		m.controller.waits.Store(s.Fresh() && s.Base().Epoch == 0)
	}
	if s.Fresh() {
		return // what a fresh node uses is only what it was shown
	}
	if m.nodes != nil {
		m.nodes.present.Store(s.Top())
	}
	if m.controller != nil {
		m.controller.present.Store(s.Top())
	}
}

// first is the first list of the source; nil if the source has none at once, and none is needed.
func (m *Members) first(ctx context.Context, remembered bool) (*roster.Roster, error) {
	l, err := m.source.First(ctx, remembered)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	if remembered && len(l.Members) == 0 {
		return nil, nil
	}
	m.unnumbered = !l.Numbered || l.Founded
	if l.Founded {
		l.Epoch = 0
	}
	own, err := l.roster(m.cfg.Config.NodeName)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	return own, nil
}

// succession goes on with what is remembered, or begins with the first list of the source.
func (m *Members) succession(saved *roster.Saved, own *roster.Roster) (*roster.Succession, error) {
	quorum := func(r *roster.Roster) int { return r.Quorum(int(m.cfg.Config.Quorum.Size)) }
	begin, numbered := saved, own
	vouched := !m.unnumbered && own != nil && own.Epoch == 0 && (saved == nil || saved.Fresh)
	if m.unnumbered || vouched {
		numbered = nil
		if saved == nil {
			begin = &roster.Saved{Fresh: true, Chain: []*roster.Roster{own}}
		}
	}
	s, err := roster.NewSuccession(begin, numbered, quorum)
	if err != nil {
		return nil, fmt.Errorf("members, and what %s remembers of them: %w", m.cache.path, err)
	}
	forgot := false
	if vouched {
		// Invariant: a node without memory does not start with a list in force that no other node uses
		// (docs/adr/0009): somebody may have removed the file without changing the list's epoch.
		before, first := m.cache.past()
		forgot = before || saved != nil && !first
		s.Vouch(own, forgot)
	}
	if top := s.Top(); numbered != nil && top.Epoch > numbered.Epoch {
		m.log.Warn("a later list than the configured one is in use, according to members.cacheFile; update the configuration",
			"configured_epoch", numbered.Epoch, "used_epoch", top.Epoch, "cache", m.cache.path)
	}
	if m.cfg.Config.Members.Source == config.SourceController {
		// Invariant: no group is founded on a list that nobody vouches for, unless the list has all the nodes that a
		// person has named (docs/adr/0049).
		s.FoundOnlyWith(m.cfg.Config.Members.Controller.Founders)
	}
	switch {
	case s.Fresh() && vouched && s.Base().Size() == 1 && !forgot: // the node begins at once
	case s.Fresh() && vouched && s.Base().Size() == 1:
		m.log.Warn("what this node remembered of its lists of members is gone, and its list has no other member, while other nodes may use another one: correct members.static; "+
			"only if this node has always been alone, remove this file and the lock, and start again", "cache", m.cache.path, "lock", m.cache.lock)
	case s.Fresh() && vouched:
		m.log.Info("this node remembers no list of members; it waits until most members of its list use the same list", "members", s.Base().Size())
	case s.Fresh() && s.Base().Epoch == 0:
		m.log.Warn("this node remembers no list of members; it waits until another node says that this list is in force, or until all its members are in contact and wait for the same list",
			"members", s.Base().Size())
	case s.Fresh():
		m.log.Warn("this node waits until another node says that its list is in force; the first list of a group has epoch 0",
			"epoch", s.Base().Epoch)
	}
	m.alone = vouched && s.Base().Size() == 1
	if saved == nil {
		m.begun = &roster.Saved{Fresh: s.Fresh(), Chain: s.Chain()}
		if before, first := m.cache.past(); !before && !first {
			// Of two agents that start at the same time, one creates the file. If that fails, Keep reports it.
			_ = statefile.Create(m.cache.lock, []byte(firstStart))
		}
	}
	return s, nil
}

// Keep stores the list that Begin has found out, if it is a first list. It is called before any other node hears of
// this one, and after every check that may refuse the configuration. So an agent that refused to start leaves no list
// behind that would bind the next agent.
//
// A node that forgets its list uses whatever the configuration says after the next restart: two parts of a group
// could have quorum by two lists of one epoch.
//
// Invariant: once others hear of an agent, they may count it before it has a list in force, so from then on it has
// something to forget.
func (m *Members) Keep() error {
	var err error
	if !m.alone {
		err = m.cache.settle()
	}
	if err == nil && m.begun != nil {
		err = m.cache.save(m.begun)
	}
	if err != nil {
		return fmt.Errorf("%w; the list must outlive a restart: make the folder writable for the agent, or set members.cacheFile", err)
	}
	m.begun = nil
	return nil
}

// Start starts the goroutine that stores lists and the one that follows their source.
func (m *Members) Start(background func(func(context.Context))) {
	background(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-m.saves:
				err := m.cache.save(s)
				if err != nil {
					m.log.Error("a list of members cannot be stored, so it is not adopted", "error", err, "retry", saveRetry)
					boottime.Wait(ctx, saveRetry)
				}
				m.cfg.Saved(err)
			}
		}
	})
	background(func(ctx context.Context) { m.source.Follow(ctx, m.again, m.cfg.Listed) })
}

// Learn considers a list of the source.
func (m *Members) Learn(core *watchdog.Core, l List) {
	// Invariant: a list that nobody vouches for is founded, or recognised as the one that others use. If its number
	// counted, a group that begins with it would wait for ever.
	sighted := !l.Numbered || l.Founded && core.Rosters().Succession().Fresh() && core.Rosters().Succession().Base().Epoch == 0
	if l.Waiting && !sighted {
		return // the source looks at it again
	}
	if sighted {
		l.Epoch = 0
	}
	r, err := l.roster(m.cfg.Config.NodeName)
	if err == nil {
		err = m.fits(core, r)
	}
	if err == nil && !sighted {
		err = core.Rosters().Succession().Learn(r)
	}
	switch {
	case err == nil:
		m.refused = ""
	case err.Error() != m.refused: // a source shows the same list again and again
		m.refused = err.Error()
		m.log.Error("a list of members is not adopted", "epoch", l.Epoch, "members", len(l.Members), "error", err)
	}
	if err == nil && sighted {
		core.Rosters().Sight(r, l.ReadAt)
	}
}

// fits returns why this node cannot use a list with its configuration.
func (m *Members) fits(core *watchdog.Core, r *roster.Roster) error {
	if arb := core.Arbiter(); arb != nil && r.Size() > arb.Slots() {
		return fmt.Errorf("the LUN has %d slots for %d members: make a larger one with fencectl lun init", arb.Slots(), r.Size())
	}
	if q := int(m.cfg.Config.Quorum.Size); q > 0 && (q > r.Size() || 2*q <= r.Size()) {
		return fmt.Errorf("quorum.size %d does not fit %d members: it must be more than half of them and no more than all", q, r.Size())
	}
	return nil
}

// readAgain asks the source for a list that a peer has and this node does not.
func (m *Members) readAgain(now boottime.Instant) {
	if m.asked > 0 && now.Sub(m.asked) < askInterval {
		return
	}
	m.asked = now
	m.again.Signal()
}

// Follow carries out what a step wants done about the list of members. Peers are numbered by the directory.
func (m *Members) Follow(now boottime.Instant, core *watchdog.Core, directory *roster.Roster, r *watchdog.RosterEffects) {
	s := core.Rosters().Succession()
	if r.Save != nil {
		if o := r.Save.Offer; o != nil {
			m.log.Info("storing a list of members; it is adopted when all counted nodes have stored it", "epoch", o.Epoch,
				"digest", hex64(o.Digest), "members", o.Size())
		}
		m.saves <- r.Save // has room: the core does not ask for the next write before this one is done
	}
	if r.Changed {
		m.log.Info("the state of the list of members has changed: "+Standing(s), "in_force", s.Base().Ref().String(), "newest", s.Top().Ref().String(),
			"members", s.Top().Size(), "quorum", core.Rosters().Quorum())
		if s.Removed() {
			m.log.Warn("this node was removed from the group: it no longer counts, and its watchdog is disarmed; stop the agent")
		}
	}
	if !r.Fetch.IsZero() {
		m.readAgain(now)
	}
	coming := m.ask(now, directory, r)
	if m.mayComplain(now) {
		if !r.Fetch.IsZero() && !coming {
			m.complain(now, "another node has a list of members that this node's source does not show; give both the same configuration", "node", directory.Name(r.From), "list", r.Fetch.String())
		}
		if r.Rival >= 0 {
			m.complain(now, "another node has a different list of members with the same epoch, and neither node counts the other; raise members.epoch with each change of the list",
				"node", directory.Name(r.Rival))
		}
		if bad := s.Unfounded(); bad != "" {
			m.complain(now, "this node founds no group with the list that the controller shows, and waits for a list that is in force; "+
				"at a first start name the group's nodes in members.controller.founders", "problem", bad, "members", s.Base().Size())
		}
		if w := core.Rosters().WaitingFor(); !w.IsEmpty() {
			m.complain(now, "a change of the list of members is under way", "stage", Standing(s), "waiting_for", directory.Names(w))
		}
	}
	m.showPresent(s)
}

func (m *Members) mayComplain(now boottime.Instant) bool {
	return m.complained == 0 || now.Sub(m.complained) >= repeatAfter
}

func (m *Members) complain(now boottime.Instant, msg string, attrs ...any) {
	m.complained = now
	m.log.Warn(msg, attrs...)
}

// Standing describes the state of a change of the list.
func Standing(s *roster.Succession) string {
	switch {
	case s.Removed():
		return "this node is not on the list in force"
	case s.Unfounded() != "":
		return "no list is known to be in force, and no group is founded with the list that is shown: " + s.Unfounded()
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
		return fmt.Sprintf("the list of epoch %d is ready to be adopted", s.Offer().Epoch)
	default:
		return "one list is in force"
	}
}

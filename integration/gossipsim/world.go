package gossipsim

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// engine is one life of a node's program.
type engine interface {
	start() error
	stop(leave bool) error
	list(network int) (*memberlist.Memberlist, error)
	linkChanged(network int, up bool)
}

// world is one simulation. Only the goroutine that runs the simulation changes it.
type world struct {
	cfg        Config
	method     Method
	params     netgossip.Params
	quorum     int
	roster     *roster.Roster // its Self is not used
	firstWords []firstWords   // by node, created when needed
	metrics    *swim.Metrics
	fab        *fabric
	obs        *observer
	nodes      []*node
	faults     []Fault
	liar       *liar // nil: no node lies
	undoubted  bool
	unformed   bool // after the boot not all nodes knew each other

	over  chan struct{}  // closed at the end
	lives sync.WaitGroup // waits for starts and stops under way, and for liars
	mu    sync.Mutex
	errs  []error
}

// node is a machine with the present life of its program.
type node struct {
	index  int
	boot   uint64
	engine engine
	idle   chan struct{} // closed when the latest start or stop is complete
}

func newWorld(cfg Config) (*world, error) {
	faults, err := cfg.Schedule()
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	set, params, err := cfg.params()
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	w := &world{cfg: cfg, method: set.Method, undoubted: set.Undoubted, params: params, metrics: swim.NewMetrics(nil), faults: faults, over: make(chan struct{})}
	members := make([]roster.Member, cfg.Nodes)
	for i := range members {
		members[i].Name = fmt.Sprintf("n%04d", i+1) // so that the order of the list is that of the indices
		members[i].Addresses = make(map[string]string, cfg.Networks)
		for k := range cfg.Networks {
			members[i].Addresses[networkName(k)] = addrOf(k, i).String()
		}
	}
	if w.roster, err = roster.New(1, members, members[0].Name); err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	w.quorum = w.roster.Quorum(0)
	w.speak()
	w.fab = newFabric(cfg.Networks, cfg.Nodes, cfg.Seed, cfg.Link)
	w.obs = newObserver(w)
	for i := range cfg.Nodes {
		done := make(chan struct{})
		close(done)
		w.nodes = append(w.nodes, &node{index: i, idle: done})
	}
	return w, nil
}

func (w *world) at(network, node int) netip.AddrPort {
	return netip.AddrPortFrom(addrOf(network, node), port)
}

// firstWords is the statement of a node in its first life, while all is well, with its digest on the wire.
type firstWords struct {
	statement *netgossip.Statement
	digest    uint64
}

// speak creates the first statements of all nodes. All nodes know them from the beginning.
func (w *world) speak() {
	all := roster.FullSet(w.cfg.Nodes)
	w.firstWords = make([]firstWords, w.cfg.Nodes)
	for i := range w.firstWords {
		seen := all
		seen.Remove(i)
		s := (&agent{roster: w.roster, boot: 1}).statement(seen, all, true)
		w.firstWords[i] = firstWords{s, wire.Digest(s)}
	}
}

// startNode starts the program of a node. With warm it behaves as if it had run for a long time.
func (w *world) startNode(n *node, warm bool) error {
	n.boot++
	w.obs.setUp(n.index, true)
	if w.method == Evidence {
		n.engine = newAgent(w, n.index, n.boot, warm)
	} else {
		n.engine = newCounter(w, n.index, warm)
	}
	return n.engine.start()
}

// live runs an action on a node's program when the previous one is complete, and does not wait for it: a planned stop
// may take seconds.
func (w *world) live(n *node, do func() error) {
	before, done := n.idle, make(chan struct{})
	n.idle = done
	w.lives.Go(func() {
		defer close(done)
		<-before
		if err := do(); err != nil {
			w.mu.Lock()
			w.errs = append(w.errs, fmt.Errorf("node %d: %w", n.index, err))
			w.mu.Unlock()
		}
	})
}

func (w *world) stopNode(n *node, leave bool) {
	w.obs.setUp(n.index, false)
	w.live(n, func() error {
		e := n.engine
		n.engine = nil
		if e == nil {
			return nil
		}
		return e.stop(leave)
	})
}

// close ends everything and lets memberlist's timers expire inside the bubble.
func (w *world) close() error {
	close(w.over)
	for _, n := range w.nodes {
		w.stopNode(n, false)
	}
	w.lives.Wait()
	w.fab.close()
	time.Sleep(10 * time.Minute)
	return errors.Join(w.errs...)
}

// moment is the beginning or the end of a fault.
type moment struct {
	at    time.Duration
	fault int
	begin bool
}

func (w *world) moments() []moment {
	var ms []moment
	for i, f := range w.faults {
		ms = append(ms, moment{f.At, i, true})
		if f.For > 0 {
			ms = append(ms, moment{f.At + f.For, i, false})
		}
	}
	slices.SortStableFunc(ms, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return ms
}

func (w *world) apply(m moment) {
	f := &w.faults[m.fault]
	w.fab.change(func() { w.fab.apply(f, m.begin, w.cfg.Link) })
	for _, i := range f.Nodes {
		n := w.nodes[i]
		switch f.Kind {
		case Crash, Restart, Leave:
			if m.begin {
				w.stopNode(n, f.Kind == Leave)
				break
			}
			w.obs.setUp(i, true)
			w.live(n, func() error { return w.startNode(n, false) })
		case Lie:
			w.lie(i)
		case Unplug:
			w.live(n, func() error {
				for _, k := range w.networksOf(f) {
					if n.engine != nil {
						n.engine.linkChanged(k, !m.begin)
					}
				}
				return nil
			})
		}
	}
}

func (w *world) networksOf(f *Fault) []int {
	if len(f.Networks) > 0 {
		return f.Networks
	}
	all := make([]int, w.cfg.Networks)
	for k := range all {
		all[k] = k
	}
	return all
}

// apply changes the conditions of the networks; the caller holds mu.
func (f *fabric) apply(x *Fault, begin bool, base Link) {
	step := -1
	if begin {
		step = 1
	}
	for k := range f.lans {
		if len(x.Networks) > 0 && !slices.Contains(x.Networks, k) {
			continue
		}
		l := &f.lans[k]
		switch x.Kind {
		case Partition:
			for i, s := range x.Sides {
				l.side[i] = uint8(s)
				if !begin {
					l.side[i] = 0
				}
			}
		case Impair:
			if l.base = base; begin {
				l.base = *x.Link
			}
		case CutOneWay:
			if d := [2]int{x.Nodes[0], x.Nodes[1]}; begin {
				cut := l.base
				cut.Cut = true
				l.links[d] = cut
			} else {
				delete(l.links, d)
			}
		case Isolate, Unplug, Mute, Deaf:
			for _, i := range x.Nodes {
				if x.Kind != Deaf {
					l.mute[i] += step
				}
				if x.Kind != Mute {
					l.deaf[i] += step
				}
			}
		}
	}
	for _, i := range x.Nodes {
		switch x.Kind {
		case Crash:
			f.hosts[i].down = begin
		case Slow:
			if f.hosts[i].slow = (pauses{}); begin {
				f.hosts[i].slow = pauses{since: f.now(), blocked: x.Blocked, open: x.Open}
			}
		}
	}
}

// reaches reports whether two nodes can talk in both directions on enough networks; the caller holds mu.
func (f *fabric) reaches(a, b, needed int) bool {
	for k := range f.lans {
		if f.passes(k, a, b) && f.passes(k, b, a) {
			needed--
		}
	}
	return needed <= 0
}

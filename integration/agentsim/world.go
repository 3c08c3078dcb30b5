package agentsim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum/leasequorumtest"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

type world struct {
	s        Schedule
	dir      string // what the machines keep across a restart
	epoch    time.Time
	ctx      context.Context // ends with the world
	group    sync.WaitGroup  // waits for everything that runs
	networks []*netgossiptest.Network
	luns     [3]*diskquorumtest.LUN // by breaking; nil without a LUN
	machines []*machine
	times    times

	mu      sync.Mutex // guards everything below, and the machines' fields
	rng     *rand.Rand
	cut     [][][]bool // [network][from][to]
	loss    float64
	delay   time.Duration
	check   *checker
	lines   []line
	lists   lists
	lease   leasequorumtest.Lease
	looks   []Picture
	sources map[string]int
	other   leasequorumtest.Lease // a Lease with another name
	ended   bool
}

type line struct {
	at   time.Duration
	who  string
	what string
}

// Result is the result of a run.
type Result struct {
	Violations []string
	Timeline   []string
	Faults     int // events that had an effect
	Resets     int
	Feeds      int
	Events     int // LEFT and JOIN that subscribers got
	Lefts      int // LEFT among them
	Ties       int // equal splits that were judged
	Living     int // nodes that are fed at the end and were not reset
	Deaths     int // proven to subscribers
	Orders     int // that were obeyed
	InForce    int // epoch of the latest list of members that was reported as in force
	Looks      []Picture
	Sources    map[string]int // events by type and source
}

// Run runs a schedule. It must be called in a separate bubble. The machines keep their files in dir, which must be
// empty.
func Run(s Schedule, dir string) *Result {
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{s: s, dir: dir, epoch: time.Now(), ctx: ctx, rng: rand.New(rand.NewPCG(s.Seed, 0xa6e47)), times: s.timing(), sources: map[string]int{}}
	for k := range s.Networks {
		w.networks = append(w.networks, netgossiptest.NewNetwork(s.Seed+uint64(k)))
		cut := make([][]bool, s.Nodes)
		for i := range cut {
			cut[i] = make([]bool, s.Nodes)
		}
		w.cut = append(w.cut, cut)
	}
	if s.LUN {
		w.formatLUNs()
	}
	w.lists = lists{all: [][]int{s.members()}, onFile: make([]int, s.Nodes)}
	w.writeFiles()
	if s.Key {
		w.writeKey()
	}
	for i := range s.Nodes {
		carrier := make([]bool, s.Networks)
		for k := range carrier {
			carrier[k] = true
		}
		m := &machine{w: w, index: i, name: nodeName(i), carrier: carrier}
		if i < s.Nodes/2 {
			m.breaks = s.Mixed
		}
		w.machines = append(w.machines, m)
	}
	w.check = newChecker(w)
	w.setLinks()
	if s.Replay {
		w.replay()
	}
	w.play()
	living := w.living()
	w.tearDown(cancel)
	r := &Result{Living: living, Violations: w.check.violations, Feeds: w.check.feeds, Events: w.check.events, Lefts: w.check.lefts, Ties: w.check.ties, Deaths: w.check.deaths, Orders: w.check.orders, InForce: w.lists.inForce, Sources: w.sources, Looks: w.looks}
	for _, m := range w.machines {
		r.Resets += m.resets
	}
	for _, l := range w.lines {
		r.Timeline = append(r.Timeline, l.text())
	}
	for _, e := range s.Events {
		if e.Kind != Nothing {
			r.Faults++
		}
	}
	return r
}

// living counts the nodes that are fed and were never reset.
func (w *world) living() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, m := range w.machines {
		if m.resets == 0 && w.check.lately(i) {
			n++
		}
	}
	return n
}

// play boots the machines and lets the events happen.
func (w *world) play() {
	for _, i := range w.s.members() {
		w.machines[i].powerOn()
		time.Sleep(100 * time.Millisecond)
	}
	for _, e := range w.s.Events {
		w.sleepUntil(e.At)
		if w.over() {
			return
		}
		w.note("", e.String())
		w.apply(e)
	}
	w.sleepUntil(w.s.End)
	w.check.tick()
}

// sleepUntil sleeps in steps, so that it notices a violation early and can look in between.
func (w *world) sleepUntil(at time.Duration) {
	for w.now() < at && !w.over() {
		time.Sleep(min(time.Second, at-w.now()))
		w.check.tick()
	}
}

// over reports whether there is no point in continuing.
func (w *world) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.check.violations) > 0
}

// tearDown ends everything that runs, so that the bubble can end.
func (w *world) tearDown(cancel func()) {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	for _, m := range w.machines {
		w.mu.Lock()
		p := m.proc
		m.powered = false
		w.mu.Unlock()
		m.end(p)
	}
	cancel()
	for _, m := range w.machines {
		m.setPath(lunPath{}, diskquorumtest.Lose)
		if m.dog != nil {
			_ = m.dog.Disarm() // stops its timer, if it still runs
		}
	}
	w.group.Wait()
	time.Sleep(time.Minute) // memberlist's remaining goroutines and dials end within this time
}

func (w *world) now() time.Duration { return time.Since(w.epoch) }

// after calls f after a delay, unless the world has ended by then.
func (w *world) after(d time.Duration, f func()) {
	w.group.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			f()
		case <-w.ctx.Done():
		}
	})
}

func (w *world) note(who, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.lines = append(w.lines, line{w.now(), who, what})
	}
}

// conditionsChanged applies a change of the conditions that the checker uses.
func (w *world) conditionsChanged(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check.before()
	change()
	w.check.after()
}

func (w *world) setLinks() {
	for k, network := range w.networks {
		for i := range w.machines {
			for j := range w.machines {
				if i == j {
					continue
				}
				w.mu.Lock()
				down := w.cut[k][i][j] || !w.machines[i].carrier[k] || !w.machines[j].carrier[k]
				l := netgossiptest.Link{Cut: down, Loss: w.loss, Delay: w.delay, Jitter: w.delay / 2}
				w.mu.Unlock()
				network.SetLink(addressOf(k, i), addressOf(k, j), l)
			}
		}
	}
}

// setCarrier takes the carrier of a network from a machine, or gives it back; its kernel reports that.
func (m *machine) setCarrier(network int, up bool) {
	w := m.w
	w.mu.Lock()
	changed, p := m.carrier[network] != up, m.proc
	w.mu.Unlock()
	if !changed {
		return
	}
	w.conditionsChanged(func() { m.carrier[network] = up })
	w.setLinks()
	if p != nil {
		select {
		case p.links[networkNames[network]] <- iface.Change{Up: up}:
		default: // the process is stopped, and will look when it continues
		}
	}
}

// setPath changes the path from a machine to the LUN, which also ends operations that hang.
func (m *machine) setPath(l lunPath, o diskquorumtest.Outcome) {
	w := m.w
	w.conditionsChanged(func() { m.path = l })
	w.mu.Lock()
	// Clients of earlier processes and boots may still have a write in flight.
	held := slices.Clone(m.clients)
	for slot, c := range m.slots {
		if c.p.ended && !l.hung {
			delete(m.slots, slot)
		}
	}
	w.mu.Unlock()
	for _, c := range held {
		if !l.hung {
			c.Release(o)
		}
		if !c.dead.Load() {
			l.apply(c.MemDevice)
		}
	}
}

func (w *world) fed(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check.fed(p)
}

func (w *world) published(p *process, e *fencingv1.Event) {
	w.mu.Lock()
	w.check.published(p, e)
	w.sources[e.GetType().String()+" "+e.GetSourceName()]++
	w.mu.Unlock()
	w.note(p.m.name, "tells subscribers: "+e.GetType().String()+" "+e.GetNode().GetName())
}

// told handles an agent's answer about its own node.
func (w *world) told(p *process, st *fencingv1.Status, all *fencingv1.AllNodes) {
	listed := slices.ContainsFunc(all.GetNodes(), func(n *fencingv1.Node) bool { return n.GetName() == p.m.name })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.check.answered(p, st.GetVerdict().GetPermission(), listed)
	}
}

func (w *world) proven(p *process, st *fencingv1.Status) {
	w.inForce(p, st.GetRoster())
	if !st.GetVerdict().GetQuorum() {
		return // consumers act on nothing from a node that may be about to die
	}
	for _, n := range st.GetNodes() {
		dead := n.GetDeath().GetBootNonce()
		if n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED {
			continue
		}
		w.mu.Lock()
		known, ok := p.deaths[n.GetName()]
		news := !ok || known != dead
		p.deaths[n.GetName()] = dead
		if news && !w.ended {
			w.check.fenced(p, n.GetName(), dead)
		}
		w.mu.Unlock()
		if news {
			w.note(p.m.name, "tells subscribers: FENCED "+n.GetName()+" "+n.GetDeath().GetProof().String())
		}
	}
}

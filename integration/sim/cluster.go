package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Config describes a simulated group.
type Config struct {
	Nodes    int
	Networks []string
	Policy   netgossip.Policy
	LUN      bool
	Lease    bool // a Lease of an API server replaces the LUN
	Devices  int  // the number of the LUN's devices, 1 or 3; 0: 1
	Strike   bool // onFence: reboot
	NoHold   bool // no node holds by the LUN
	Before   int  // this many nodes, the first ones, have agents from before holds existed
	Undated  int  // this many nodes, the last ones, have agents that neither state nor read when a lost node will be dead
	Sentence watchdog.Sentencing
	Blind    float64 // share of starts at which an agent cannot see the kernel's countdown
	Lingers  bool    // a process that was killed may hang in the kernel, with the watchdog open
	Refuses  bool    // the driver refuses a shorter timeout
	Orders   bool    // nodes order each other to end, and obey the orders
	Mode     watchdog.LUNMode
	Others   int // this many nodes, the first ones, have lun.mode: tieBreaker, whatever Mode is
	OnLoss   watchdog.LossPolicy
	Times
	Margin   time.Duration
	Evidence time.Duration // EvidenceInterval, the time between two probes of one peer
	// Membership is true if memberlist reports on the peers. From sampledFrom nodes on, where samples are taken, it
	// always does. Rumours is the share of all looks at a peer that is there in which memberlist reports that it is
	// dead.
	Membership bool
	Rumours    float64
	Reboot     time.Duration // the time after which a reset node is back; 0: never
	Seed       uint64
	// Lists contains lists of members by epoch, as node indices. Without any, all nodes are members. A node begins with
	// the first list that contains it.
	Lists [][]int
	// Odd contains the times of the nodes with an odd index: nodes are reconfigured one after the other, so two sets of
	// times must work together. Nil: all nodes have the same times.
	Odd *Times

	outages *rand.Rand // decides when all networks are silent; nil: never
	often   bool       // the networks are silent half of the time
	foreign *rand.Rand // decides when a device has foreign data; nil: never
	back    *rand.Rand // decides when a device goes back to an older state; nil: never
}

// Times are the settings that enter the time budget.
type Times struct {
	Timing   diskquorum.Timing
	Feed     time.Duration // F
	Watchdog time.Duration // W
}

// DefaultConfig is the configuration that an agent has by default, with n nodes on two networks and a LUN.
func DefaultConfig(n int, seed uint64) Config {
	t := diskquorum.Timing{
		Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second,
		Grant: 10 * time.Second, Arbitrate: 10 * time.Second,
		PreferenceDelay: 2 * time.Second, Stagger: time.Second, Takeover: 15 * time.Second,
	}
	c := Config{
		Nodes: n, Networks: []string{"mgmt", "data"}, Policy: netgossip.Any(), LUN: true, OnLoss: watchdog.LossFence,
		Times: Times{Timing: t, Feed: 5 * time.Second, Watchdog: 30 * time.Second}, Margin: time.Second,
		Evidence: time.Second, Seed: seed,
		Sentence: watchdog.Sentencing{After: 5200 * time.Millisecond, Timeout: time.Second, Strike: t.IOTimeout},
	}
	c.Timing.Expire = c.Timing.Grant + c.Feed + c.Margin
	return c
}

// Budget returns the time budget of the configuration, for nodes with an even index.
func (c *Config) Budget() watchdog.Budget { return c.budget(&c.Times) }

func (c *Config) budget(t *Times) watchdog.Budget {
	b := watchdog.Budget{MaxAge: t.Timing.MaxAge, Sampling: c.sampling(t), Voices: c.voices(t), Grant: t.Timing.Grant, Feed: t.Feed, Margin: c.Margin}.WithWatchdog(t.Watchdog)
	if c.LUN || c.Lease {
		b.Arbitrate = t.Timing.Arbitrate
	}
	return b
}

// sampling returns the term of the budget for random samples that a peer may still answer.
func (c *Config) sampling(t *Times) time.Duration {
	if c.Nodes < sampledFrom {
		return 0
	}
	return t.Timing.MaxAge
}

// sampledFrom is the size of the smallest group on two networks in which samples are taken
// (docs/measurements/tuning.md).
const sampledFrom = 9

func (c *Cluster) times(n *Node) *Times {
	if n.own != nil {
		return n.own
	}
	if c.cfg.Odd != nil && n.Index%2 == 1 {
		return c.cfg.Odd
	}
	return &c.cfg.Times
}

// Cluster is a running simulation. It is not safe for concurrent use.
type Cluster struct {
	older older
	cfg   Config
	rng   *rand.Rand
	now   boottime.Instant
	queue eventQueue
	seq   uint64
	nodes []*Node
	lun   *lun
	kube  *kubeLease
	ids   uint64 // numbers probes and statements
	check checker

	wires   []wire             // [(network*nodes + from)*nodes + to], see wire
	weather []Weather          // by network
	cleared []boottime.Instant // by network: when its weather last became good
	trace   func(format string, args ...any)
}

// Node is one simulated machine with its agent.
type Node struct {
	Index int
	Name  string

	core      *watchdog.Core
	lived     boottime.Instant     // when it last had quorum
	lease     *leasequorum.Arbiter // nil: no Lease breaks ties
	roster    *roster.Roster       // its indices are those that the node uses
	indices   indices              // of roster
	counts    roster.Set           // the counted nodes, as indices of the cluster's nodes
	memory    *roster.Saved        // what the node remembers of its rosters
	up        bool                 // powered, with a running agent
	boot      uint64
	booted    boottime.Instant
	process   uint64
	decision  watchdog.Decision
	said      *netgossip.Statement
	number    uint64 // numbers said
	relay     netgossip.Relay
	demand    netgossip.Demand
	gossip    []*gossip // by network
	stepAt    boottime.Instant
	wake      func(at boottime.Instant)
	view      netgossip.View // scratch memory of demandEvidence
	life      uint64         // changes with each start; events of an earlier life have no effect
	paused    bool
	backlog   []func()           // what a paused agent will do first when it continues
	halted    boottime.Instant   // when the agent last ran, if it is paused
	resumed   boottime.Instant   // since when the agent has been running
	links     []link             // [network*peers + peer]: what the network has recorded
	unplugged []boottime.Instant // by network: when it lost carrier
	peers     int

	own      *Times        // set if the node was reconfigured; nil: the times of the group's configuration
	armed    bool          // the countdown of its watchdog runs
	open     bool          // its agent has the watchdog's device open
	timeout  time.Duration // of the countdown
	dying    bool          // a killed process still has the device open
	judged   bool          // this boot is condemned, by its agent or by the kernel
	obeyed   bool          // this boot is condemned because of an order
	ordered  bool          // an order was given for this boot
	liar     bool          // it orders all others to end
	truth    *netgossip.Statement
	disable  bool             // its disable file exists
	fenced   roster.Set       // as last published by the agent
	ended    []watchdog.Death // by the roster's indices
	logged   logged
	right    right // the right by which it feeds, as of the last check
	moved    bool  // its right or the nodes that it counts have changed since then
	bridged  bool  // it feeds with a partner that has a majority (L14)
	lastFeed boottime.Instant
	Resets   int // how often the watchdog fired
	events   []string
}

// New builds the group and starts every node.
func New(cfg Config) *Cluster {
	c := &Cluster{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0xfe)), now: boottime.Instant(time.Hour)}
	c.cfg.Membership = cfg.Membership || cfg.Nodes >= sampledFrom
	c.wires = make([]wire, len(cfg.Networks)*cfg.Nodes*cfg.Nodes)
	c.weather, c.cleared = make([]Weather, len(cfg.Networks)), make([]boottime.Instant, len(cfg.Networks))
	c.check.begin(cfg.Nodes)
	for holders := range c.check.bounds {
		c.check.bounds[holders] = c.overlap(holders)
	}
	c.trace = func(string, ...any) {}
	if cfg.LUN {
		c.lun = newLUN(c)
	}
	if cfg.Lease {
		c.kube = newKubeLease(c)
	}
	width := len(fmt.Sprint(cfg.Nodes)) // so that the order of names is the index order
	for i := range cfg.Nodes {
		n := &Node{Index: i, Name: fmt.Sprintf("n%0*d", width, i+1), boot: c.rng.Uint64() | 1, unplugged: make([]boottime.Instant, len(cfg.Networks))}
		n.wake = func(at boottime.Instant) {
			if n.stepAt == at {
				c.step(n)
			}
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		c.Start(n.Index)
	}
	return c
}

// Trace prints every important step through f.
func (c *Cluster) Trace(f func(format string, args ...any)) { c.trace = f }

// Now is the virtual time since the simulation began.
func (c *Cluster) Now() time.Duration { return c.now.Sub(boottime.Instant(time.Hour)) }

// Start starts the agent of a node, after a kill or after a reset.
func (c *Cluster) Start(i int) {
	n := c.nodes[i]
	if n.up {
		return
	}
	r, succession := c.rostersOf(n)
	n.up, n.process, c.older.unpromised = true, c.rng.Uint64()|1, c.older.unpromised || c.older.began
	n.life++
	c.touch(n)
	own := c.times(n)
	n.core = watchdog.NewCore(watchdog.Config{
		Roster: r, Networks: len(c.cfg.Networks), Policy: c.cfg.Policy, MaxAge: own.Timing.MaxAge,
		LUNMode: c.mode(i), LUNGrace: watchdog.LUNGrace(own.Timing.Heartbeat, own.Timing.IOTimeout, own.Timing.MaxAge),
		LUN: c.cfg.LUN, Hold: !c.cfg.NoHold && i >= c.cfg.Before, Arbitrate: own.Timing.Arbitrate, OnLoss: c.cfg.OnLoss, Budget: c.cfg.budget(own), Boot: n.boot, Booted: n.booted, Version: "sim",
		Succession: succession, Sentence: c.cfg.Sentence, Orders: c.cfg.Orders,
	})
	n.disarm()
	c.lookAtKernel(n)
	n.fenced = roster.Set{}
	c.countBy(n, r)
	n.decision, n.said, n.number, n.relay = watchdog.Decision{}, nil, 0, netgossip.Relay{}
	n.resumed, n.peers, n.links = c.now, len(c.nodes), make([]link, len(c.cfg.Networks)*len(c.nodes))
	if c.lun != nil {
		n.core.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
			Devices: c.lun.sbs, Roster: r, Evidence: n.core.Merger(), Boot: n.boot, Process: n.process,
			Timing: own.Timing, Seed: c.cfg.Seed,
		}))
	}
	if c.kube != nil {
		c.openLease(n)
	}
	n.gossip = make([]*gossip, len(c.cfg.Networks))
	for k := range n.gossip {
		c.openGossip(n, k)
	}
	c.trace("%s starts", n.Name)
	c.wakeNode(n, 0)
	c.scheduleFeed(n)
}

// disarm tells the core whether the disable file exists.
func (n *Node) disarm() {
	why := ""
	if n.disable {
		why = "the disable file"
	}
	n.core.SetDisarm("file", why)
}

// Disable creates or removes the disable file of a node.
func (c *Cluster) Disable(i int, on bool) {
	n := c.nodes[i]
	if n.disable = on; n.up {
		c.trace("%s: disable file %v", n.Name, on)
		n.disarm()
		c.wakeNode(n, 0)
	}
}

// Pause stops the agent of a node, as a frozen cgroup does. The machine continues, with its watchdog and its pending
// I/O.
func (c *Cluster) Pause(i int) {
	if n := c.nodes[i]; n.up && !n.paused {
		n.paused, n.halted = true, c.now
		c.trace("%s is paused", n.Name)
	}
}

// Resume continues a paused agent, with everything that waited for it.
func (c *Cluster) Resume(i int) {
	n := c.nodes[i]
	if !n.paused {
		return
	}
	c.trace("%s goes on", n.Name)
	waiting := n.backlog
	n.paused, n.backlog, n.resumed = false, nil, c.now
	for _, do := range waiting {
		c.during(n, 0, do)
	}
}

// Reconfigure gives a node other times, which its next agent uses.
func (c *Cluster) Reconfigure(i int, t Times) { c.nodes[i].own = &t }

// RestartAgent ends the agent and starts a new process at once on the same kernel.
func (c *Cluster) RestartAgent(i int) {
	c.Kill(i)
	c.Start(i)
}

func (c *Cluster) end(n *Node) {
	if n.runs() {
		n.halted = c.now
	}
	n.up, n.paused, n.backlog, n.open = false, false, nil, false
	n.life++
	c.touch(n)
}

// reset acts like a watchdog: the node is gone with all its I/O, and boots again.
func (c *Cluster) reset(n *Node) {
	c.end(n)
	n.armed, n.dying, n.judged, n.obeyed, n.ordered = false, false, false, false, false
	n.Resets++
	n.boot, n.booted = c.rng.Uint64()|1, c.now
	c.trace("%s is reset by its watchdog", n.Name)
	if c.cfg.Reboot > 0 {
		c.at(c.cfg.Reboot, func() { c.Start(n.Index) })
	}
}

// Run advances the virtual time by d.
func (c *Cluster) Run(d time.Duration) {
	end := c.now.Add(d)
	for c.next(end) {
	}
	c.now = end
	c.checkStep()
}

// RunUntil advances the time until cond holds, but not beyond limit, and reports whether cond held.
func (c *Cluster) RunUntil(limit time.Duration, cond func() bool) bool {
	end := c.now.Add(limit)
	for c.now < end {
		if cond() {
			return true
		}
		c.Run(min(100*time.Millisecond, end.Sub(c.now)))
	}
	return cond()
}

func (c *Cluster) at(d time.Duration, do func()) {
	c.seq++
	c.queue.push(c.now.Add(d), c.seq, event{do: do})
}

// during schedules do, and drops it if the node's present life ends before.
func (c *Cluster) during(n *Node, d time.Duration, do func()) {
	c.seq++
	c.queue.push(c.now.Add(d), c.seq, event{node: n, life: n.life, do: do})
}

// dueAt is like during, for a function that is created once.
func (c *Cluster) dueAt(n *Node, at boottime.Instant, due func(at boottime.Instant)) {
	c.seq++
	c.queue.push(at, c.seq, event{node: n, life: n.life, due: due})
}

func (c *Cluster) perform(e *event, at boottime.Instant) {
	switch n := e.node; {
	case n == nil:
		e.happen(at)
	case !n.up || n.life != e.life:
	case n.paused:
		waits := *e
		n.backlog = append(n.backlog, func() { waits.happen(at) })
	default:
		c.touch(n)
		e.happen(at)
	}
}

func (c *Cluster) wakeNode(n *Node, d time.Duration) {
	n.stepAt = c.now.Add(d)
	c.dueAt(n, n.stepAt, n.wake)
}

func (c *Cluster) step(n *Node) {
	fx := n.core.Step(c.now)
	n.decision = fx.Decision
	c.recount(n)
	if fx.Changed {
		c.trace("%s: %v %v (view %v)", n.Name, fx.Decision.Action, fx.Decision.Reason, n.roster.Names(n.core.View().Counted))
	}
	c.noteBridge(n)
	c.noteVoices(fx)
	if fx.Attempt != nil {
		c.trace("%s: ballot ended: %+v", n.Name, *fx.Attempt)
		c.check.attempt(fx.Attempt)
	}
	c.guard(n, fx)
	// A node under maintenance is not fed. It also counts as living if it has quorum or has won the split.
	if d := &fx.Decision; d.Action == watchdog.Feed && d.Quorum || d.Action == watchdog.Disarm && (d.Quorum || n.core.Split().Split == tie.Won) {
		n.lived = c.now
	}
	if fx.Strike && c.cfg.Strike {
		c.checkStrike(n)
		c.reset(n)
		return
	}
	c.checkDeaths(n, fx.Fenced)
	for p := range fx.Left.All() {
		n.events = append(n.events, "LEFT "+n.roster.Name(p))
	}
	for p := range fx.Joined.All() {
		n.events = append(n.events, "JOIN "+n.roster.Name(p))
	}
	if c.kube != nil {
		c.kube.perform(n)
	}
	c.followRosters(n, fx)
	c.noteOrders(n, fx)
	c.checkQuorum(n)
	c.speak(n, fx.Statement, fx.Relay, fx.Nudge)
	c.demandEvidence(n)
	c.inquire(n, fx.Ask)
	if fx.Lock >= 0 {
		for d := range c.lun.images {
			// In this simulation each host has its own slot, so only an earlier life of the agent can compete for it.
			n.core.SlotLocked(c.now, d, nil)
		}
		c.wakeNode(n, 0)
		return
	}
	for i := range fx.Ops {
		c.lun.submit(n, &fx.Ops[i])
	}
	c.wakeNode(n, max(0, min(fx.Wake.Sub(c.now), 250*time.Millisecond)))
}

// guard arms and disarms as the agent's permit and feeder do. An agent that has just started may find the countdown of
// its predecessor running. It cannot stop that before it has opened the device.
func (c *Cluster) guard(n *Node, fx *watchdog.Effects) {
	c.checkSentence(n, fx)
	if fx.Arm && !n.open && !n.dying && c.feeding(n) {
		c.harm(n, "arms")
		n.armed, n.open, n.lastFeed, n.timeout = true, true, c.now, c.times(n).Watchdog
		c.trace("%s arms its watchdog with %v", n.Name, n.timeout)
		n.core.SetGuard(true, n.timeout)
		c.watchFire(n)
	}
	if fx.Disarm && n.open {
		c.harm(n, "disarms")
		n.armed, n.open = false, false
		n.core.SetGuard(false, 0)
	}
}

func (c *Cluster) scheduleFeed(n *Node) {
	c.during(n, c.times(n).Feed, func() {
		if n.open && c.feeding(n) {
			c.harm(n, "feeds")
			n.lastFeed = c.now
			c.watchFire(n)
		}
		c.scheduleFeed(n)
	})
}

// watchFire makes the watchdog fire W after the last feed, whether or not the agent runs.
func (c *Cluster) watchFire(n *Node) {
	fed, boot := n.lastFeed, n.boot
	c.at(n.timeout+c.lateness(n), func() {
		if n.armed && n.lastFeed == fed && n.boot == boot {
			c.reset(n)
		}
	})
}

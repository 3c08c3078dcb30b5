package sim

import (
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// gossip is a node's side of one network: the agent's scheduler, and what its adapter keeps for it. The scheduler
// numbers peers as the cluster does, so a change of the list of members does not alter the numbers.
type gossip struct {
	network  int
	roster   *roster.Roster // the roster of its making; the node may use a later one
	indices  indices        // of that roster
	params   netgossip.Params
	schedule *probing.Schedule
	began    boottime.Instant // when all peers were last to be asked: at the start, or when carrier came back
	wake     boottime.Instant // when it is to go on; a plan for another instant has no effect
	prodded  func(at boottime.Instant)
	heard    boottime.Instant // the last packet of any node
	vouched  boottime.Instant // as reported to the merger
	listed   []bool           // by node: memberlist counts it as alive
	silent   []int            // by node: the number of looks in which memberlist has not found it
}

// question is a probe on its way, and reply is its answer.
type question struct {
	id, list, holds, news uint64
	brief                 bool
}

type reply struct {
	id        uint64
	statement *netgossip.Statement // its maker confirms it; nil in a brief reply
	number    uint64
	unchanged bool // the statement is the one whose number the probe named
	sight     netgossip.Sight
	sees      bool
	relay     netgossip.Relay
	relayAge  time.Duration
	clock     boottime.Instant // of its maker
}

// params returns a node's parameters for a roster of this size. Where evidence lasts for a short time only, peers are
// asked more often by the same factor, as a configuration must do.
func (c *Cluster) params(t *Times, size int) netgossip.Params {
	p := netgossip.Tune(size)
	p.EvidenceInterval, p.EvidenceMaxAge = c.cfg.Evidence, t.Timing.MaxAge
	if p.EvidenceMaxAge < 4*p.EvidenceInterval {
		p.EvidenceInterval = p.EvidenceMaxAge / 4
		p.EvidenceTimeout = p.EvidenceInterval / 5
	}
	return p
}

// openGossip begins on one network, as after a start, with the node's roster.
func (c *Cluster) openGossip(n *Node, network int) {
	g := &gossip{
		network: network, roster: n.roster, indices: n.indices, params: c.params(c.times(n), n.roster.Size()), began: c.now,
		listed: make([]bool, len(c.nodes)), silent: make([]int, len(c.nodes)),
	}
	var peers []int
	for _, p := range c.nodes {
		if _, ok := n.indices.of(p); ok && p != n {
			peers = append(peers, p.Index)
		}
		g.listed[p.Index] = !c.cfg.Membership
	}
	g.schedule = probing.New(probing.Config{
		Params: g.params, Network: network, Peers: peers,
		Listed: func(peer int) bool { return g.listed[peer] },
		Heard:  func() boottime.Instant { return g.heard },
		Rand:   rand.New(rand.NewPCG(c.cfg.Seed, c.rng.Uint64())),
	}, c.now)
	g.prodded = func(at boottime.Instant) {
		if g.wake == at && n.gossip[g.network] == g {
			g.wake = 0
			c.pump(n, g)
		}
	}
	n.gossip[network], n.demand = g, netgossip.Demand{}
	if n.said != nil {
		g.schedule.SetSaid(n.number)
		g.schedule.NudgeAll(c.now)
	}
	if c.cfg.Membership {
		c.look(n, g)
	}
	c.prod(n, g, 0)
}

// reopenGossip follows a changed list of members, one network after the other.
func (c *Cluster) reopenGossip(n *Node) {
	list := n.roster
	for k := range c.cfg.Networks {
		c.during(n, time.Duration(k)*time.Second, func() {
			if n.roster == list {
				c.openGossip(n, k)
				c.wakeNode(n, 0)
			}
		})
	}
}

// grain is the unit to which swim rounds its waits up.
const grain = boottime.Instant(time.Millisecond)

// prod continues the scheduler after d.
func (c *Cluster) prod(n *Node, g *gossip, d time.Duration) {
	at := max(c.now, (c.now.Add(d)+grain-1)/grain*grain)
	if g.wake == at {
		return
	}
	g.wake = at
	c.dueAt(n, at, g.prodded)
}

// pump sends what is due and reports the findings of the scheduler.
func (c *Cluster) pump(n *Node, g *gossip) {
	for {
		g.schedule.Tick(c.now)
		p, brief, wait := g.schedule.Next(c.now)
		if p != nil {
			c.ask(n, g, p, brief)
		}
		c.report(n, g)
		if p == nil {
			c.prod(n, g, max(wait, 1))
			return
		}
	}
}

// report acts as swim does: a miss is reported before the vouch that no longer covers the missed peer.
func (c *Cluster) report(n *Node, g *gossip) {
	m := n.core.Merger()
	for _, miss := range g.schedule.TakeMisses() {
		if i, ok := n.indices.of(c.nodes[miss.Peer]); ok {
			m.Missed(g.network, i, miss.Since, miss.Void)
			c.wakeNode(n, 0)
		}
		c.others(n, g, func(o *gossip) {
			if p := o.schedule.Peer(miss.Peer); p != nil {
				o.schedule.Verify(p, true, c.now)
			}
		})
	}
	if v := g.schedule.Vouched(); v.Sub(g.vouched) >= g.params.EvidenceMaxAge/16 {
		g.vouched = v
		m.Vouched(g.network, v)
		c.checkVouch(n, g)
		c.wakeNode(n, 0)
	}
	if g.schedule.TakeDoubt() {
		c.check.Sweeps++
		c.others(n, g, func(o *gossip) { o.schedule.Doubt(c.now) })
	}
}

func (c *Cluster) others(n *Node, g *gossip, do func(*gossip)) {
	for _, o := range n.gossip {
		if o != g {
			do(o)
			c.prod(n, o, 0)
		}
	}
}

// speak passes a node's statement to its networks, as the agent's loop does.
func (c *Cluster) speak(n *Node, st *netgossip.Statement, relay netgossip.Relay, nudge bool) {
	old := n.said
	n.relay = relay
	if st == n.truth && old != nil {
		return
	}
	n.truth = st
	st = n.byItsClock(st)
	if c.undated(n) {
		without := *st
		without.Dues = netgossip.Dues{}
		st = &without
	}
	if n.liar {
		st = c.forge(n, st)
	}
	c.ids++
	n.said, n.number = st, c.ids
	announce := old == nil || n.liar || old.Stopping != st.Stopping || old.Guard != st.Guard || old.Standing != st.Standing
	if !announce && !nudge {
		return
	}
	for _, g := range n.gossip {
		if g.schedule.SetSaid(n.number); announce {
			g.schedule.NudgeAll(c.now)
		} else {
			g.schedule.NudgeSome(c.now)
		}
		c.prod(n, g, 0)
	}
}

// clock is what a node's own clock shows in its answers: clocks of two boots have nothing to do with each other.
func (n *Node) clock(now boottime.Instant) boottime.Instant {
	return now.Add(time.Duration(n.boot%1_000_000) * time.Second)
}

// byItsClock gives the dues of a statement by the node's own clock. Its core reads that of the cluster.
func (n *Node) byItsClock(st *netgossip.Statement) *netgossip.Statement {
	if st.Dues[0].Horizon == 0 {
		return st
	}
	own := *st
	for i := range own.Dues {
		if own.Dues[i].Horizon != 0 {
			own.Dues[i].Since = n.clock(own.Dues[i].Since)
		}
	}
	return &own
}

// undated reports whether a node has an agent of before dated claims.
func (c *Cluster) undated(n *Node) bool { return n.Index >= c.cfg.Nodes-c.cfg.Undated }

// demandEvidence tells the networks how closely to watch the peers.
func (c *Cluster) demandEvidence(n *Node) {
	n.view = n.core.NetworkView()
	d := n.core.Merger().Demand(&n.view, n.core.Rosters().Quorum())
	d.Each = n.core.Releasing() || n.core.Arming() || n.core.Rosters().Moving()
	if d == n.demand {
		return
	}
	n.demand = d
	for _, g := range n.gossip {
		g.schedule.SetDemand(d, c.now)
		c.prod(n, g, 0)
	}
}

func (c *Cluster) inquire(n *Node, ask []roster.Set) {
	for k, peers := range ask {
		g := n.gossip[k]
		var wanted roster.Set // the schedule numbers peers as the cluster does
		for _, o := range c.nodes {
			if i, ok := n.indices.of(o); ok && peers.Has(i) {
				wanted.Add(o.Index)
			}
		}
		c.check.Asked += wanted.Len()
		g.schedule.Ask(wanted.Has, c.now)
		c.prod(n, g, 0)
	}
}

func (c *Cluster) ask(n *Node, g *gossip, p *probing.Peer, brief bool) {
	to := c.nodes[p.Index]
	c.ids++
	q := question{id: c.ids, list: g.roster.Digest, holds: p.Digest, brief: brief && p.Known != nil}
	if q.brief && g.schedule.Sweeping(p) {
		q.holds = 0
	}
	if !brief && g.schedule.Tells(p) && p.Holds != n.number {
		q.news = n.number
	}
	c.checkRate(n, g, to)
	g.schedule.Probed(p, q.id, c.now)
	c.carry(g.network, n, to, func(sent boottime.Instant) { c.asked(to, n, g.network, q, sent) })
}

// asked is the receiving end of a probe.
func (c *Cluster) asked(n, from *Node, network int, q question, sent boottime.Instant) {
	g := n.gossip[network]
	p := g.schedule.Peer(from.Index)
	if p == nil {
		return
	}
	g.heard = c.now
	p.Hear(c.now)
	if st := n.said; st != nil {
		if q.holds != 0 || !q.brief {
			p.Holds = q.holds
		}
		r := reply{id: q.id, clock: n.clock(c.now), statement: st, number: n.number, sees: n.sees(from), relay: n.relay, relayAge: c.now.Sub(n.relay.Anchor)}
		switch {
		case q.holds == n.number:
			r.unchanged = true
		case q.brief && q.list == g.roster.Digest:
			if r.statement, r.sight = nil, netgossip.SightUnseen; r.sees {
				r.sight = netgossip.SightSeen
			}
		}
		c.carry(network, n, from, func(boottime.Instant) { c.answered(from, n, network, r, sent) })
	}
	if q.news != 0 && q.news != p.Digest || p.Absent() {
		g.schedule.AskStatement(p, c.now)
	}
	if i, ok := n.indices.of(from); ok {
		n.core.Merger().Heard(network, i, sent)
	}
	c.pump(n, g)
}

// answered handles a reply to a probe that was sent at this instant.
func (c *Cluster) answered(n, from *Node, network int, r reply, sent boottime.Instant) {
	g := n.gossip[network]
	p := g.schedule.Peer(from.Index)
	if p == nil {
		return
	}
	w := n.link(network, from.Index)
	w.answered = max(w.answered, sent)
	g.heard = c.now
	p.Hear(c.now)
	asked, ok := g.schedule.Replied(p, r.id, c.now)
	if !ok {
		return
	}
	a := netgossip.Answer{Network: network, SentAt: asked.At, Statement: r.statement, Sight: r.sight, Sees: r.sees, Clock: r.clock}
	if r.unchanged {
		if asked.Held != r.statement {
			c.check.add("%v: %s takes another statement of %s for confirmed than the one it stands by", c.Now(), n.Name, from.Name)
		}
		if a.Statement = asked.Held; a.Statement == nil {
			return
		}
	}
	if r.relay.Log != 0 {
		a.Relay = r.relay
		a.Relay.Anchor = asked.At.Add(-r.relayAge)
	}
	contact := r.sight == netgossip.SightSeen || a.Statement != nil && r.sees
	g.schedule.Answered(p, asked, contact, c.now)
	if a.Statement != nil {
		p.Tell(asked.At)
	}
	if a.Statement != nil && !r.unchanged && asked.At == p.Proven() {
		p.Known, p.Digest = r.statement, r.number
	}
	if c.undated(n) {
		a.Clock = 0 // it cannot date claims, and counts those without a date
	}
	if i, ok := n.indices.of(from); ok {
		a.Peer = i
		n.core.Merger().Answered(a)
		c.checkDate(n, g, from, i)
		c.wakeNode(n, 0)
	}
	c.pump(n, g)
}

package tietest

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

const (
	size = 4
	tick = 100 * time.Millisecond
)

// Rig creates the tie-breakers of one group.
type Rig struct {
	// New creates the tie-breaker of a node. All members of a rig share the place where their grants are stored. Other
	// work of a tie-breaker, such as I/O, is done within its Step.
	New func(r *roster.Roster, e tie.Evidence, boot uint64, now boottime.Instant) tie.Breaker
	// MaxAge is the time for which members' statements count.
	MaxAge time.Duration
	// Decides is the time within which an equal split without obstacles is decided.
	Decides time.Duration
	// Horizon is the horizon in the nodes' statements, unless a scenario uses another one.
	Horizon time.Duration
	// OneHorizon reports that the tie-breaker always waits for Horizon, whatever the nodes state. Its caller has to
	// check the horizons of the others itself, like package watchdog in the slots of a LUN.
	OneHorizon bool
}

// Group is four nodes with a tie-breaker each.
type Group struct {
	rig      Rig
	now      boottime.Instant
	nodes    [size]*node
	parts    []roster.Set
	problems []string
}

type node struct {
	g        *Group
	self     int
	roster   *roster.Roster
	breaker  tie.Breaker
	down     bool
	horizon  time.Duration
	name     tie.Name
	heard    [size]word
	view     roster.Set
	tieSince boottime.Instant
	was      tie.State
	out      tie.Output

	fedAt    boottime.Instant // latest instant at which the node was fed by a grant
	fedToken netgossip.Token  // its token at that instant
	fedFor   time.Duration    // the horizon that it stated
}

type word struct {
	statement netgossip.Statement
	relay     netgossip.Relay
	at        boottime.Instant // zero: never
}

// Statement implements tie.Evidence.
func (n *node) Statement(peer int) (*netgossip.Statement, boottime.Instant) {
	if w := &n.heard[peer]; w.at != 0 {
		return &w.statement, w.at
	}
	return nil, 0
}

// Relay implements tie.Evidence.
func (n *node) Relay(peer int) netgossip.Relay { return n.heard[peer].relay }

// list returns the group's list of an epoch, for node self.
func list(epoch uint64, self int) *roster.Roster {
	var members []roster.Member
	for i := range size {
		members = append(members, roster.Member{Name: fmt.Sprintf("n%d", i+1)})
	}
	r, err := roster.New(epoch, members, members[self].Name)
	if err != nil {
		panic(err)
	}
	return r
}

func newGroup(rig Rig) *Group {
	g := &Group{rig: rig, now: boottime.Instant(time.Hour), parts: []roster.Set{roster.FullSet(size)}}
	for i := range size {
		n := &node{g: g, self: i, roster: list(1, i), horizon: rig.Horizon, tieSince: g.now}
		n.breaker = rig.New(n.roster, n, uint64(100+i), g.now)
		n.breaker.SetRoster(n.roster, size)
		n.name = n.breaker.Name()
		g.nodes[i] = n
	}
	g.run(5 * time.Second)
	return g
}

func (g *Group) problem(format string, args ...any) {
	if len(g.problems) < 5 {
		g.problems = append(g.problems, fmt.Sprintf("after %v: ", time.Duration(g.now)-time.Hour)+fmt.Sprintf(format, args...))
	}
}

// split cuts the network into parts. A node that is in none of them hears no other.
func (g *Group) split(parts ...roster.Set) { g.parts = parts }

func (g *Group) run(d time.Duration) {
	for end := g.now.Add(d); g.now < end; {
		g.now = g.now.Add(tick)
		g.gossip()
		for _, n := range g.nodes {
			if !n.down {
				n.step()
			}
		}
		g.check()
	}
}

// gossip lets each node hear the nodes of its part.
func (g *Group) gossip() {
	for _, n := range g.nodes {
		for p, peer := range g.nodes {
			if p == n.self || peer.down || peer.view.Len() == 0 || !slices.ContainsFunc(g.parts, func(s roster.Set) bool { return s.Has(p) && s.Has(n.self) }) {
				continue
			}
			n.heard[p] = word{at: g.now, relay: peer.out.Relay, statement: netgossip.Statement{
				Boot: uint64(100 + p), RosterEpoch: peer.roster.Epoch, RosterDigest: peer.roster.Digest, Token: peer.out.Token, View: peer.view,
				Seen: peer.seen(), APIReachable: true, Guard: netgossip.Guard{Horizon: peer.horizon},
			}}
		}
	}
}

func (n *node) seen() roster.Set {
	s := roster.SetOf(n.self)
	for p := range n.heard {
		if w := &n.heard[p]; w.at != 0 && n.g.now.Sub(w.at) < n.g.rig.MaxAge {
			s.Add(p)
		}
	}
	return s
}

func (n *node) step() {
	now := n.g.now
	n.view = roster.SetOf(n.self)
	for p := range n.seen().All() {
		if st := &n.heard[p].statement; p != n.self && st.Seen.Has(n.self) {
			n.view.Add(p)
		}
	}
	if 2*n.view.Len() > size {
		n.tieSince = now
	}
	n.was = n.out.Split
	in := &tie.Input{View: n.view, Tie: 2*n.view.Len() == size, TieSince: n.tieSince, Quorum: size/2 + 1, Horizon: n.horizon}
	n.out = *n.breaker.Step(now, in)
	if !in.Tie && n.out.Split != tie.None {
		n.g.problem("n%d: %v without a tie", n.self+1, n.out.Split)
	}
}

func (n *node) fed() bool { return !n.down && n.out.Split == tie.Won && n.out.Until > n.g.now }

// winner returns a node that lives by a grant; nil: there is none.
func (g *Group) winner() *node {
	for _, n := range g.nodes {
		if n.fed() {
			return n
		}
	}
	return nil
}

// check compares all outputs with the promises.
func (g *Group) check() {
	for _, n := range g.nodes {
		if n.down {
			continue
		}
		if name := n.breaker.Name(); name != n.name {
			if n.name.Log != 0 || name.Setting != n.name.Setting || name.Status != n.name.Status {
				g.problem("n%d: its name was %+v and is %+v", n.self+1, n.name, name)
			}
			n.name = name
		}
		g.checkShown(n)
		if !n.fed() {
			continue
		}
		for _, m := range g.nodes {
			if n.view.Has(m.self) {
				continue
			}
			if m.fed() {
				g.problem("n%d and n%d are fed by two grants", n.self+1, m.self+1)
			}
			if n.was != tie.Won && m.fedAt != 0 && !m.movedOn() {
				if ago := g.now.Sub(m.fedAt); ago < m.fedFor {
					g.problem("n%d has won, and n%d was fed by another grant %v ago and runs on for %v", n.self+1, m.self+1, ago, m.fedFor)
				}
			}
		}
	}
	for _, n := range g.nodes {
		if n.fed() {
			n.fedAt, n.fedToken, n.fedFor = g.now, n.out.Token, n.horizon
		}
	}
}

// movedOn reports whether a node is no longer fed under the grant that named it, and has given it up with another
// token. Then no node waits for it, and a proof of its death counts from the new grant.
func (n *node) movedOn() bool { return !n.down && n.out.Token != n.fedToken }

// checkShown compares the displayed grant with the output.
func (g *Group) checkShown(n *node) {
	grant, ok := n.breaker.Grant(g.now)
	if ok && grant.Held != n.fed() || !ok && n.fed() {
		g.problem("n%d: shown as held: %v, and its answer is %v", n.self+1, grant.Held, n.out.Split)
	}
	if n.fed() && ok && n.out.Why == "" { // otherwise it lives by the majority of a partner while the network heals
		if names := slices.Sorted(slices.Values(n.roster.Names(n.view))); !slices.Equal(grant.Holders, names) {
			g.problem("n%d: shown as granted to %v, and %v live by it", n.self+1, grant.Holders, names)
		}
	}
}

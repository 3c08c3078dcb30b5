package tietest

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Case is one scenario of the suite.
type Case struct {
	Name string
	run  func(*Group)
}

// Cases returns the suite. All promises are checked in each step of every scenario.
func Cases() []Case {
	return []Case{
		{"a split is decided, once", decides},
		{"the other half follows the dead when they have been reset", follows},
		{"and waits for the longest horizon", waits},
		{"other halves", others},
		{"a heal ends it", heals},
		{"another list ends it", listEnds},
	}
}

// Run plays a scenario, and returns the broken promises.
func (c Case) Run(rig Rig) []string {
	g := newGroup(rig)
	c.run(g)
	return g.problems
}

// Conform runs the suite. open returns a rig for the tie-breakers of one group, for one scenario.
func Conform(t *testing.T, open func(t *testing.T) Rig) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			for _, problem := range c.Run(open(t)) {
				t.Error(problem)
			}
		})
	}
}

var (
	ab, cd = roster.SetOf(0, 1), roster.SetOf(2, 3)
	ac, bd = roster.SetOf(0, 2), roster.SetOf(1, 3)
	ad, bc = roster.SetOf(0, 3), roster.SetOf(1, 2)
)

// mustWin waits until one half lives by a grant.
func (g *Group) mustWin() *node {
	for end := g.now.Add(g.rig.Decides); g.winner() == nil; g.run(tick) {
		if g.now >= end {
			g.problem("nobody has won within %v", g.rig.Decides)
			return nil
		}
	}
	g.run(time.Second)
	return g.winner()
}

func decides(g *Group) {
	g.split(ab, cd)
	w := g.mustWin()
	if w == nil {
		return
	}
	g.run(time.Minute)
	for _, n := range g.nodes {
		if want := w.view.Has(n.self); n.fed() != want {
			g.problem("n%d lives: %v, a minute after the decision for %v", n.self+1, n.fed(), w.roster.Names(w.view))
		}
	}
}

// die powers off the nodes that live by the grant; the others then may take over.
func (g *Group) die() {
	for _, n := range g.nodes {
		n.down = n.fed()
	}
	g.run(2 * time.Minute)
}

func follows(g *Group) {
	g.split(ab, cd)
	if g.mustWin() != nil {
		g.die()
	}
}

func waits(g *Group) {
	if g.rig.OneHorizon {
		return
	}
	for _, n := range g.nodes {
		n.horizon = 5 * g.rig.Horizon
	}
	g.run(10 * g.rig.Horizon) // a horizon must be stated before it counts, and a log without a grant does not count for that long
	g.split(ab, cd)
	if g.mustWin() != nil {
		g.die()
	}
}

// others lets halves win one after the other; each shares a node with the half before it.
func others(g *Group) {
	for _, halves := range [][]roster.Set{{ab, cd}, {ac, bd}, {ad, bc}, {ab, cd}} {
		g.split(halves...)
		g.run(time.Minute)
	}
	g.split(roster.FullSet(size))
	g.run(10 * time.Second)
	g.split(bc, ad)
	g.mustWin()
}

func heals(g *Group) {
	g.split(ab, cd)
	if g.mustWin() == nil {
		return
	}
	g.split(roster.FullSet(size))
	g.run(g.rig.MaxAge + time.Second)
	for _, n := range g.nodes {
		if n.out.Split != tie.None {
			g.problem("n%d: %v after the heal", n.self+1, n.out.Split)
		}
	}
}

// listEnds gives one member of the half that lives another list: that member does not live on by a grant under the old
// list.
func listEnds(g *Group) {
	g.split(ab, cd)
	w := g.mustWin()
	if w == nil {
		return
	}
	token := w.out.Token
	w.roster = list(2, w.self)
	w.breaker.SetRoster(w.roster, size)
	w.step()
	if w.out.Split == tie.Won || w.out.Token == token {
		g.problem("n%d: %v with token %v by another list, and had token %v", w.self+1, w.out.Split, w.out.Token, token)
	}
}

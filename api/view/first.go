package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// recently is the time after an agent's start for which the first lines of a status show how the previous boot ended.
const recently = time.Hour

// Group is a set of nodes with the same trouble.
type Group struct {
	Nodes      []string
	What       string
	Style      Style
	from, till time.Duration // the range of the durations
	more       string
	proven     time.Duration // until the death of the last of them is proven; 0: not known
}

// Text describes the nodes, their trouble and its duration.
func (g *Group) Text() string {
	text := FewNames(g.Nodes) + ": " + g.What
	switch {
	case g.till == 0:
	case Brief(g.from) == Brief(g.till) || g.till-g.from < 2*time.Second:
		text += " for " + Brief(g.till)
	default:
		text += " for " + Brief(g.from) + " to " + Brief(g.till)
	}
	if g.proven > 0 {
		text += "; dead for certain in " + Brief(g.proven) + " at the earliest"
	}
	return text + g.more
}

// Missing returns the nodes that are not in order, the worst first. Nodes with the same trouble for the same reason are
// one group.
func Missing(st *fencingv1.Status) []Group {
	m := newMatrix(st)
	var out []Group
	for _, n := range Natural(st.GetNodes()) {
		if n.GetName() == m.self || !m.trouble(n) {
			continue
		}
		what, level, age := m.matter(n)
		more, proven := "", time.Duration(0)
		if st.GetVerdict().GetQuorum() { // without quorum, no report of this node proves a death
			more = outlook(n)
			// an older agent also reports when time would prove it
			if n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED {
				proven = n.GetProvenIn().AsDuration()
			}
		}
		i := slices.IndexFunc(out, func(g Group) bool { return g.What == what && g.more == more })
		if i < 0 {
			i, out = len(out), append(out, Group{What: what, Style: level, from: age, till: age, more: more})
		}
		g := &out[i]
		g.proven = max(g.proven, proven)
		g.Nodes, g.from, g.till = append(g.Nodes, n.GetName()), min(g.from, age), max(g.till, age)
	}
	slices.SortStableFunc(out, func(a, b Group) int { return int(b.Style) - int(a.Style) })
	return out
}

// outlook describes what to expect of an unreachable node.
func outlook(n *fencingv1.NodeStatus) string {
	text := ""
	if n.GetState() != fencingv1.NodeState_NODE_STATE_UNREACHABLE {
		return text
	}
	if oneWay(n) {
		text += "; heard just now, so packets pass one way only, or it has just gone"
	}
	if n.GetProvenIn() == nil && n.GetSentence() == nil {
		text += "; time alone will not prove its death"
	}
	return text
}

// oneWay reports whether a node that does not answer may still be sending. It was heard just now, and so long after its
// last answer that one cut cannot have stopped both kinds of packets.
func oneWay(n *fencingv1.NodeStatus) bool {
	const apart = 2 * time.Second
	heard, answered := n.GetHeardAge(), n.GetEvidenceAge()
	return heard != nil && heard.AsDuration() < StaleAfter && (answered == nil || answered.AsDuration()-heard.AsDuration() > apart)
}

// matter describes what is wrong with a node, and for how long.
func (m *matrix) matter(n *fencingv1.NodeStatus) (what string, level Style, age time.Duration) {
	s := m.state(n)
	if n.GetState() != fencingv1.NodeState_NODE_STATE_REACHABLE {
		what = s.Text
		if d := n.GetDeath(); d != nil && n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
			what += ", proof " + strings.ToLower(strings.TrimPrefix(d.GetProof().String(), "PROOF_")) + "; no answer"
		}
		return what, s.Style, n.GetEvidenceAge().AsDuration()
	}
	var faults []string
	for i, network := range m.nets {
		peer := m.members[i][n.GetName()]
		if !network.GetUp() || peer.GetReachable() {
			continue
		}
		faults = append(faults, strings.SplitN(m.link(i, n.GetName()).Text, " ", 2)[0]+" on "+network.GetName())
		if peer.GetEvidenceAge() != nil {
			age = max(age, peer.GetEvidenceAge().AsDuration())
		}
	}
	if s.Style != Plain {
		faults = append(faults, s.Text)
	}
	switch {
	case !n.GetSameRoster():
		faults = append(faults, "another list of nodes")
	case !n.GetCounted() && !n.GetSeesThisNode():
		faults = append(faults, "this node not reached from there")
	case !n.GetCounted():
		faults = append(faults, "not counted")
	}
	for _, f := range []struct {
		is   bool
		text string
	}{
		{n.GetWatchdogArmed() && !n.GetFeeding(), "watchdog not fed"},
		{m.guarded && !n.GetWatchdogArmed(), "watchdog not armed"},
		{m.lun && !n.GetLunHealthy(), "LUN not usable there"},
		{m.api && !n.GetApiReachable(), "API not reached from there"},
	} {
		if f.is {
			faults = append(faults, f.text)
		}
	}
	return strings.Join(faults, ", "), Warn, age
}

// Faults lists the items, besides the nodes, that a person should know about, each with what to do. A trouble that
// another trouble explains is left out.
func Faults(st *fencingv1.Status, zone *time.Location) (out []Item) {
	p := &Page{}
	allItems(p, st)
	if st.GetSelf().GetUptime().AsDuration() < recently {
		before(p, st, zone)
	}
	var all []trouble.Found
	if len(Missing(st)) > 0 {
		all = append(all, trouble.Found{Trouble: trouble.MembersMissing})
	}
	for i := range p.items {
		all = append(all, p.items[i].Faults...)
	}
	for _, i := range p.items {
		if open := slices.DeleteFunc(slices.Clone(i.Faults), func(f trouble.Found) bool { return f.Explained(all) }); len(open) > 0 {
			out = append(out, Item{i.Label, append(slices.Clone(i.Spans), Span{"(" + open[0].Do + ")", Plain}), open})
		}
	}
	return out
}

// Fine describes in one line what is in order.
func Fine(st *fencingv1.Status) string {
	fine, all := 0, len(st.GetNodes())
	m := newMatrix(st)
	for _, n := range st.GetNodes() {
		if n.GetName() == m.self || !m.trouble(n) {
			fine++
		}
	}
	parts := []string{fmt.Sprintf("%d of %d nodes", fine, all)}
	if fine == all {
		parts[0] = fmt.Sprintf("all %d nodes", all)
	}
	var up []string
	for _, n := range st.GetNetworks() {
		if n.GetUp() {
			up = append(up, n.GetName())
		}
	}
	if len(up) > 0 {
		parts = append(parts, "network "+strings.Join(up, ", "))
	}
	luns := 0
	for _, l := range st.GetLuns() {
		if l.GetHealthy() {
			luns++
		}
	}
	switch {
	case luns == 1 && len(st.GetLuns()) == 1:
		parts = append(parts, "LUN")
	case luns > 0:
		parts = append(parts, fmt.Sprintf("%d of %d LUNs", luns, len(st.GetLuns())))
	}
	if w := st.GetWatchdog(); w.GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_ARMED {
		parts = append(parts, "watchdog "+Exact(w.GetTimeout())+" (slack "+Ago(w.GetSlack())+")")
	}
	return strings.Join(parts, "; ")
}

// first writes what a person needs first, below the verdict.
func (v *Text) first(p *Page, st *fencingv1.Status) {
	const most = 8
	groups := Missing(st)
	for i := range groups {
		label := ""
		if i == 0 {
			label = "missing"
			if groups[0].Style < Bad {
				label = "nodes"
			}
		}
		if i == most {
			p.item("", Span{fmt.Sprintf("and %d more kinds of trouble", len(groups)-most), Warn})
			break
		}
		p.item(label, Span{groups[i].Text(), groups[i].Style})
	}
	for _, i := range Faults(st, v.Zone) {
		p.item(i.Label, i.Spans...)
	}
	p.item("in order", Span{Fine(st), Plain})
	p.item("more", Span{"fencectl status -v", Plain})
}

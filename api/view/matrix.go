package view

import (
	"fmt"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// smallGroup is the largest group whose nodes are all shown one by one. Of a larger group only nodes with trouble are
// shown, and at most this many, which fits on a screen.
const smallGroup = 20

// matrix writes a table of nodes by networks.
func (v *Text) matrix(p *Page, st *fencingv1.Status) {
	m := newMatrix(st)
	shown, footer := v.choose(Natural(st.GetNodes()), m)
	rows := [][]Span{m.header()}
	for _, n := range shown {
		rows = append(rows, m.row(n))
	}
	p.grid(rows)
	if footer != "" {
		p.Text("", 0, Span{footer, Plain})
	}
	m.notes(p, Natural(st.GetNodes()))
}

// choose returns the nodes to show and a line about the others.
func (v *Text) choose(nodes []*fencingv1.NodeStatus, m *matrix) (shown []*fencingv1.NodeStatus, footer string) {
	if v.All || len(nodes) <= smallGroup {
		return nodes, ""
	}
	fine := 0
	for _, n := range nodes {
		if n.GetName() == m.self || m.trouble(n) {
			shown = append(shown, n)
		} else {
			fine++
		}
	}
	footer = fmt.Sprintf("%d more nodes are in order; --all shows them", fine)
	if hidden := len(shown) - smallGroup; hidden > 0 {
		shown = shown[:smallGroup]
		footer = fmt.Sprintf("%d more nodes have trouble, %d are in order; --all shows them", hidden, fine)
	}
	return shown, footer
}

// matrix is the part of a status that the rows need.
type matrix struct {
	self    string
	nets    []*fencingv1.NetworkStatus
	members []map[string]*fencingv1.NetworkMember // by network, then name
	lun     bool
	api     bool
	guarded bool // this node has an armed watchdog, so the others should
}

func newMatrix(st *fencingv1.Status) *matrix {
	m := &matrix{
		self: st.GetSelf().GetName(), nets: st.GetNetworks(), lun: len(st.GetLuns()) > 0,
		api: st.GetApi().GetConfigured(), guarded: st.GetWatchdog().GetArmed(),
	}
	for _, n := range m.nets {
		members := make(map[string]*fencingv1.NetworkMember, len(n.GetMembers()))
		for _, member := range n.GetMembers() {
			members[member.GetName()] = member
		}
		m.members = append(m.members, members)
	}
	return m
}

func (m *matrix) header() []Span {
	row := []Span{{"NODE", Plain}, {"STATE", Plain}}
	for _, n := range m.nets {
		if n.GetUp() {
			row = append(row, Span{n.GetName(), Plain})
		} else {
			row = append(row, Span{n.GetName() + " DOWN", Bad})
		}
	}
	row = append(row, Span{"COUNTED", Plain}, Span{"ROSTER", Plain}, Span{"WATCHDOG", Plain})
	if m.lun {
		row = append(row, Span{"LUN", Plain})
	}
	if m.api {
		row = append(row, Span{"API", Plain})
	}
	return append(row, Span{"VERSION", Plain})
}

func (m *matrix) row(n *fencingv1.NodeStatus) []Span {
	row := []Span{{n.GetName(), Plain}, m.state(n)}
	for i := range m.nets {
		row = append(row, m.link(i, n.GetName()))
	}
	counted := Span{"yes", Plain}
	switch {
	case !n.GetCounted():
		counted = Span{"NO", Bad}
	case !n.GetReachable() && n.GetCountedByLun():
		counted = Span{"by LUN", Warn}
	}
	row = append(row, counted, m.said(n, sameRoster(n)), m.said(n, guard(n)))
	if m.lun {
		row = append(row, m.said(n, works(n.GetLunHealthy())))
	}
	if m.api {
		row = append(row, m.said(n, works(n.GetApiReachable())))
	}
	return append(row, m.said(n, Span{n.GetVersion(), Plain}))
}

// State returns the state of a node, as far as it is known.
func State(st *fencingv1.Status, n *fencingv1.NodeStatus) Span {
	return (&matrix{self: st.GetSelf().GetName()}).state(n)
}

func (m *matrix) state(n *fencingv1.NodeStatus) Span {
	switch {
	case n.GetName() == m.self:
		return Span{"this node", Plain}
	case n.GetState() == fencingv1.NodeState_NODE_STATE_REACHABLE && n.GetStopping():
		return Span{"stopping", Warn}
	}
	if Sentence(n) != "" {
		return Span{"CONDEMNED", Bad}
	}
	switch n.GetState() {
	case fencingv1.NodeState_NODE_STATE_REACHABLE:
		if doubted(n) {
			return Span{"DOUBTED", Bad}
		}
		if flaps(n) {
			return Span{"FLAPPING", Bad}
		}
		if n.GetSuspect() {
			return Span{"suspect", Warn}
		}
		return Span{"reachable", Plain}
	case fencingv1.NodeState_NODE_STATE_UNREACHABLE:
		return Span{"UNREACHABLE", Bad}
	case fencingv1.NodeState_NODE_STATE_FENCED:
		return Span{"FENCED", Bad}
	case fencingv1.NodeState_NODE_STATE_STOPPED:
		return Span{"STOPPED", Warn}
	case fencingv1.NodeState_NODE_STATE_RESTARTING:
		return Span{"restarting", Warn}
	case fencingv1.NodeState_NODE_STATE_UNKNOWN:
		return Span{"NEVER SEEN", Bad}
	default:
		return Span{fmt.Sprintf("state %d", n.GetState()), Warn}
	}
}

// doubted reports whether a node is LEFT although the evidence about it has not expired.
func doubted(n *fencingv1.NodeStatus) bool {
	return n.GetReachable() && !n.GetAvailable() && n.GetLeftReason() == "doubted"
}

// link describes a node on one network.
func (m *matrix) link(network int, name string) Span {
	if name == m.self {
		if m.nets[network].GetUp() {
			return Span{"up", Plain}
		}
		return Span{"DOWN", Bad}
	}
	peer := m.members[network][name]
	switch {
	case peer == nil:
		return Span{"-", Plain}
	case peer.GetSuspect():
		return Span{"late " + Ago(peer.GetEvidenceAge()), Warn}
	case peer.GetReachable():
		return Span{"ok " + Ago(peer.GetEvidenceAge()), Plain}
	case peer.GetEvidenceAge() == nil && peer.GetStateAge() != nil:
		// Older agents forget the last answer when the evidence expires: then only the least time since that answer is
		// known.
		return Span{"LOST >" + Ago(peer.GetStateAge()), Bad}
	case peer.GetEvidenceAge() == nil:
		return Span{"NEVER", Bad}
	case peer.GetAlive():
		return Span{"STALE " + Ago(peer.GetEvidenceAge()), Warn}
	default:
		return Span{"LOST " + Ago(peer.GetEvidenceAge()), Bad}
	}
}

// said formats what a node reported about itself: in brackets if the node does not answer now.
func (m *matrix) said(n *fencingv1.NodeStatus, s Span) Span {
	switch {
	case n.GetName() != m.self && n.GetEvidenceAge() == nil:
		return Span{"-", Plain}
	case s.Text == "":
		return s
	case n.GetName() != m.self && !n.GetReachable():
		return Span{"(" + s.Text + ")", Plain}
	}
	return s
}

func sameRoster(n *fencingv1.NodeStatus) Span {
	if !n.GetSameRoster() {
		return Span{"OTHER", Bad}
	}
	return Span{"same", Plain}
}

func guard(n *fencingv1.NodeStatus) Span {
	switch {
	case !n.GetWatchdogArmed():
		return Span{"unarmed", Plain}
	case !n.GetFeeding():
		return Span{"STARVED", Bad}
	default:
		return Span{Exact(n.GetWatchdogTimeout()), Plain}
	}
}

func works(ok bool) Span {
	if !ok {
		return Span{"FAIL", Warn}
	}
	return Span{"ok", Plain}
}

// flaps reports whether a node that answers is hidden from consumers because it comes and goes.
func flaps(n *fencingv1.NodeStatus) bool { return !n.GetAvailable() && n.GetLeftReason() == "flapping" }

// trouble reports whether a person should see the node.
func (m *matrix) trouble(n *fencingv1.NodeStatus) bool {
	if n.GetState() != fencingv1.NodeState_NODE_STATE_REACHABLE || doubted(n) || flaps(n) || n.GetSuspect() || !n.GetCounted() || !n.GetSameRoster() || n.GetStopping() ||
		(m.lun && !n.GetLunHealthy()) || (m.api && !n.GetApiReachable()) ||
		(m.guarded && !n.GetWatchdogArmed()) || (n.GetWatchdogArmed() && !n.GetFeeding()) {
		return true
	}
	for i, network := range m.nets {
		// A network that is down here means nothing for the other nodes.
		if network.GetUp() && n.GetName() != m.self && !m.members[i][n.GetName()].GetReachable() {
			return true
		}
	}
	return false
}

// notes writes what the cells cannot explain.
func (m *matrix) notes(p *Page, nodes []*fencingv1.NodeStatus) {
	var deaf, blind, other []string
	for _, n := range nodes {
		switch {
		case n.GetName() == m.self:
		case !n.GetReachable() && oneWay(n):
			deaf = append(deaf, n.GetName())
		case n.GetReachable() && !n.GetSeesThisNode():
			blind = append(blind, n.GetName())
		}
		if n.GetReachable() && !n.GetSameRoster() {
			other = append(other, n.GetName())
		}
	}
	for _, n := range nodes {
		if text := Sentence(n); text != "" && n.GetName() != m.self {
			p.Text("    ", 8, Span{text, Warn})
		}
	}
	for _, note := range []struct {
		nodes []string
		text  string
	}{
		{deaf, "heard just now, but without an answer (packets pass one way only, or it has just gone):"},
		{blind, "answering, but not reaching this node in turn:"},
		{other, "with another list of nodes (compare the members in its configuration):"},
	} {
		if len(note.nodes) > 0 {
			p.Text("    ", 8, Span{note.text, Warn}, Span{FewNames(note.nodes), Plain})
		}
	}
}

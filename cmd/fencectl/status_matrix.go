package main

import (
	"fmt"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// smallGroup is the number of nodes that are shown one by one; of more, those with
// trouble, and of these no more than the same number. That is what fits on a screen.
const smallGroup = 20

// matrix is nodes by networks: who answers where.
func (v statusView) matrix(p *page, st *fencingv1.Status) {
	m := newMatrix(st)
	shown, footer := v.choose(st.GetNodes(), m)
	rows := [][]span{m.header()}
	for _, n := range shown {
		rows = append(rows, m.row(n))
	}
	p.grid(rows)
	if footer != "" {
		p.text("", 0, span{footer, plain})
	}
	m.notes(p, st.GetNodes())
}

// choose returns the nodes to show and a line about the others.
func (v statusView) choose(nodes []*fencingv1.NodeStatus, m *matrix) (shown []*fencingv1.NodeStatus, footer string) {
	if v.all || len(nodes) <= smallGroup {
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

// matrix is what the rows need of a status.
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

func (m *matrix) header() []span {
	row := []span{{"NODE", plain}, {"STATE", plain}}
	for _, n := range m.nets {
		if n.GetUp() {
			row = append(row, span{n.GetName(), plain})
		} else {
			row = append(row, span{n.GetName() + " DOWN", bad})
		}
	}
	row = append(row, span{"COUNTED", plain}, span{"ROSTER", plain}, span{"WATCHDOG", plain})
	if m.lun {
		row = append(row, span{"LUN", plain})
	}
	if m.api {
		row = append(row, span{"API", plain})
	}
	return append(row, span{"VERSION", plain})
}

func (m *matrix) row(n *fencingv1.NodeStatus) []span {
	row := []span{{n.GetName(), plain}, m.state(n)}
	for i := range m.nets {
		row = append(row, m.link(i, n.GetName()))
	}
	counted := span{"yes", plain}
	switch {
	case !n.GetCounted():
		counted = span{"NO", bad}
	case !n.GetReachable() && n.GetCountedByLun():
		counted = span{"by LUN", warn}
	}
	row = append(row, counted, m.said(n, sameRoster(n)), m.said(n, guard(n)))
	if m.lun {
		row = append(row, m.said(n, works(n.GetLunHealthy())))
	}
	if m.api {
		row = append(row, m.said(n, works(n.GetApiReachable())))
	}
	return append(row, m.said(n, span{n.GetVersion(), plain}))
}

func (m *matrix) state(n *fencingv1.NodeStatus) span {
	switch {
	case n.GetName() == m.self:
		return span{"this node", plain}
	case n.GetState() == fencingv1.NodeState_NODE_STATE_REACHABLE && n.GetStopping():
		return span{"stopping", warn}
	}
	if sentence(n) != "" {
		return span{"CONDEMNED", bad}
	}
	switch n.GetState() {
	case fencingv1.NodeState_NODE_STATE_REACHABLE:
		if doubted(n) {
			return span{"DOUBTED", bad}
		}
		return span{"reachable", plain}
	case fencingv1.NodeState_NODE_STATE_UNREACHABLE:
		return span{"UNREACHABLE", bad}
	case fencingv1.NodeState_NODE_STATE_FENCED:
		return span{"FENCED", bad}
	case fencingv1.NodeState_NODE_STATE_STOPPED:
		return span{"STOPPED", warn}
	case fencingv1.NodeState_NODE_STATE_RESTARTING:
		return span{"restarting", warn}
	case fencingv1.NodeState_NODE_STATE_UNKNOWN:
		return span{"NEVER SEEN", bad}
	default:
		return span{fmt.Sprintf("state %d", n.GetState()), warn}
	}
}

// doubted reports whether a node is LEFT though the evidence of it has not run out.
func doubted(n *fencingv1.NodeStatus) bool {
	return n.GetReachable() && !n.GetAvailable() && n.GetLeftReason() == "doubted"
}

// link is a node on one network.
func (m *matrix) link(network int, name string) span {
	if name == m.self {
		if m.nets[network].GetUp() {
			return span{"up", plain}
		}
		return span{"DOWN", bad}
	}
	peer := m.members[network][name]
	switch {
	case peer == nil:
		return span{"-", plain}
	case peer.GetReachable():
		return span{"ok " + ago(peer.GetEvidenceAge()), plain}
	case peer.GetEvidenceAge() == nil && peer.GetStateAge() != nil:
		// Older agents forget the answer with the evidence: it was reached before, and how long ago
		// at least is all that can be said.
		return span{"LOST >" + ago(peer.GetStateAge()), bad}
	case peer.GetEvidenceAge() == nil:
		return span{"NEVER", bad}
	case peer.GetAlive():
		return span{"STALE " + ago(peer.GetEvidenceAge()), warn}
	default:
		return span{"LOST " + ago(peer.GetEvidenceAge()), bad}
	}
}

// said marks what a node said of itself: in brackets if that is the last thing heard
// from a node that does not answer now.
func (m *matrix) said(n *fencingv1.NodeStatus, s span) span {
	switch {
	case n.GetName() != m.self && n.GetEvidenceAge() == nil:
		return span{"-", plain}
	case s.text == "":
		return s
	case n.GetName() != m.self && !n.GetReachable():
		return span{"(" + s.text + ")", plain}
	}
	return s
}

func sameRoster(n *fencingv1.NodeStatus) span {
	if !n.GetSameRoster() {
		return span{"OTHER", bad}
	}
	return span{"same", plain}
}

func guard(n *fencingv1.NodeStatus) span {
	switch {
	case !n.GetWatchdogArmed():
		return span{"unarmed", plain}
	case !n.GetFeeding():
		return span{"STARVED", bad}
	default:
		return span{exact(n.GetWatchdogTimeout()), plain}
	}
}

func works(ok bool) span {
	if !ok {
		return span{"FAIL", warn}
	}
	return span{"ok", plain}
}

// trouble reports whether a person should see the node.
func (m *matrix) trouble(n *fencingv1.NodeStatus) bool {
	if n.GetState() != fencingv1.NodeState_NODE_STATE_REACHABLE || doubted(n) || !n.GetCounted() || !n.GetSameRoster() || n.GetStopping() ||
		(m.lun && !n.GetLunHealthy()) || (m.api && !n.GetApiReachable()) ||
		(m.guarded && !n.GetWatchdogArmed()) || (n.GetWatchdogArmed() && !n.GetFeeding()) {
		return true
	}
	for i, network := range m.nets {
		// A network that is down here says nothing about the others.
		if network.GetUp() && n.GetName() != m.self && !m.members[i][n.GetName()].GetReachable() {
			return true
		}
	}
	return false
}

// notes explain what the cells cannot.
func (m *matrix) notes(p *page, nodes []*fencingv1.NodeStatus) {
	var oneWay, blind, other []string
	for _, n := range nodes {
		heard := n.GetHeardAge()
		switch {
		case n.GetName() == m.self:
		case !n.GetReachable() && heard != nil && heard.AsDuration() < staleAfter:
			oneWay = append(oneWay, n.GetName())
		case n.GetReachable() && !n.GetSeesThisNode():
			blind = append(blind, n.GetName())
		}
		if n.GetReachable() && !n.GetSameRoster() {
			other = append(other, n.GetName())
		}
	}
	for _, n := range nodes {
		if text := sentence(n); text != "" && n.GetName() != m.self {
			p.text("    ", 8, span{text, warn})
		}
	}
	for _, note := range []struct {
		nodes []string
		text  string
	}{
		{oneWay, "heard just now, but without an answer (packets pass one way only, or it has just gone):"},
		{blind, "answering, but not reaching this node in turn:"},
		{other, "with another list of nodes (compare the members in its configuration):"},
	} {
		if len(note.nodes) > 0 {
			p.text("    ", 8, span{note.text, warn}, span{fewNames(note.nodes), plain})
		}
	}
}

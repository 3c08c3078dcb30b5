package publish

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Node is an available member of the group.
type Node struct {
	Name      string
	Addresses map[string]string // interface or network name -> IP; copied
	// PrevDisconnect is the time at which the node was last LEFT. Zero: the hub uses the time that it remembers.
	PrevDisconnect time.Time
}

// Edge is one change of the set of available nodes that the agent decided.
type Edge struct {
	Type   fencingv1.EventType // LEFT or JOIN; anything else is ignored
	Node   Node                // for LEFT the name is enough
	Time   time.Time           // wall clock; zero: now
	Source string              // the node that noticed it, for debugging; empty: HubConfig.Source
}

func compareName(n *fencingv1.Node, name string) int { return cmp.Compare(n.GetName(), name) }

// set is the available nodes sorted by name. Messages that are being sent share its nodes: they are replaced, never
// changed.
type set []*fencingv1.Node

func (s set) find(name string) (int, bool) { return slices.BinarySearchFunc(s, name, compareName) }

// history remembers when nodes were last LEFT.
type history map[string]time.Time

// maxHistory limits how many names that never come back are remembered: it is four times the greatest roster.
const maxHistory = 4096

func (h history) left(name string, at time.Time) {
	h[name] = at
	if len(h) <= maxHistory {
		return
	}
	oldest := name
	for n, t := range h {
		if t.Before(h[oldest]) {
			oldest = n
		}
	}
	delete(h, oldest)
}

// apply changes s by e and returns the event to send, or nil if e changes nothing.
func (s *set) apply(e Edge, past history) *fencingv1.Event {
	i, there := s.find(e.Node.Name)
	var node *fencingv1.Node
	switch e.Type {
	case fencingv1.EventType_LEFT:
		if !there {
			return nil
		}
		node = (*s)[i]
		*s = slices.Delete(*s, i, i+1)
		past.left(e.Node.Name, e.Time)
	case fencingv1.EventType_JOIN:
		if there && maps.Equal((*s)[i].Addresses, e.Node.Addresses) {
			return nil
		}
		node = message(e.Node, past)
		if there {
			(*s)[i] = node
		} else {
			*s = slices.Insert(*s, i, node)
		}
	default:
		return nil
	}
	return &fencingv1.Event{
		Node:       node,
		Time:       timestamppb.New(e.Time),
		Type:       e.Type,
		SourceName: proto.String(e.Source),
	}
}

// message creates the immutable message for n.
func message(n Node, past history) *fencingv1.Node {
	m := &fencingv1.Node{Name: n.Name, Addresses: maps.Clone(n.Addresses)}
	prev := n.PrevDisconnect
	if prev.IsZero() {
		prev = past[n.Name]
	}
	if !prev.IsZero() {
		m.PrevDisconnectTime = timestamppb.New(prev)
	}
	return m
}

// missing lists the edges that lead from s to nodes.
func (s set) missing(nodes []Node) []Edge {
	var edges []Edge
	wanted := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		wanted[n.Name] = true
		if i, there := s.find(n.Name); !there || !maps.Equal(s[i].Addresses, n.Addresses) {
			edges = append(edges, Edge{Type: fencingv1.EventType_JOIN, Node: n})
		}
	}
	for _, n := range s {
		if !wanted[n.GetName()] {
			edges = append(edges, Edge{Type: fencingv1.EventType_LEFT, Node: Node{Name: n.GetName()}})
		}
	}
	return edges
}

package members

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Node is the known state of a Node.
type Node struct {
	Group string // value of the group's label; empty: none
	State ownnode.State
}

// Hub is what this replica knows, and the streams on which it is sent.
type Hub struct {
	mu       sync.Mutex
	synced   bool
	nodes    map[string]Node
	books    map[string]*memberbook.Book // as stored in the API server, by group
	lists    map[string]*roster.Roster   // of the groups that have one
	floors   map[string]uint64           // the highest epoch ever seen, by group
	problems map[string]string
	reports  map[string]map[string]memberbook.Addresses // of agents that follow this replica, or followed it, by group and node
	streams  map[string]*stream                         // by node
	dirty    map[string]bool                            // groups to examine
	found    []deaths.Death                             // of all groups
	foundAt  time.Time                                  // when the findings were read last; zero: never
	changed  boottime.Wake
}

// stream is one agent that follows.
type stream struct {
	node, group string
	wake        boottime.Wake  // something may have changed
	over        chan struct{}  // closed when a later stream of the node has begun
	have        uint64         // epoch that the agent says it has
	told        bool           // its addresses were received on this stream
	gone        *ownnode.State // not nil if the Node was deleted; nil: this replica knows of no deletion
}

// NewHub returns a hub that knows nothing yet.
func NewHub() *Hub {
	return &Hub{
		nodes: map[string]Node{}, books: map[string]*memberbook.Book{}, lists: map[string]*roster.Roster{}, floors: map[string]uint64{}, problems: map[string]string{},
		reports: map[string]map[string]memberbook.Addresses{}, streams: map[string]*stream{}, dirty: map[string]bool{}, changed: boottime.NewWake(),
	}
}

// Synced records that all Nodes and books have been seen once.
func (h *Hub) Synced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = true
	for _, n := range h.nodes {
		h.look(n.Group)
	}
	h.wakeAll(func(*stream) bool { return true })
}

// Seen records the state of a Node.
func (h *Hub) Seen(name string, n Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, there := h.nodes[name]
	h.nodes[name] = n
	if !there || was.Group != n.Group {
		h.look(was.Group)
		h.look(n.Group)
	}
	if !there || !was.State.Equal(n.State) {
		h.wakeAll(func(s *stream) bool { return s.node == name })
	}
}

// Gone records the deletion of a Node, with its last state.
func (h *Hub) Gone(name string, last ownnode.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.nodes[name]
	delete(h.nodes, name)
	h.look(was.Group)
	if s := h.streams[name]; s != nil {
		s.gone = deleted(last.UID, last.Version)
	}
	h.wakeAll(func(s *stream) bool { return s.node == name })
}

func deleted(uid string, version uint64) *ownnode.State {
	return &ownnode.State{Known: true, UID: uid, Version: version}
}

// missing records that a Node does not exist which the agent of a stream has known.
func (h *Hub) missing(s *stream, uid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.gone == nil {
		s.gone = deleted(uid, 0)
	}
}

// Booked records a book as stored in the API server; nil: it was deleted.
func (h *Hub) Booked(group string, b *memberbook.Book) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look(group)
	h.overtaken(group, b)
	delete(h.lists, group)
	if b == nil {
		delete(h.books, group)
		return
	}
	h.books[group] = b
	if b.Epoch > 0 {
		if r, err := roster.Of(b.Epoch, b.Members, ""); err == nil { // otherwise it was not a book
			h.lists[group] = r
		}
	}
	h.floors[group] = max(h.floors[group], b.Epoch)
	h.wakeAll(func(s *stream) bool { return s.group == group })
}

// overtaken drops the addresses of streams whose agents another replica has written into the book with other
// addresses: those agents follow that replica now, and this replica has not noticed yet.
//
// Invariant: a dead stream does not change the book. Otherwise two replicas would overwrite each other's lists for as
// long as the stream seems to be alive.
func (h *Hub) overtaken(group string, b *memberbook.Book) {
	was := h.books[group]
	if was == nil || b == nil {
		return
	}
	for _, s := range h.streams {
		told, before, now := h.reports[group][s.node], was.Reports[s.node], b.Reports[s.node]
		if s.group == group && s.told && maps.Equal(told, before) && len(now) > 0 && !maps.Equal(now, before) {
			s.told = false
		}
	}
}

// Lost records the deletion of the ConfigMap with this name.
func (h *Hub) Lost(name string) {
	h.mu.Lock()
	var groups []string
	for g := range h.books {
		if BookName(g) == name {
			groups = append(groups, g)
		}
	}
	h.mu.Unlock()
	for _, g := range groups {
		h.Booked(g, nil)
	}
}

// problem records the reason why a group has no newer list.
func (h *Hub) problem(group, text string) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.problems[group] == text {
		return false
	}
	h.problems[group] = text
	h.wakeAll(func(s *stream) bool { return s.group == group })
	return true
}

// follow begins a stream, which ends an earlier one of the same node. ok is false if the node is
// not of the group and never was.
func (h *Hub) follow(node, group string) (s *stream, synced, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.synced {
		return nil, false, false
	}
	n, there := h.nodes[node]
	listed := false
	if b := h.books[group]; b != nil { // a removed node learns that it was removed
		for _, m := range b.Members {
			listed = listed || m.Name == node
		}
		listed = listed || slices.Contains(b.Former, node)
	}
	// Invariant: a node learns nothing about a group that it is not in.
	if !(there && n.Group == group) && !listed || group == "" {
		return nil, true, false
	}
	if old := h.streams[node]; old != nil {
		close(old.over)
	}
	s = &stream{node: node, group: group, wake: boottime.NewWake(), over: make(chan struct{})}
	h.streams[node] = s
	return s, true, true
}

// leave ends a stream. If no book has the node, its agent's report stays valid: the addresses have not changed.
func (h *Hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[s.node] == s {
		delete(h.streams, s.node)
	}
}

// reported records the addresses of a stream's node.
func (h *Hub) reported(s *stream, a memberbook.Addresses, have uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	raised := have > s.have
	if s.have = have; h.streams[s.node] != s {
		return // a later stream of the node has begun
	}
	if b := h.books[s.group]; raised && b != nil && have > b.Epoch {
		h.look(s.group)
	}
	again := !s.told
	s.told = true
	of := h.reports[s.group]
	if of == nil {
		of = map[string]memberbook.Addresses{}
		h.reports[s.group] = of
	}
	if was, there := of[s.node]; again || !there || !maps.Equal(was, a) {
		of[s.node] = a
		h.look(s.group)
	}
}

// view holds what has to be sent on a stream.
type view struct {
	list    *roster.Roster // nil: there is none
	node    *ownnode.State // nil: the Node was never seen
	problem string
	found   []deaths.Death
	finds   bool // the findings were read
}

func (h *Hub) view(s *stream) view {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := view{problem: h.problems[s.group], list: h.lists[s.group], found: h.foundFor(s), finds: !h.foundAt.IsZero()}
	if n, there := h.nodes[s.node]; there {
		v.node = &n.State
	} else {
		v.node = s.gone
	}
	return v
}

// facts returns the input of Step, with the Nodes as this replica has seen them.
func (h *Hub) facts(group string) (f memberbook.Facts, book *memberbook.Book, synced bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = memberbook.Facts{Group: group, Floor: h.floors[group], Reports: map[string]memberbook.Addresses{}, Past: map[string]memberbook.Addresses{}}
	for _, s := range h.streams {
		if s.group == group && s.have > 0 {
			f.Have = append(f.Have, s.have)
		}
	}
	for node, a := range h.reports[group] {
		if s := h.streams[node]; s != nil && s.group == group && s.told {
			f.Reports[node] = a
		} else {
			f.Past[node] = a
		}
	}
	for name, n := range h.nodes {
		if n.Group == group {
			f.Nodes = append(f.Nodes, name)
		}
	}
	slices.Sort(f.Nodes)
	return f, h.books[group], h.synced
}

// groups returns the groups that need work, or may need it.
func (h *Hub) groups(all bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all {
		for g := range h.reports {
			h.dirty[g] = true
		}
		for g := range h.books {
			h.dirty[g] = true
		}
	}
	out := slices.Sorted(maps.Keys(h.dirty))
	clear(h.dirty)
	// If no agent of a group has ever connected, the group does not use this source.
	return slices.DeleteFunc(out, func(g string) bool { return h.books[g] == nil && len(h.reports[g]) == 0 })
}

func (h *Hub) look(group string) {
	if group == "" || !h.synced {
		return
	}
	h.dirty[group] = true
	h.changed.Signal()
}

func (h *Hub) wakeAll(of func(*stream) bool) {
	for _, s := range h.streams {
		if of(s) {
			s.wake.Signal()
		}
	}
}

// Count returns the values of the metrics: how many agents follow, and how many of them have a later list than the
// book, by group; and the books' epochs.
func (h *Hub) Count() (following, ahead map[string]int, epochs map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	following, ahead, epochs = map[string]int{}, map[string]int{}, map[string]uint64{}
	for g, b := range h.books {
		epochs[g], following[g], ahead[g] = b.Epoch, 0, 0
	}
	for _, s := range h.streams {
		following[s.group]++
		if s.have > epochs[s.group] {
			ahead[s.group]++
		}
	}
	return following, ahead, epochs
}

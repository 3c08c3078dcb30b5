package lastman

import (
	"fmt"
	"math/bits"
	"strings"
)

const (
	maxNodes = 6
	maxLog   = 12 // instances that a search can hold
)

// Set is a set of nodes, bit i for node i.
type Set uint8

func setOf(nodes ...int) (s Set) {
	for _, i := range nodes {
		s |= 1 << i
	}
	return s
}

func full(n int) Set         { return 1<<n - 1 }
func (s Set) has(i int) bool { return s>>i&1 == 1 }
func (s Set) size() int      { return bits.OnesCount8(uint8(s)) }

func (s Set) String() string {
	var b strings.Builder
	for i := range maxNodes {
		if s.has(i) {
			fmt.Fprintf(&b, "%d", i+1) // people count nodes from 1
		}
	}
	return "{" + b.String() + "}"
}

// Kind is the kind of a decision.
type Kind uint8

// A decision names holders, who may feed under it. What it does to the group differs.
const (
	none    Kind = iota
	Grant        // the group stays as it is
	Prepare      // the holders are to be the group: who reads its own present token in it is bound to them
	Force        // follows its Prepare: the holders are the group from now on
	Shrink       // both at once, if the bond does not come first
	Return       // the group is N again; it names nobody
)

func (k Kind) String() string {
	return [...]string{"none", "grant", "prepare", "force", "shrink", "return"}[k]
}

// Value is what an instance of the log decides.
type Value struct {
	Kind    Kind
	Holders Set
	Tokens  [maxNodes]uint8 // of the holders
}

// proposal is a value that may still land, for one instance.
type proposal struct {
	instance uint8
	value    Value
}

// Node is one node. All but the path, what is under way and the slot end with a reset.
type Node struct {
	up      bool
	claimed bool  // its slot is its own in this boot: nothing of a former boot can land any more
	gate    bool  // it may claim a majority of N
	shy     bool  // it counts nobody and is counted by nobody (Rules.Uncounted)
	free    bool  // it has returned to N by itself (Rules.ReturnByDecision left out)
	token   uint8 // 0 while it is down
	known   uint8 // latest instance that it has read
	bond    uint8 // instance that binds it; 0: none. With Rules.Stored it outlives a reset.

	path  bool // to the LUN
	empty bool // its own disk: it does not know what binds it (Rules.Stored)
	late  bool // a write of its slot is under way,
	prop  proposal

	slotToken, slotBond uint8
	lateToken, lateBond uint8 // and has these contents
}

// State is one state of the group. It is comparable, and copied by assignment.
type State struct {
	n      uint8
	latest uint8 // instance decided last
	links  [maxNodes]Set
	nodes  [maxNodes]Node
	log    [maxLog + 1]Value
	left   Budget
}

// Budget says how often something may still happen.
type Budget struct{ Resets, Cuts, Paths, Hangs, Disks uint8 }

// config is the group after instance k, and the instance by which its members are bound; 0: it is all of N.
func (s *State) config(k uint8) (members Set, by uint8) {
	members = full(int(s.n))
	for i := uint8(1); i <= k; i++ {
		switch v := &s.log[i]; v.Kind {
		case Force:
			members, by = v.Holders, i-1
		case Shrink:
			members, by = v.Holders, i
		case Return:
			members, by = full(int(s.n)), 0
		}
	}
	return members, by
}

// willing are the nodes that x would count.
func (s *State) willing(x int) Set {
	b := s.nodes[x].bond
	switch {
	case s.nodes[x].shy:
		return setOf(x)
	case b == 0:
		return full(int(s.n))
	case s.log[b].Holders.has(x):
		return s.log[b].Holders
	default:
		return setOf(x) // the group goes on without it
	}
}

// view are the nodes that x counts, itself included: both run, have a link and are willing.
func (s *State) view(x int) Set {
	if !s.nodes[x].up {
		return 0
	}
	v := setOf(x)
	mine := s.willing(x) & s.links[x]
	for y := range int(s.n) {
		if y != x && mine.has(y) && s.nodes[y].up && s.willing(y).has(x) {
			v |= setOf(y)
		}
	}
	return v
}

func (s *State) views() (v [maxNodes]Set) {
	for x := range int(s.n) {
		v[x] = s.view(x)
	}
	return v
}

// granted reports whether x lives by the latest decision (L6), its own path or that of another holder (L7).
func (s *State) granted(x int, v *[maxNodes]Set) bool {
	d := &s.log[s.latest]
	if s.latest == 0 || !d.Holders.has(x) || s.nodes[x].known != s.latest {
		return false
	}
	path := false
	for y := range int(s.n) {
		if d.Holders.has(y) {
			if v[y] != d.Holders || s.nodes[y].token != d.Tokens[y] {
				return false
			}
			path = path || s.nodes[y].path
		}
	}
	return path
}

// lives reports whether x may go on feeding for good.
func (s *State) lives(x int, v *[maxNodes]Set, r *Rules) bool {
	nd := &s.nodes[x]
	if !nd.up {
		return false
	}
	if s.granted(x, v) {
		return true
	}
	if nd.bond == 0 {
		return nd.gate && 2*v[x].size() > int(s.n)
	}
	if !r.OnlyGrants {
		members, by := s.config(nd.known)
		return by != 0 && members.has(x) && 2*v[x].size() > members.size()
	}
	return false
}

// Torn returns two nodes that live apart from each other.
func (s *State) Torn(r *Rules) (x, y int, torn bool) {
	v := s.views()
	for x := range int(s.n) {
		if !s.lives(x, &v, r) {
			continue
		}
		for y := range x {
			if v[x]&v[y] == 0 && s.lives(y, &v, r) {
				return y, x, true
			}
		}
	}
	return 0, 0, false
}

func (s *State) String() string {
	var b strings.Builder
	v := s.views()
	for x := range int(s.n) {
		nd := &s.nodes[x]
		fmt.Fprintf(&b, "  %d: view %v token %d read %d bond %d, slot %d/%d, up %t claimed %t gate %t path %t\n", x+1, v[x], nd.token, nd.known, nd.bond,
			nd.slotToken, nd.slotBond, nd.up, nd.claimed, nd.gate, nd.path)
	}
	for i := uint8(1); i <= s.latest; i++ {
		fmt.Fprintf(&b, "  decision %d: %v %v\n", i, s.log[i].Kind, s.log[i].Holders)
	}
	return b.String()
}

package lastman

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// rank is the place of a token among those in use; 0 stays 0.
func rank(used uint64, token uint8) uint8 {
	if token == 0 {
		return 0
	}
	return uint8(bits.OnesCount64(used&(1<<token-1)&^1)) + 1
}

// A naming gives the nodes other numbers: node x becomes to[x].
type naming struct {
	from [maxNodes]int      // the node that becomes this one
	sets [1 << maxNodes]Set // what a set becomes
}

func newNaming(to []int) (n naming) {
	for x, y := range to {
		n.from[y] = x
	}
	for s := range n.sets {
		for x, y := range to {
			if Set(s).has(x) {
				n.sets[s] |= setOf(y)
			}
		}
	}
	return n
}

// appendTo appends all that tells s, with other numbers, from other states of the same size.
func (n *naming) appendTo(b []byte, s *State) []byte {
	size := int(s.n)
	value := func(v *Value) {
		b = append(b, byte(v.Kind), byte(n.sets[v.Holders]))
		if v.Holders != 0 {
			for y := range size {
				b = append(b, v.Tokens[n.from[y]])
			}
		}
	}
	bit := func(on bool) byte {
		if on {
			return 1
		}
		return 0
	}
	b = append(b, s.latest, s.left.Resets, s.left.Cuts, s.left.Paths, s.left.Hangs, s.left.Disks)
	for y := range size {
		x := n.from[y]
		nd := &s.nodes[x]
		b = append(b, byte(n.sets[s.links[x]]), bit(nd.up)|bit(nd.claimed)<<1|bit(nd.gate)<<2|bit(nd.free)<<3|bit(nd.path)<<4|bit(nd.late)<<5|bit(nd.shy)<<6|bit(nd.empty)<<7,
			nd.token, nd.known, nd.bond, nd.slotToken, nd.slotBond, nd.lateToken, nd.lateBond, nd.prop.instance)
		if nd.prop.instance != 0 {
			value(&nd.prop.value)
		}
	}
	for i := uint8(1); i <= s.latest; i++ {
		value(&s.log[i])
	}
	return b
}

// Found is what a search or a walk found.
type Found struct {
	Torn   []Action // how two parts came to live; nil: they never did
	State  State
	States int
	Depth  int
	Cut    bool // the limit of states was reached
	Met    Met
}

// Met counts the states that a search must reach, or it shows nothing.
type Met struct {
	Shrunk   int // the group is smaller than N
	Few      int // less than half of N live
	Again    int // the group was shrunk, is N again, and a majority of N lives
	Bound    int // a node that has restarted is bound
	Outvoted int // few live while a majority of N runs in one part, elsewhere
}

func (m *Met) note(s *State, r *Rules) {
	members, by := s.config(s.latest)
	if by != 0 {
		m.Shrunk++
	}
	v := s.views()
	var past bool
	for i := uint8(1); i <= s.latest; i++ {
		past = past || s.log[i].Kind == Force
	}
	for x := range int(s.n) {
		nd := &s.nodes[x]
		if nd.up && !nd.claimed && nd.bond != 0 {
			m.Bound++
		}
		if !s.lives(x, &v, r) {
			continue
		}
		if 2*v[x].size() < int(s.n) && v[x] != members {
			m.Few++
			if s.outvoted(v[x]) {
				m.Outvoted++
			}
		}
		if past && by == 0 && 2*v[x].size() > int(s.n) {
			m.Again++
		}
	}
}

// outvoted reports that more than half of N run and have links to each other, without the nodes of few.
func (s *State) outvoted(few Set) bool {
	for x := range int(s.n) {
		var part Set
		for y := range int(s.n) {
			if s.nodes[y].up && s.links[x].has(y) {
				part |= setOf(y)
			}
		}
		if s.nodes[x].up && part&few == 0 && 2*part.size() > int(s.n) {
			return true
		}
	}
	return false
}

// Search visits all states that can be reached from root, the nearest first, until two parts live or
// there are more than limit. States that renumberings of m make equal are visited once.
func (m *Model) Search(root State, limit int) Found {
	type step struct {
		from int32
		by   Action
	}
	type reached struct {
		State
		id int32
	}
	seed := maphash.MakeSeed()
	namings := m.namings(int(root.n))
	var buf []byte
	key := func(s *State) uint64 {
		least := ^uint64(0)
		for i := range namings {
			buf = namings[i].appendTo(buf[:0], s)
			least = min(least, maphash.Bytes(seed, buf))
		}
		return least
	}
	root.normalize()
	visited := map[uint64]struct{}{key(&root): {}}
	steps := []step{{from: -1}}
	level := []reached{{root, 0}}
	var f Found
	for ; len(level) > 0; f.Depth++ {
		var next []reached
		for i := range level {
			before := level[i].views()
			m.actions(&level[i].State, func(a Action) {
				t, ok := m.apply(&level[i].State, &before, a)
				if !ok || f.Torn != nil {
					return
				}
				k := key(&t)
				if _, ok := visited[k]; ok {
					return
				}
				visited[k] = struct{}{}
				id := int32(len(steps))
				steps = append(steps, step{level[i].id, a})
				f.Met.note(&t, &m.Rules)
				if _, _, torn := t.Torn(&m.Rules); torn {
					for at := id; at > 0; at = steps[at].from {
						f.Torn = append([]Action{steps[at].by}, f.Torn...)
					}
					f.State = t
					return
				}
				next = append(next, reached{t, id})
			})
			f.States = len(steps)
			if f.Torn != nil {
				return f
			}
			if f.States >= limit {
				f.Cut = true
				return f
			}
		}
		level = next
	}
	return f
}

// namings are those under which states of n nodes are the same, the plain one among them.
func (m *Model) namings(n int) []naming {
	plain := make([]int, n)
	for x := range plain {
		plain[x] = x
	}
	all := []naming{newNaming(plain)}
	for _, to := range m.Same {
		all = append(all, newNaming(to))
	}
	return all
}

// Walk takes up to length random steps from root, one of eight of them a fault.
func (m *Model) Walk(root State, length int, rng *rand.Rand) Found {
	var f Found
	s := root
	s.normalize()
	var way, common, rare []Action
	for range length {
		common, rare = common[:0], rare[:0]
		m.actions(&s, func(a Action) {
			switch {
			case a.what == propose && Kind(a.arg) != Return, a.what == syncs, a.what == claims, a.what == decides:
				common = append(common, a)
			default:
				rare = append(rare, a)
			}
		})
		can := common
		if rng.IntN(8) == 0 {
			can = rare
		}
		for _, i := range rng.Perm(len(can)) {
			t, ok := m.Apply(&s, can[i])
			if !ok || t == s {
				continue
			}
			s = t
			way = append(way, can[i])
			f.States++
			f.Met.note(&s, &m.Rules)
			break
		}
		if _, _, torn := s.Torn(&m.Rules); torn {
			f.Torn, f.State = way, s
			break
		}
	}
	return f
}

func (m *Met) add(o *Met) {
	m.Shrunk += o.Shrunk
	m.Few += o.Few
	m.Again += o.Again
	m.Bound += o.Bound
	m.Outvoted += o.Outvoted
}

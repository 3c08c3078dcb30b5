package roster

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// vouched returns a node that remembers nothing, with a list for which a person vouches.
func vouched(t *testing.T, list *Roster, forgot bool) *Succession {
	t.Helper()
	s, err := NewSuccession(&Saved{Fresh: true, Chain: []*Roster{list}}, nil, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	s.Vouch(list, forgot)
	return s
}

// Guard: a node that remembers nothing puts the first list into force together with most of its members, but neither
// alone nor while a node in contact has another list in force. A list is stored before its use is announced.
func TestFirstListNeedsOthers(t *testing.T) {
	three, other := listOf(0, 0, 0, 1, 2), listOf(0, 0, 0, 1, 3)
	fresh, inForce := stands(true, nil, three), stands(false, nil, three)
	for name, c := range map[string]struct {
		list   *Roster
		forgot bool
		peers  map[int]Standing
		want   bool
	}{
		"nobody is there":                                {three, false, nil, false},
		"one agrees, who begins as well":                 {three, false, map[int]Standing{1: fresh}, true},
		"one has it in force":                            {three, true, map[int]Standing{1: inForce}, true},
		"half of four":                                   {listOf(0, 0, 0, 1, 2, 3), false, map[int]Standing{1: stands(true, nil, listOf(0, 1, 0, 1, 2, 3))}, false},
		"one begins with another list":                   {three, false, map[int]Standing{1: stands(true, nil, other)}, false},
		"one agrees, one begins with another list":       {three, false, map[int]Standing{1: fresh, 2: stands(true, nil, other)}, true},
		"one agrees, one has another list in force":      {three, false, map[int]Standing{1: fresh, 2: stands(false, nil, other)}, false},
		"one agrees, one has a later list in force":      {three, false, map[int]Standing{1: fresh, 2: stands(false, nil, listOf(4, 2, 0, 1, 2))}, false},
		"one agrees who is not on it":                    {three, false, map[int]Standing{4: fresh}, false},
		"one goes by it and has taken up a later one":    {three, true, map[int]Standing{1: stands(false, nil, three, listOf(4, 1, 0, 1))}, true},
		"a list of this node alone":                      {listOf(0, 0, 0), false, nil, true},
		"a list of this node alone, which has forgotten": {listOf(0, 0, 0), true, nil, false},
		"a list without this node":                       {listOf(0, 0, 1, 2), false, map[int]Standing{1: stands(true, nil, listOf(0, 1, 1, 2)), 2: stands(true, nil, listOf(0, 1, 1, 2))}, false},
	} {
		s := &scene{t: t, s: vouched(t, c.list, c.forgot), peers: c.peers}
		for range 3 {
			m := s.look()
			if s.s.Claims() && m.Save == nil && !m.Changed {
				break
			}
			if m.Save != nil {
				if len(c.peers) == 1 && c.peers[1] == fresh && s.s.Claims() {
					t.Errorf("%s: gone by before it is stored", name)
				}
				s.s.Saved(nil)
			}
		}
		if s.s.Claims() != c.want {
			t.Errorf("%s: claims %v", name, s.s.Claims())
		}
	}
}

// The file may be changed while no node uses the first list. A numbered list waits until there is a list in force:
// before that, no node would ever state that the numbered list is in force.
func TestFirstListIsEditedBeforeItIsInForce(t *testing.T) {
	c := &scene{t: t, s: vouched(t, listOf(0, 0, 0, 1), false), peers: map[int]Standing{}}
	c.look()
	c.s.Saved(nil)
	three := listOf(0, 0, 0, 1, 2)
	if err := c.s.Learn(three); err != nil || c.s.Base().Digest != three.Digest {
		t.Fatalf("%v, %v", c.s.Base().Ref(), err)
	}
	if err := c.s.Learn(listOf(1, 0, 0, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.look()
		c.s.Saved(nil)
	}
	if c.s.Base().Epoch != 0 {
		t.Fatalf("it waits for %v, which nobody has in force", c.s.Base().Ref())
	}
	c.peers[1] = stands(true, nil, listOf(0, 1, 0, 1, 2))
	for range 3 {
		c.look()
		c.s.Saved(nil)
	}
	if !c.s.Claims() || c.s.Base().Digest != three.Digest {
		t.Errorf("fresh %v, %v", c.s.Fresh(), c.s.Base().Ref())
	}
}

// Guard: one member's stored lists are removed and its file shows any other list of the same epoch. Whichever nodes it
// then meets, no cut leaves a quorate node on both sides.
func TestOneThatForgotLeavesOnePartQuorate(t *testing.T) {
	alone := 0
	for run := range 400 {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 0xf0960))
		n := 2 + rng.IntN(5)
		p := newParty(t, n, FullSet(n).list())
		x := rng.IntN(n)
		edited := pick(rng, n)
		if !slices.Contains(edited, x) {
			edited = append(edited, x)
		}
		p.nodes[x] = vouched(t, listOf(0, x, edited...), true)
		if len(edited) == 1 {
			alone++
		}
		for range 60 {
			i := rng.IntN(n)
			contact := subset(rng.IntN(1<<n), n)
			contact.Remove(i)
			if i == x || rng.IntN(2) == 0 {
				for k := range n {
					if !slices.Contains(edited, k) && i == x || i != x && k == x && !slices.Contains(edited, i) {
						contact.Remove(k) // only these contacts are heard
					}
				}
			}
			p.look(i, contact)
			p.stored(i, true)
			if bad := p.torn(); bad != "" {
				t.Fatalf("seed %d: %d has forgotten and is told %v of %d: %s", seed, x, edited, n, bad)
			}
		}
	}
	if alone == 0 {
		t.Error("no list of one: the test shows too little")
	}
}

// list returns the set as a list.
func (s Set) list() (l []int) {
	for i := range s.All() {
		l = append(l, i)
	}
	return l
}

package lastman

// propose is the read of phase 1 of x, by which it puts a value forward, and that value under way.
func (m *Model) propose(t *State, x int, k Kind) bool {
	if t.latest >= m.Log {
		return false
	}
	m.learn(t, x)
	nd := &t.nodes[x]
	if nd.slotToken != nd.token || nd.slotBond != nd.bond {
		return false // the own slot does not show what it should yet
	}
	v, ok := m.value(t, x, k)
	if !ok || nd.prop.instance == t.latest+1 && nd.prop.value == v {
		return false
	}
	nd.prop = proposal{t.latest + 1, v}
	return true
}

func (m *Model) value(t *State, x int, k Kind) (Value, bool) {
	members, _ := t.config(t.latest)
	d := &t.log[t.latest]
	switch k {
	case Grant:
		view := t.view(x)
		part := view&^members == 0 && 2*view.size() == members.size()
		if members != full(int(t.n)) {
			part = view&^members == 0 && 2*view.size() >= members.size()
		}
		if !part || !t.settled(view) || !t.done(d) {
			return Value{}, false
		}
		t.lapse(d)
		return t.named(Grant, view), true
	case Prepare, Shrink:
		// The holders go on as they are: who is named stays the same, so nobody needs to be done.
		ok := (k == Prepare) == m.Rules.BondFirst && d.Kind == Grant && d.Holders != members && d.Holders.has(x) && t.asNamed(d) && t.settled(d.Holders)
		return Value{k, d.Holders, d.Tokens}, ok
	case Force:
		return Value{Force, d.Holders, d.Tokens}, d.Kind == Prepare && d.Holders.has(x) && t.allBound(d)
	case Return:
		ok := m.Rules.ReturnByDecision && (members != full(int(t.n)) || d.Kind == Prepare) && (d.Holders.has(x) || t.done(d))
		return Value{Kind: Return}, ok
	}
	return Value{}, false
}

// settled reports that the slots of all show their present tokens, and so their present views (L5).
func (s *State) settled(of Set) bool {
	for y := range int(s.n) {
		nd := &s.nodes[y]
		if of.has(y) && (!nd.up || !nd.claimed || nd.slotToken != nd.token || s.view(y) != of) {
			return false
		}
	}
	return true
}

func (s *State) asNamed(d *Value) bool {
	for y := range int(s.n) {
		if d.Holders.has(y) && s.nodes[y].slotToken != d.Tokens[y] {
			return false
		}
	}
	return true
}

// allBound reports that the slots of all holders show, under the tokens that d names, that d binds them.
func (s *State) allBound(d *Value) bool {
	for y := range int(s.n) {
		if d.Holders.has(y) && s.nodes[y].slotBond != s.latest {
			return false
		}
	}
	return s.asNamed(d)
}

// done reports that all holders of d are gone, renounced or expired (L5).
func (s *State) done(d *Value) bool {
	for y := range int(s.n) {
		nd := &s.nodes[y]
		if d.Holders.has(y) && nd.slotToken == d.Tokens[y] && nd.up && nd.claimed && nd.path && !nd.late {
			return false
		}
	}
	return true
}

// lapse moves the tokens of those on whose expiry a grant is put forward: all of them stood still, so none could tell another of a write (L7).
func (s *State) lapse(d *Value) {
	for y := range int(s.n) {
		if d.Holders.has(y) && s.nodes[y].up && s.nodes[y].token == d.Tokens[y] {
			s.nodes[y].token = s.fresh(y)
		}
	}
}

func (s *State) named(k Kind, holders Set) Value {
	v := Value{Kind: k, Holders: holders}
	for y := range int(s.n) {
		if holders.has(y) {
			v.Tokens[y] = s.nodes[y].token
		}
	}
	return v
}

// fresh is a token that x never had, as far as anybody can still tell.
func (s *State) fresh(x int) uint8 {
	nd := &s.nodes[x]
	top := max(nd.token, nd.slotToken, nd.lateToken, s.log[s.latest].Tokens[x])
	for y := range int(s.n) {
		top = max(top, s.nodes[y].prop.value.Tokens[x])
	}
	return top + 1
}

// normalize makes states equal that differ only in the numbers of tokens.
func (s *State) normalize() {
	for x := range int(s.n) {
		nd := &s.nodes[x]
		if !nd.late {
			nd.lateToken, nd.lateBond = 0, 0
		}
		var used uint64
		each := func(f func(*uint8)) {
			f(&nd.token)
			f(&nd.slotToken)
			f(&nd.lateToken)
			f(&s.log[s.latest].Tokens[x])
			for y := range int(s.n) {
				f(&s.nodes[y].prop.value.Tokens[x])
			}
		}
		each(func(p *uint8) { used |= 1 << *p })
		each(func(p *uint8) { *p = rank(used, *p) })
	}
}

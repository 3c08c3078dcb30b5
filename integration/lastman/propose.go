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
func (t *State) settled(of Set) bool {
	for y := range int(t.n) {
		nd := &t.nodes[y]
		if of.has(y) && (!nd.up || !nd.claimed || nd.slotToken != nd.token || t.view(y) != of) {
			return false
		}
	}
	return true
}

func (t *State) asNamed(d *Value) bool {
	for y := range int(t.n) {
		if d.Holders.has(y) && t.nodes[y].slotToken != d.Tokens[y] {
			return false
		}
	}
	return true
}

// allBound reports that the slots of all holders show, under the tokens that d names, that d binds them.
func (t *State) allBound(d *Value) bool {
	for y := range int(t.n) {
		if d.Holders.has(y) && t.nodes[y].slotBond != t.latest {
			return false
		}
	}
	return t.asNamed(d)
}

// done reports that all holders of d are gone, renounced or expired (L5).
func (t *State) done(d *Value) bool {
	for y := range int(t.n) {
		nd := &t.nodes[y]
		if d.Holders.has(y) && nd.slotToken == d.Tokens[y] && nd.up && nd.claimed && nd.path && !nd.late {
			return false
		}
	}
	return true
}

// lapse moves the tokens of those on whose expiry a grant is put forward: all of them stood still, so none could tell another of a write (L7).
func (t *State) lapse(d *Value) {
	for y := range int(t.n) {
		if d.Holders.has(y) && t.nodes[y].up && t.nodes[y].token == d.Tokens[y] {
			t.nodes[y].token = t.fresh(y)
		}
	}
}

func (t *State) named(k Kind, holders Set) Value {
	v := Value{Kind: k, Holders: holders}
	for y := range int(t.n) {
		if holders.has(y) {
			v.Tokens[y] = t.nodes[y].token
		}
	}
	return v
}

// fresh is a token that x never had, as far as anybody can still tell.
func (t *State) fresh(x int) uint8 {
	nd := &t.nodes[x]
	top := max(nd.token, nd.slotToken, nd.lateToken, t.log[t.latest].Tokens[x])
	for y := range int(t.n) {
		top = max(top, t.nodes[y].prop.value.Tokens[x])
	}
	return top + 1
}

// normalize makes states equal that differ only in the numbers of tokens.
func (t *State) normalize() {
	for x := range int(t.n) {
		nd := &t.nodes[x]
		if !nd.late {
			nd.lateToken, nd.lateBond = 0, 0
		}
		var used uint64
		each := func(f func(*uint8)) {
			f(&nd.token)
			f(&nd.slotToken)
			f(&nd.lateToken)
			f(&t.log[t.latest].Tokens[x])
			for y := range int(t.n) {
				f(&t.nodes[y].prop.value.Tokens[x])
			}
		}
		each(func(p *uint8) { used |= 1 << *p })
		each(func(p *uint8) { *p = rank(used, *p) })
	}
}

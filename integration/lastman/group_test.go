package lastman

// won is where all begins: the first half of n nodes has won an equal split, the others were reset.
func won(n int, left Budget) State {
	s := State{n: uint8(n), latest: 1, left: left}
	s.log[1] = Value{Kind: Grant, Holders: full(n / 2)}
	for x := range n {
		s.links[x] = full(n)
		nd := &s.nodes[x]
		nd.path, nd.slotToken = true, 1
		if x < n/2 {
			nd.up, nd.claimed, nd.gate, nd.token, nd.known = true, true, true, 1, 1
			s.log[1].Tokens[x] = 1
		}
	}
	return s
}

// healthy is a group of n nodes that never needed its log.
func healthy(n int, left Budget) State {
	s := won(n, left)
	s.log[1], s.latest = Value{}, 0
	for x := range n {
		nd := &s.nodes[x]
		nd.up, nd.claimed, nd.gate, nd.token, nd.slotToken, nd.known = true, true, true, 1, 1, 0
	}
	return s
}

// parts are the graphs that a search tries: all together, one alone, one half, and for six a member and its new friends.
func parts(n int) [][]Set {
	if n == 6 {
		return [][]Set{{full(6)}, {setOf(0, 3, 4, 5), setOf(1, 2)}, {setOf(0), setOf(1, 2, 3, 4, 5)}}
	}
	return [][]Set{{full(4)}, {setOf(0), setOf(1, 2, 3)}, {setOf(0, 1), setOf(2, 3)}}
}

// group is a model of n nodes. Those that were reset differ by their numbers only.
func group(n int, r Rules) *Model {
	m := &Model{Rules: r, Log: 5, Graphs: parts(n), Same: [][]int{{0, 1, 3, 2}}}
	if n == 6 {
		m.Same = [][]int{{0, 1, 2, 3, 5, 4}, {0, 1, 2, 4, 3, 5}, {0, 1, 2, 4, 5, 3}, {0, 1, 2, 5, 3, 4}, {0, 1, 2, 5, 4, 3}}
	}
	return m
}

// plenty is what histories may use up.
var plenty = Budget{Resets: 9, Cuts: 9, Paths: 9, Hangs: 9, Disks: 9}

// of makes one action of each node, which people count from 1.
func of(w what, nodes ...uint8) (as []Action) {
	for _, n := range nodes {
		as = append(as, Action{what: w, node: n - 1})
	}
	return as
}

// beats are two heartbeats of each node: the second shows what was read in the first.
func beats(nodes ...uint8) []Action { return of(syncs, append(nodes, nodes...)...) }

func graph(g uint8) []Action { return []Action{{what: cut, arg: g}} }

// forward is a value that a node puts forward; it is decided at once.
func forward(n uint8, k Kind) []Action {
	return append(underWay(n, k), Action{what: decides, node: n - 1})
}

// underWay is one that may land later.
func underWay(n uint8, k Kind) []Action {
	return []Action{{what: propose, node: n - 1, arg: uint8(k)}}
}

func way(parts ...[]Action) (as []Action) {
	for _, p := range parts {
		as = append(as, p...)
	}
	return as
}

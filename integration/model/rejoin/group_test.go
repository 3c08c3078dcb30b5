package rejoin

import "github.com/fencing-agent/fencing-agent/integration/model/search"

// won is the first state: nodes 1 and 2 have long lived by a grant, and nodes 3 and 4 were reset, have booted, and are
// cut off.
func won(left Budget) State {
	s := State{latest: 1, left: left, links: links(0)}
	s.log[1] = Value{holders: search.Of(0, 1)}
	for x := range size {
		n := &s.nodes[x]
		*n = Node{up: true, boot: 1, token: 1, view: s.links[x], path: true, slot: record{1, 1}, known: 1}
		for y := range size {
			n.ears[y].age = never
		}
		if x < 2 {
			s.log[1].names[x] = record{1, 1}
			n.armed, n.feeds, n.by = true, granted, claimed
		} else {
			n.boot, n.slot = 2, record{2, 1}
		}
	}
	for x := range size {
		for y := range size {
			if x != y && s.links[x].Has(y) {
				s.nodes[x].hear(&s, x, y)
			}
		}
	}
	return s
}

// healthy is a group that is whole and never needed its log.
func healthy(left Budget) State {
	s := State{left: left, links: links(1)}
	for x := range size {
		n := &s.nodes[x]
		*n = Node{up: true, armed: true, boot: 1, token: 1, view: all, feeds: majority, budget: arbitrate + 1, path: true, slot: record{1, 1}}
		for y := range size {
			n.ears[y].age = never
		}
	}
	for x := range size {
		for y := range size {
			if x != y {
				s.nodes[x].hear(&s, x, y)
			}
		}
	}
	return s
}

// hear lets x hear y, which it already sees.
func (n *Node) hear(s *State, x, y int) {
	st := s.statement(y)
	st.seen = s.links[y] &^ search.Of(y)
	s.hear(x, y, heard{Statement: st})
}

func upTo(n int) (list []uint8) {
	for i := range n {
		list = append(list, uint8(i))
	}
	return list
}

// group returns a model that tries all graphs and this many orders.
func group(r Rules, orders int) *Model {
	list := upTo(len(permutations()))
	if orders < len(list) {
		list = []uint8{0, 23, 9, 14}[:orders] // 1234, 4321, 2431, 3142: each pair occurs in both orders
	}
	return &Model{Rules: r, Orders: list, Shapes: upTo(len(Graphs))}
}

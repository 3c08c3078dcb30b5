package terms

import (
	"fmt"
	"math/rand/v2"
)

// Result is how a search ended.
type Result struct {
	States  int      // visited
	Agreed  int      // of them, with all nodes up and of one mind: the search can get somewhere
	History []string // that ends with two winners; nil: none was found
}

// Search visits every state that can be reached, in order of distance, so that a history found is
// a shortest one.
func Search(w World) Result {
	type from struct {
		before state
		what   string
	}
	var begin state
	seen := map[state]from{begin: {}}
	queue := []state{begin}
	var r Result
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		r.States++
		if w.whole(&s) {
			r.Agreed++
		}
		if a, b, both := w.winners(&s); both {
			history := []string{fmt.Sprintf("halves %04b and %04b are of one mind each, on two media", a, b)}
			for at := s; at != begin; at = seen[at].before {
				history = append([]string{seen[at].what}, history...)
			}
			r.History = history
			return r
		}
		for _, st := range w.steps(&s) {
			if _, ok := seen[st.next]; !ok {
				seen[st.next] = from{s, st.what}
				queue = append(queue, st.next)
			}
		}
	}
	return r
}

// Walk takes random steps from the seed. Few of them end a process, or nobody would come to agree.
func Walk(w World, seed uint64, steps int) Result {
	rng := rand.New(rand.NewPCG(seed, 0))
	var s state
	var r Result
	var history []string
	for range steps {
		all := w.steps(&s)
		st := all[rng.IntN(len(all))]
		for try := 0; st.ends && try < 5; try++ {
			st = all[rng.IntN(len(all))]
		}
		s = st.next
		history = append(history, st.what)
		r.States++
		if w.whole(&s) {
			r.Agreed++
		}
		if a, b, both := w.winners(&s); both {
			r.History = append(history, fmt.Sprintf("halves %04b and %04b are of one mind each, on two media", a, b))
			return r
		}
	}
	return r
}

// whole reports whether all nodes are up and agree.
func (w *World) whole(s *state) bool {
	m, ok := w.united(s, w.everybody())
	return ok && m != none
}

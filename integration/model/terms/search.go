package terms

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Result is the result of a search.
type Result struct {
	States  int      // number of states that were visited
	Agreed  int      // those of them in which all nodes are up and agree: the search can reach agreement
	History []string // history that ends with two winners; nil: none was found
}

// Search visits every state that can be reached.
func Search(w World) (r Result) {
	f := search.All(search.Model[state, string]{
		Next: func(s *state, yield func(string, state, string)) {
			for _, st := range w.steps(s) {
				yield(st.what, st.next, "")
			}
		},
		Wrong: w.wrong,
		Note: func(_, s *state) {
			if w.whole(s) {
				r.Agreed++
			}
		},
	}, state{}, math.MaxInt)
	if r.States = f.States; f.Wrong != "" {
		r.History = append(f.Way, f.Wrong)
	}
	return r
}

// wrong names two halves that win at one time, or returns "".
func (w *World) wrong(s *state) string {
	if a, b, both := w.winners(s); both {
		return fmt.Sprintf("halves %04b and %04b are of one mind each, on two media", a, b)
	}
	return ""
}

// Walk takes random steps from the seed. Few of them end a process; otherwise no nodes would ever agree.
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
		if wrong := w.wrong(&s); wrong != "" {
			r.History = append(history, wrong)
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

package terms

import (
	"strings"
	"testing"
)

func without(change func(*Rules)) Rules {
	r := All
	change(&r)
	return r
}

// A group of two is searched completely. Whatever is started, killed and heard, in any order, two halves never agree on
// two media.
func TestSearch(t *testing.T) {
	for _, clones := range []bool{false, true} {
		r := Search(World{Nodes: 2, Clones: clones, Rules: All})
		if r.History != nil {
			t.Errorf("clones %v: two winners:\n%s", clones, strings.Join(r.History, "\n"))
		}
		if r.Agreed == 0 {
			t.Errorf("clones %v: nobody ever agrees, so the search proves nothing", clones)
		}
		t.Logf("clones %v: %d states, %d in which all agree", clones, r.States, r.Agreed)
	}
}

// Larger groups are walked at random; the seed is the number of the walk.
func TestWalk(t *testing.T) {
	walks, agreed := uint64(300), 0
	if testing.Short() {
		walks = 30
	}
	for seed := range walks {
		r := Walk(World{Nodes: 4, Clones: seed%2 == 1, Rules: All}, seed, 3000)
		if r.History != nil {
			t.Fatalf("seed %d: two winners:\n%s", seed, strings.Join(r.History[max(0, len(r.History)-40):], "\n"))
		}
		agreed += r.Agreed
	}
	if agreed == 0 {
		t.Error("nobody ever agrees, so the walks prove nothing")
	}
	t.Logf("%d walks, all agree after %d steps", walks, agreed)
}

// Each rule prevents a history that the search finds without the rule.
func TestMissingRulesAreFound(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world World
	}{
		{"no rule but standing back from strangers (K6)", World{Nodes: 2, Rules: without(func(r *Rules) { r.Stranger = true })}},
		{"the words are kept when the terms change", World{Nodes: 2, Rules: without(func(r *Rules) { r.Forgets = false })}},
		{"terms are told before they are on file", World{Nodes: 2, Rules: without(func(r *Rules) { r.First = false })}},
		{"a clone: the slot is not looked for", World{Nodes: 2, Clones: true, Rules: without(func(r *Rules) { r.Slots = false })}},
		{"a clone: the storage's name of the device is not kept", World{Nodes: 2, Clones: true, Rules: without(func(r *Rules) { r.Storage = false })}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Search(tc.world)
			if r.History == nil {
				t.Fatalf("%d states, and no history with two winners: the rule does nothing", r.States)
			}
			t.Logf("%d states:\n%s", r.States, strings.Join(r.History, "\n"))
		})
	}
}

// play takes the steps with these names.
func play(t *testing.T, w *World, s *state, steps ...string) {
	t.Helper()
	for _, what := range steps {
		found := false
		for _, st := range w.steps(s) {
			if st.what == what {
				*s, found = st.next, true
				break
			}
		}
		if !found {
			t.Fatalf("%q is not possible", what)
		}
	}
}

// begins returns the steps in which a node begins on a medium.
func begins(node, medium string) []string {
	return []string{node + " starts on medium " + medium, node + " has its terms on file"}
}

func hears(node, other string) []string {
	return []string{other + " answers " + node, node + " hears " + other}
}

// These histories of four nodes are too long for the walks.
func TestHistories(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  func(*Rules)
		steps [][]string
	}{
		{"half is not a majority", func(r *Rules) { r.Majority = false }, [][]string{
			begins("n1", "1"), begins("n2", "1"), begins("n3", "2"), begins("n4", "2"),
			hears("n1", "n2"), hears("n2", "n1"), hears("n3", "n4"), hears("n4", "n3"),
		}},
		// n1 has confirmations of n2 and n4, and n3 has those of n4 and n2, which changed their settings in between.
		{"one that agrees does not speak for its half", func(r *Rules) { r.Unanimous = false }, [][]string{
			begins("n3", "2"), begins("n2", "2"), begins("n4", "2"), hears("n3", "n2"), hears("n3", "n4"),
			begins("n1", "1"), begins("n2", "1"), begins("n4", "1"), hears("n1", "n2"), hears("n1", "n4"),
			begins("n4", "2"),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, with := range []bool{false, true} {
				w, s := World{Nodes: 4, Rules: All}, state{}
				if !with {
					tc.rule(&w.Rules)
				}
				for _, steps := range tc.steps {
					play(t, &w, &s, steps...)
				}
				if _, _, both := w.winners(&s); both == with {
					t.Errorf("with the rule %v: two winners %v", with, both)
				}
			}
		})
	}
}

// Because of what its nodes remember across a reset, a half that boots into a split can live.
func TestMemoryLetsAHalfLiveAfterAReset(t *testing.T) {
	w, s := World{Nodes: 2, Rules: All}, state{}
	for _, steps := range [][]string{
		begins("n1", "1"), begins("n2", "1"), hears("n1", "n2"),
		{"n1 has on file whom it heard", "n1 is killed", "n1 starts on medium 1"},
	} {
		play(t, &w, &s, steps...)
	}
	if !w.agreed(&s, 0) {
		t.Error("a node that was reset does not agree any more with whom it agreed before")
	}
	play(t, &w, &s, "n1 is killed", "n1 starts on medium 2")
	if w.agreed(&s, 0) {
		t.Error("a node that was moved to another medium agrees with whom it has not heard there")
	}
}

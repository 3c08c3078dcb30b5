package dated

import (
	"strings"
	"testing"
)

var (
	one   = World{Members: 1, Pauses: true}
	again = World{Members: 1, Starts: true}
	old   = World{Members: 1, Old: true}
	tie   = World{Members: 1, Tie: true, Quick: true}
	two   = World{Members: 2, Quick: true}
)

const limit = 20_000_000

// The rule holds in every state: whatever is late, paused, started again or learnt late, no running node is FENCED.
func TestSearch(t *testing.T) {
	for name, w := range map[string]World{"paused": one, "started again": again, "old agents": old, "grant": tie, "two members": two} {
		if w.Members > 1 && testing.Short() {
			continue // a minute
		}
		w.Rules = Safe
		f := w.Search(limit)
		t.Logf("%s: %d states", name, f.States)
		if f.Wrong != "" || f.Cut {
			t.Errorf("%s: %s, cut %v:\n%s", name, f.Wrong, f.Cut, strings.Join(f.Way, "\n"))
		}
		if !w.reached(t) {
			t.Errorf("%s: the death is never proven, so the search shows nothing", name)
		}
	}
}

// reached reports whether a death is proven at all: with the check turned round, the search finds it.
func (w World) reached(t *testing.T) bool {
	t.Helper()
	return w.proof(limit).Wrong != ""
}

// Each word of the rule is there for a history that the search finds without it.
func TestMissingWordsAreFound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		world  World
		change func(*Rules)
	}{
		{"the statement of the step before is forgotten", one, func(r *Rules) { r.Twice = false }},
		{"a claim holds until its answer comes", one, func(r *Rules) { r.Anchor = false }},
		{"a due is dated by the question", one, func(r *Rules) { r.Receipt = false }},
		{"the horizon lacks D_max", one, func(r *Rules) { r.Evidence = false }},
		{"an agent that has just started claims", again, func(r *Rules) { r.Met = false }},
		{"the claims need not have an instant in common", two, func(r *Rules) { r.Common = false }},
		{"one claim is enough", two, func(r *Rules) { r.All = false }},
		{"a grant proves at once", tie, func(r *Rules) { r.Granted = false }},
	} {
		w := tc.world
		w.Rules = Safe
		tc.change(&w.Rules)
		f := w.Search(limit)
		if f.Wrong == "" {
			t.Errorf("%s: nothing is found in %d states", tc.name, f.States)
			continue
		}
		t.Logf("%s: found after %d states:\n  %s", tc.name, f.States, strings.Join(f.Way, "\n  "))
	}
}

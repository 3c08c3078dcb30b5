package lunhold

import (
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

var (
	outage = search.Graphs("123", "", "23")
	hub    = search.Graphs("12345", "", "2-3 2-4 2-5")
	blinks = search.Graphs("123", "2-3", "2>3", "")
	halves = search.Graphs("1234", "12 34")
)

// longer is a watchdog whose countdown is longer than a stop during which a permission ends.
var longer = times(2, 3)

// mutant is a rule that is left out, with the search that finds the consequence.
type mutant struct {
	scenario
	want string // beginning of what is found; "": nothing
}

var mutants = []mutant{
	{scenario{name: "E: dated by arrival", size: 3, graphs: outage, left: Budget{Cuts: 2, Hangs: 1, Paths: 1},
		who: map[what]Set{hang: search.Of(1), moves: search.Of(2)}, rules: Rules{NoEcho: true}}, "P1: 1 runs, and the majority {23}"},
	{scenario{name: "E1: dated by the acknowledgement", size: 3, graphs: outage, left: Budget{Cuts: 2, Acks: 1, Paths: 1},
		who: map[what]Set{linger: search.Of(0), moves: search.Of(1)}, rules: Rules{AckTime: true}}, "P1: 1 runs, and the majority {23}"},
	{scenario{name: "E3: a greater number will do", size: 3, graphs: outage, left: Budget{Cuts: 3, Restarts: 1, Paths: 1},
		who: map[what]Set{restarts: search.Of(0), moves: search.Of(1)}, rules: Rules{GreaterEqual: true}}, "P1: 1 runs, and the majority {23}"},
	{scenario{name: "H1: two of five cover", size: 5, graphs: search.Graphs("12345", "234"), left: Budget{Cuts: 1}, without: search.Of(1, 2, 3),
		rules: Rules{CoverHalf: true}}, "P1: 1 runs, and the majority {234}"},
	{scenario{name: "H1: the newest date is that of all", size: 5, graphs: search.Graphs("12345", "", "234"), left: Budget{Cuts: 2, Paths: 1},
		who: map[what]Set{moves: search.Of(1)}, rules: Rules{NewestOnly: true}}, "P1: 1 runs, and the majority {234}"},
	{scenario{name: "H2", size: 5, graphs: search.Graphs("12345", "2-3 2-4"), left: Budget{Cuts: 1}, without: search.Of(1),
		rules: Rules{NoH2: true}}, "P2: 2 lives, and 1"},
	{scenario{name: "M1", size: 3, graphs: outage, left: Budget{Cuts: 2}, rules: Rules{NoM1: true}, proofs: true}, "P1: 1 runs, and the majority {23}"},
	{scenario{name: "M1: as proposed", size: 5, graphs: hub, left: Budget{Cuts: 2}, rules: Rules{MAsProposed: true}}, "P1: 1 runs, and the majority {345}"},
	{scenario{name: "M2", size: 3, graphs: search.Graphs("123", "23", ""), left: Budget{Cuts: 3, Stops: 1}, times: longer,
		who: map[what]Set{stops: search.Of(1)}, rules: Rules{NoM2: true}}, "P5: "},
	{scenario{name: "M2, but for P5", size: 3, graphs: search.Graphs("123", "23", ""), left: Budget{Cuts: 3, Stops: 1}, times: longer,
		who: map[what]Set{stops: search.Of(1)}, rules: Rules{NoM2: true}, proofs: true}, ""},
	{scenario{name: "H1: half of four cover, and H3", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1},
		rules: Rules{CoverHalf: true, NoH3: true}}, "P1: 3 runs, and the granted half {12}"},
	{scenario{name: "H1: half of four cover", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1},
		rules: Rules{CoverHalf: true}}, ""},
	{scenario{name: "H3", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1}, rules: Rules{NoH3: true}}, ""},
	{scenario{big: true, name: "E2 and H2", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1, Slow: 3},
		who: map[what]Set{slows: search.Of(1, 2, 3), proposes: search.Of(0)}, rules: Rules{SlowMoves: true, NoH2: true}}, "P2: 1 lives, and 3"},
	{scenario{name: "E2", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1, Slow: 3},
		who: map[what]Set{slows: search.Of(1, 2, 3), proposes: search.Of(0)}, rules: Rules{SlowMoves: true}}, ""},
	{scenario{big: true, name: "H2: seen within D_max, a link in one direction", size: 3, graphs: blinks, left: Budget{Cuts: always}, without: search.Of(1), both: true,
		rules: Rules{SeenShort: true}}, "P2: 2 lives, and 1"},
	{scenario{big: true, name: "H2 with slow reads", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1, Slow: 3},
		who: map[what]Set{slows: search.Of(1, 2, 3), proposes: search.Of(0)}, rules: Rules{NoH2: true}}, ""},
	{scenario{name: "S counts records by another list", size: 5, lists: rosters("123", "12345"), graphs: search.Graphs("12345", "2345", "345", ""), left: Budget{Cuts: 2, Offers: 1}, times: times(2, 5),
		rules: Rules{AnyList: true}}, "P2: 3 lives, and 1"},
	{scenario{name: "the same, and holds by several lists", size: 5, lists: rosters("123", "12345"), graphs: search.Graphs("12345", "2345", "345", ""), left: Budget{Cuts: 2, Offers: 1}, times: times(2, 5),
		rules: Rules{AnyList: true, JointHold: true}}, "P2: 3 lives, and 1"},
	{scenario{name: "holds by several lists, by most of the first alone", size: 5, lists: rosters("123", "12345"), graphs: search.Graphs("12345", "345 12", "345"), left: Budget{Cuts: 1, Offers: 1}, without: search.Of(2, 3, 4), times: times(2, 5),
		rules: Rules{BaseOnly: true, JointHold: true}}, "P"},
	{scenario{name: "claims survive a change of the list", size: 5, lists: rosters("12345", "145"), graphs: search.Graphs("12345", "2345 1-2 1-3", ""), left: Budget{Cuts: 2, Offers: 1},
		rules: Rules{NoDoubt: true}}, "P1: 1 runs, and the majority {45}"},
	{scenario{big: true, name: "a deadline survives a change of the list", size: 5, lists: rosters("123", "12345"), graphs: search.Graphs("12345", "2345", "345", ""), left: Budget{Cuts: 2, Offers: 1}, times: times(2, 5),
		rules: Rules{HoldOver: true}}, ""},
}

// Without a rule the search finds the error that the rule prevents, with the shortest history. With all rules it finds
// nothing within the same bounds.
func TestMutants(t *testing.T) {
	for _, c := range mutants {
		t.Run(c.name, func(t *testing.T) {
			if c.big && testing.Short() {
				t.Skip("not in a short run")
			}
			if c.big && c.want == "" && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			m := c.model()
			f := c.run(t, m, 400_000)
			switch {
			case f.Cut:
				t.Error("the search does not end")
			case c.want == "" && f.Wrong != "", !strings.HasPrefix(f.Wrong, c.want), c.want != "" && f.Wrong == "":
				t.Errorf("found %q, want %q", f.Wrong, c.want)
			}
			if f.Wrong != "" {
				t.Logf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
			}
			if c.want == "" || (c.big || f.States > 5_000) && !long() {
				return // the searches of all rules also have these bounds
			}
			m.Rules = Rules{JointHold: m.JointHold}
			if f := c.run(t, m, 400_000); f.Wrong != "" || f.Cut {
				t.Errorf("with all rules, within the same bounds: %q, %d states%s", f.Wrong, f.States, m.list(f.Way))
			}
		})
	}
}

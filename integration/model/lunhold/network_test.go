package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// or contains the rules of lun.mode: or.
var or = Rules{Network: true, NoHold: true}

// mixed is N with holds: nodes that the LUN leaves below a majority hold.
var mixed = Rules{Network: true}

// wide includes N4: a claim takes D_lun, and then A.
var wide = Times{Tie: 2, Dated: 4, Beat: 1, Claim: 4 + 2 + 2 + 1, Runs: 2}

// With N, dated records count as one more network.
func TestNetwork(t *testing.T) {
	oneWay := or
	oneWay.OneWay = true
	unsighted := or
	unsighted.Unsighted = true
	for _, c := range []struct {
		bounds
		want string
	}{
		{bounds{scenario{name: "five nodes, any number of outages, nobody starves", size: 5, graphs: search.Graphs("12345", "", "234", "45", "2-3 2-4"), left: Budget{Cuts: always}, both: true, calm: true, steady: true}, true}, ""},
		{bounds{scenario{name: "three nodes, all networks, a path", size: 3, graphs: search.Every(3), left: Budget{Cuts: 2, Paths: 1}}, true}, ""},
		{bounds{scenario{name: "three nodes, a write that hangs, a path", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 1, Hangs: 1}}, false}, ""},
		{bounds{scenario{name: "a sighting on the LUN is none", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 1}, rules: unsighted}, true}, "P1: 1 runs, and the majority {23}"},
		{bounds{scenario{name: "four nodes, a grant, two paths", size: 4, graphs: search.Graphs("1234", "", "12 34", "123"), left: Budget{Cuts: 1, Paths: 2, Grants: 1}}, true}, ""},
		{bounds{scenario{name: "five nodes, three paths", size: 5, graphs: five, left: Budget{Cuts: 2, Paths: 3}, who: map[what]Set{moves: search.Of(1, 2, 3)}}, false}, ""},
		{bounds{scenario{name: "three nodes, a stop, paths", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 2, Stops: 1}, times: longer}, false}, ""},
		{bounds{scenario{name: "three nodes, an agent starts again, a write that hangs, paths", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 2, Hangs: 1, Restarts: 1},
			who: map[what]Set{hang: search.Of(1)}}, false}, ""},
		{bounds{scenario{name: "three nodes, slow reads, a path", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 1, Slow: 1}}, false}, ""},
		{bounds{scenario{name: "and a hold, all networks, a path", size: 3, graphs: search.Every(3), left: Budget{Cuts: 2, Paths: 1}, rules: mixed, times: wide}, true}, ""},
		{bounds{scenario{name: "and a hold, one plain, a write that hangs", size: 3, graphs: outage, left: Budget{Cuts: 2, Hangs: 1}, rules: mixed, times: wide, plain: search.Of(0)}, true}, ""},
		{bounds{scenario{name: "and a hold, two plain, a path", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 1}, rules: mixed, times: wide, plain: search.Of(1, 2)}, true}, ""},
		{bounds{scenario{name: "and a hold, five nodes, three plain, any number of outages, nobody starves", size: 5, graphs: search.Graphs("12345", ""),
			left: Budget{Cuts: always}, rules: mixed, times: wide, plain: search.Of(0, 1, 2), dwell: 5, calm: true, steady: true}, true}, ""},
		{bounds{scenario{name: "and a hold, four nodes, two plain, a grant, a path", size: 4, graphs: search.Graphs("1234", "", "12 34", "123"), left: Budget{Cuts: 2, Paths: 1, Grants: 1},
			rules: mixed, times: wide, plain: search.Of(0, 2)}, false}, ""},
		{bounds{scenario{name: "and a hold, five nodes, two plain, three paths", size: 5, graphs: five, left: Budget{Cuts: 2, Paths: 3}, who: map[what]Set{moves: search.Of(1, 2, 3)},
			rules: mixed, times: wide, plain: search.Of(0, 4)}, false}, ""},
		{bounds{scenario{name: "counted one way", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 2, Hangs: 1}, rules: oneWay}, false}, "P1: 1 runs, and the majority {23}"},
		{bounds{scenario{name: "counted one way, slow reads", size: 3, graphs: outage, left: Budget{Cuts: 2, Paths: 1, Slow: 1}, rules: oneWay}, true}, "P1: 1 runs, and the majority {23}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			if !c.rules.Network {
				c.rules = or
			}
			c.finds(t, c.want)
		})
	}
}

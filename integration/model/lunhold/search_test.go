package lunhold

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

var (
	five = search.Graphs("12345", "", "234", "123 45", "2-3 2-4 2-5", "2-3 2-4")
	four = search.Graphs("1234", "", "12 34", "13 24", "123", "12", "1-2 1-3 1-4")
)

type bounds struct {
	scenario
	short bool // for all runs; otherwise only for make model KIND=lunhold
}

var searches = []bounds{
	{scenario{big: true, name: "three nodes, all networks, three changes", size: 3, graphs: search.Every(3), left: Budget{Cuts: 3}, both: true}, false},
	{scenario{big: true, name: "three nodes, all networks, two changes, a write that hangs", size: 3, graphs: search.Every(3), left: Budget{Cuts: 2, Hangs: 1}}, false},
	{scenario{name: "three nodes, an agent is stopped", size: 3, graphs: outage, left: Budget{Cuts: 3, Stops: 1}, times: longer}, true},
	{scenario{name: "three nodes, one loses power and boots", size: 3, graphs: outage, left: Budget{Cuts: 3, Crashes: 1, Boots: 1},
		who: map[what]Set{crashes: search.Of(1), boots: search.Of(1)}}, true},
	{scenario{big: true, name: "three nodes, links in one direction, two changes", size: 3, graphs: search.OneWay(), left: Budget{Cuts: 2}}, false},
	{scenario{name: "three nodes, two of an older version", size: 3, graphs: search.Every(3), left: Budget{Cuts: 3}, old: search.Of(1, 2)}, true},
	{scenario{name: "four nodes, a grant", size: 4, graphs: four, left: Budget{Cuts: 2, Grants: 1}}, true},
	{scenario{name: "five nodes, six networks, three changes", size: 5, graphs: five, left: Budget{Cuts: 3}}, true},
	{scenario{name: "three nodes, claims on their way", size: 3, graphs: search.Every(3), left: Budget{Cuts: 3}, times: aged()}, true},
	{scenario{name: "five nodes, two of an older version", size: 5, graphs: five, left: Budget{Cuts: 3}, old: search.Of(1, 2)}, true},

	{scenario{name: "three nodes, all networks, any number of changes", size: 3, graphs: search.Every(3), left: Budget{Cuts: always}}, false},
	{scenario{name: "three nodes, three changes, two writes that hang", size: 3, graphs: outage, left: Budget{Cuts: 3, Hangs: 2}}, false},
	{scenario{name: "three nodes, outages without end, the I/O of one hangs without end", size: 3, graphs: outage, left: Budget{Cuts: always, Hangs: always},
		who: map[what]Set{hang: search.Of(1)}}, false},
	{scenario{name: "E1: acknowledgements are late, paths come and go", size: 3, graphs: outage, left: Budget{Cuts: 3, Acks: 1, Paths: 1}}, false},
	{scenario{name: "E3: predecessors, by a restart of the agent", size: 3, graphs: outage, left: Budget{Cuts: 3, Restarts: 1, Hangs: 1, Paths: 1},
		who: map[what]Set{hang: search.Of(1), moves: search.Of(2)}}, false},
	{scenario{name: "E3: predecessors, whose last write lands after the boot", size: 3, graphs: outage, left: Budget{Cuts: 3, Crashes: 1, Boots: 1, Hangs: 2},
		who: map[what]Set{hang: search.Of(1), crashes: search.Of(1), boots: search.Of(1)}}, false},
	{scenario{name: "E3: two predecessors", size: 3, graphs: outage, left: Budget{Cuts: 2, Crashes: 2, Boots: 2, Hangs: 1},
		who: map[what]Set{hang: search.Of(1), crashes: search.Of(1), boots: search.Of(1)}}, false},
	{scenario{name: "links in one direction, three changes", size: 3, graphs: search.OneWay(), left: Budget{Cuts: 3}}, false},
	{scenario{name: "a link in one direction, any number of changes", size: 3, graphs: blinks, left: Budget{Cuts: always}, both: true}, false},
	{scenario{name: "five nodes, a hub, links in one direction, any number of changes", size: 5, graphs: search.Graphs("12345", "23 2-4", "2-3 2>4", "2-3"),
		left: Budget{Cuts: always}, without: search.Of(1), both: true}, false},
	{scenario{name: "E2: slow reads, grants", size: 4, graphs: search.Graphs("1234", "12 34", "13 24", ""), left: Budget{Cuts: 2, Grants: 1, Slow: 2}}, false},
	{scenario{name: "four nodes, two grants, two paths", size: 4, graphs: four, left: Budget{Cuts: 2, Grants: 2, Paths: 2}}, false},
	{scenario{name: "four nodes, two grants, any number of changes", size: 4, graphs: four, left: Budget{Cuts: always, Grants: 2}}, false},
	{scenario{name: "four nodes, grants, stops, power", size: 4, graphs: search.Graphs("1234", "", "12 34", "123"), left: Budget{Cuts: 2, Grants: 2, Stops: 1, Crashes: 1, Boots: 1},
		times: longer}, false},
	{scenario{name: "four nodes, grants, a write that hangs", size: 4, graphs: search.Graphs("1234", "", "12 34", "123"), left: Budget{Cuts: 2, Grants: 1, Hangs: 1}}, false},
	{scenario{name: "five nodes, any number of changes", size: 5, graphs: five, left: Budget{Cuts: always}}, false},
	{scenario{name: "five nodes, a majority that loses the LUN", size: 5, graphs: five, left: Budget{Cuts: 2, Paths: 3}, who: map[what]Set{moves: search.Of(1, 2, 3)}}, false},
	{scenario{name: "five nodes, a write that hangs, a stop", size: 5, graphs: five, left: Budget{Cuts: 2, Hangs: 1, Stops: 1}, times: longer}, false},
	{scenario{name: "five nodes, three of an older version, a stop", size: 5, graphs: five, left: Budget{Cuts: 3, Stops: 1}, old: search.Of(1, 2, 3), times: longer}, false},
	{scenario{name: "claims on their way, a write that hangs, a stop", size: 3, graphs: outage, left: Budget{Cuts: 2, Hangs: 1, Stops: 1}, times: aged()}, false},
	{scenario{name: "four nodes, claims on their way, grants, a path", size: 4, graphs: four, left: Budget{Cuts: 2, Grants: 2, Paths: 1}, times: aged()}, false},
	{scenario{name: "five nodes, claims on their way, three changes, a path", size: 5, graphs: five, left: Budget{Cuts: 3, Paths: 1}, times: aged()}, false},
	{scenario{name: "three nodes, two of an older version, a stop, power", size: 3, graphs: search.Every(3), left: Budget{Cuts: 3, Stops: 1, Crashes: 1, Boots: 1},
		old: search.Of(1, 2), times: longer}, false},
	{scenario{name: "three nodes, stops, a heartbeat of two ticks", size: 3, graphs: search.Every(3), left: Budget{Cuts: 3, Stops: 1},
		times: Times{Tie: 4, Dated: 6, Beat: 2, Claim: 10, Runs: 3}}, false},
}

// aged returns times with claims that still count for D_max after they were made, and that take that much longer.
func aged() Times {
	t := Usual
	t.Fresh, t.Claim = maxAge, t.Claim-1+maxAge
	return t
}

// Nothing is wrong in any state that is possible within the bounds.
func TestSearch(t *testing.T) {
	for _, c := range searches {
		t.Run(c.name, func(t *testing.T) {
			if !c.short && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			if c.big && testing.Short() {
				t.Skip("not in a short run")
			}
			c.holds(t)
		})
	}
}

// walk takes random steps in a group of random size, with all possible actions.
func walk(seed uint64) (*Model, Found) {
	rng := rand.New(rand.NewPCG(seed, 14))
	few := func(n int) uint8 { return uint8(rng.IntN(n)) }
	left := Budget{Cuts: 2 + few(20), Paths: few(5), Hangs: few(5), Acks: few(3), Stops: few(4), Crashes: few(3), Boots: few(5), Restarts: few(3), Slow: few(4), Grants: few(4)}
	c := scenario{size: 3 + rng.IntN(3), left: left, both: true, times: times(2+few(2), 2+few(2))}
	c.graphs = [][]search.Graph{append(search.Every(3), search.OneWay()...), four, append(five, blinks...)}[c.size-3]
	if c.devices, c.strikes = 1+rng.IntN(maxDevices), rng.IntN(2) == 1; c.devices > 1 && rng.IntN(2) == 1 {
		for range c.size {
			c.reach = append(c.reach, 1+Set(rng.IntN(1<<c.devices-1)))
		}
	}
	if changes := [][]scenario{{same}, {joins, leaves, swaps, twice}, {grows, shrinks, fewer}}[c.size-3]; rng.IntN(2) == 1 {
		c.lists, c.rules.JointHold = changes[rng.IntN(len(changes))].lists, rng.IntN(2) == 1
		left.Offers, left.Grants = few(6), 0
	}
	m := c.model()
	return m, m.Walk(m.Root(left, 0), 120, rng)
}

// LUNHOLD_SEED and LUNHOLD_RUNS choose other seeds and numbers of walks.
func TestRandomWalks(t *testing.T) {
	first, runs := search.Env("LUNHOLD_SEED", 1), 2000
	if long() {
		runs = 100_000
	}
	runs = search.Env("LUNHOLD_RUNS", runs)
	begun, steps, longest := time.Now(), 0, uint8(0)
	for seed := first; seed < first+runs; seed++ {
		m, f := walk(uint64(seed))
		if f.Wrong != "" {
			t.Fatalf("%s, LUNHOLD_SEED=%d LUNHOLD_RUNS=1 repeats it:%s\n%s", f.Wrong, seed, m.list(f.Way), m.String(&f.State))
		}
		steps, longest = steps+f.States, max(longest, f.Met.Longest)
	}
	t.Logf("seeds %d to %d: %d steps, longest overlap %d, in %v", first, first+runs-1, steps, longest, time.Since(begun).Round(time.Millisecond))
}

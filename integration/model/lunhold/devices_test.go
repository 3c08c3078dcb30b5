package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// copies lists searches with several devices, each of which has a copy of a record.
var copies = []bounds{
	{scenario{name: "two devices, a write to one that hangs, a path", size: 3, devices: 2, graphs: outage, left: Budget{Cuts: 2, Hangs: 1, Paths: 1},
		who: map[what]Set{hang: search.Of(1), moves: search.Of(0)}}, true},
	{scenario{name: "three devices, each node reaches others, all networks", size: 3, devices: 3, reach: rosters("1", "12", "23"), graphs: search.Every(3), left: Budget{Cuts: 2}}, true},

	{scenario{name: "three devices, a write to one that hangs, a path", size: 3, devices: 3, graphs: outage, left: Budget{Cuts: 2, Hangs: 1, Paths: 1}}, false},
	{scenario{name: "three devices, each node reaches others, two writes that hang", size: 3, devices: 3, reach: rosters("12", "23", "13"), graphs: outage, left: Budget{Cuts: 2, Hangs: 2}}, false},
	{scenario{name: "two devices, acknowledgements are late, a path", size: 3, devices: 2, graphs: outage, left: Budget{Cuts: 3, Acks: 1, Paths: 1}}, false},
	{scenario{name: "two devices, power lost and a boot, writes land before or after on one", size: 3, devices: 2, graphs: outage, left: Budget{Cuts: 2, Crashes: 1, Boots: 1, Hangs: 2},
		who: map[what]Set{hang: search.Of(1), crashes: search.Of(1), boots: search.Of(1)}}, false},
	{scenario{name: "two devices, an agent starts again, a write that hangs, a path", size: 3, devices: 2, graphs: outage, left: Budget{Cuts: 2, Restarts: 1, Hangs: 1, Paths: 1},
		who: map[what]Set{hang: search.Of(1), moves: search.Of(0, 2)}}, false},
	{scenario{name: "two devices, an agent is stopped, paths", size: 3, devices: 2, graphs: outage, left: Budget{Cuts: 2, Stops: 1, Paths: 2}, times: longer}, false},
	{scenario{name: "five nodes, three devices, each node reaches others, three changes", size: 5, devices: 3, reach: rosters("1", "12", "23", "3", "123"), graphs: five, left: Budget{Cuts: 3, Paths: 1}}, false},
}

// Nothing is wrong if a record is read from any device that a node reaches, and is dated by one.
func TestDevices(t *testing.T) {
	for _, c := range copies {
		for _, oldest := range []bool{false, true} {
			name := c.name
			if c.rules.OldestCopy = oldest; oldest {
				name += ", the oldest copy"
			}
			t.Run(name, func(t *testing.T) {
				if oldest && !c.short || !long() && (oldest || !c.short) {
					t.Skip("a long search, or one without the mistake: make model KIND=lunhold")
				}
				c.holds(t)
			})
		}
	}
}

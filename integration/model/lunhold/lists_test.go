package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// rosters returns lists of members, by epoch.
func rosters(texts ...string) (list []Set) {
	for _, t := range texts {
		var l Set
		for _, c := range t {
			l |= search.Of(int(c - '1'))
		}
		list = append(list, l)
	}
	return list
}

var (
	joins   = scenario{size: 4, lists: rosters("123", "1234"), graphs: search.Graphs("1234", "", "234", "34", "2-4 3-4", "12 34")}
	leaves  = scenario{size: 4, lists: rosters("1234", "123"), graphs: search.Graphs("1234", "", "234", "23", "2-4 3-4", "12 34")}
	grows   = scenario{size: 5, lists: rosters("123", "12345"), graphs: search.Graphs("12345", "", "2345", "345", "3-4 3-5 3-2")}
	shrinks = scenario{size: 5, lists: rosters("12345", "123"), graphs: search.Graphs("12345", "", "2345", "23", "2345 1", "123")}
	fewer   = scenario{size: 5, lists: rosters("12345", "145"), graphs: search.Graphs("12345", "", "2345 1-2 1-3", "145")}
	swaps   = scenario{size: 4, lists: rosters("123", "234"), graphs: search.Graphs("1234", "", "234", "34", "12 34")}
	twice   = scenario{size: 4, lists: rosters("123", "1234", "234"), graphs: search.Graphs("1234", "", "234", "34", "12 34")}
	same    = scenario{size: 3, lists: rosters("123", "123"), graphs: search.Every(3)}
)

// with returns a search with other bounds.
func (c scenario) with(name string, left Budget, times Times) scenario {
	c.name, c.left, c.times = name, left, times
	return c
}

// that returns a search in which these nodes cannot store the lists of which they hear.
func (c scenario) that(stays Set) scenario {
	c.stays = stays
	return c
}

// changing lists searches in which the list of members changes.
var changing = []bounds{
	{joins.with("one joins three", Budget{Cuts: 2, Offers: 1}, Usual), true},
	{shrinks.with("two leave five", Budget{Cuts: 2, Offers: 1}, Usual), true},
	{fewer.with("two others leave five", Budget{Cuts: 2, Offers: 1}, Usual), true},

	{joins.with("one joins three, each stores the list at a time of its own", Budget{Cuts: 2, Offers: 4}, Usual), false},
	{leaves.with("one leaves four, each stores at a time of its own, a restart", Budget{Cuts: 2, Offers: 2, Restarts: 1}, Usual), false},
	{grows.with("two join three, three changes of the network", Budget{Cuts: 3, Offers: 2}, times(2, 5)), false},
	{swaps.with("one for another, a write that hangs", Budget{Cuts: 2, Offers: 1, Hangs: 1}, Usual), false},
	{twice.with("two changes at once", Budget{Cuts: 2, Offers: 3}, Usual), false},
	{shrinks.with("two leave five, a stop", Budget{Cuts: 2, Offers: 1, Stops: 1}, longer), false},
	{leaves.with("one leaves four, power lost and a boot", Budget{Cuts: 2, Offers: 2, Crashes: 1, Boots: 1}, Usual), false},
	{joins.with("one joins three, claims on their way, a path", Budget{Cuts: 2, Offers: 2, Paths: 1}, aged()), false},
	{leaves.that(search.Of(1, 2)).with("one leaves four, two cannot store, restarts", Budget{Cuts: 2, Offers: 1, Restarts: 1}, Usual), false},
	{same.with("the same three by another list, all networks", Budget{Cuts: 3, Offers: 2}, Usual), false},
}

// Nothing is wrong while the list changes, neither with the stricter rule nor with the one of the draft.
func TestListsChange(t *testing.T) {
	for _, c := range changing {
		for _, joint := range []bool{false, true} {
			name := c.name
			if c.rules.JointHold = joint; joint {
				name += ", holds by several lists"
			}
			t.Run(name, func(t *testing.T) {
				if !long() && (!c.short || joint) {
					t.Skip("a long search: make model KIND=lunhold")
				}
				c.holds(t)
			})
		}
	}
}

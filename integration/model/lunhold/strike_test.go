package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// These are outages of all networks that reach the nodes one after the other.
var (
	pieces3 = scenario{size: 3, graphs: search.Graphs("123", "23", "13", "12", "")}
	pieces4 = scenario{size: 4, graphs: search.Graphs("1234", "234", "34", "12 34", "")}
	pieces5 = scenario{size: 5, graphs: search.Graphs("12345", "2345", "345", "123 45", "")}
)

func (c scenario) strike(name string, left Budget, rules Rules) scenario {
	c.name, c.left, c.rules = name, left, rules
	c.both, c.strikes, c.partial, c.times = true, true, maxAge, times(3, 8)
	return c
}

// onward leaves out the other order of the nodes.
func (c scenario) onward() scenario {
	c.both = false
	return c
}

type strikes struct {
	scenario
	short bool
	want  string
}

var outages = []strikes{
	{pieces3.strike("three nodes", Budget{Cuts: 3}, Rules{}), true, ""},
	{pieces4.strike("four nodes, a grant", Budget{Cuts: 3, Grants: 1}, Rules{}), true, ""},
	{pieces5.strike("five nodes", Budget{Cuts: 3}, Rules{}), true, ""},
	{pieces3.strike("a node strikes on silence", Budget{Cuts: 3}, Rules{StrikeSilent: true}), true, "P3: {1} struck"},
	{pieces3.strike("it strikes at once", Budget{Cuts: 3}, Rules{StrikeAtOnce: true}), true, "P3: {1} struck"},
	{pieces5.strike("it strikes at once, five nodes", Budget{Cuts: 3}, Rules{StrikeAtOnce: true}), true, "P3: {1} struck"},
	{pieces5.strike("for D_max, by records of any date", Budget{Cuts: 3}, Rules{StrikeTold: true}), true, "P3: {1} struck"},
	{pieces3.strike("for D_max, by records of any date, a write of its own hangs", Budget{Cuts: 2, Hangs: 1}, Rules{StrikeTold: true}).onward(), true, "P3: {3} struck"},
	{pieces5.strike("dated a tick less than D_max after the first", Budget{Cuts: 3}, Rules{StrikeSoon: true}), true, "P3: {1} struck"},
	{pieces4.strike("the grant is enough", Budget{Cuts: 3, Grants: 1}, Rules{StrikeGrant: true}), true, "P3: "},

	{pieces3.strike("three nodes, any number of changes, a write that hangs", Budget{Cuts: always, Hangs: 1}, Rules{}), false, ""},
	{pieces4.strike("four nodes, two grants, any number of changes", Budget{Cuts: always, Grants: 2}, Rules{}), false, ""},
	{pieces5.strike("five nodes, any number of changes", Budget{Cuts: always}, Rules{}), false, ""},
	{pieces3.strike("three nodes, two writes that hang", Budget{Cuts: 3, Hangs: 2}, Rules{}).onward(), false, ""},
	{pieces5.strike("five nodes, two writes that hang", Budget{Cuts: 2, Hangs: 2}, Rules{}).onward(), false, ""},
}

// Nothing else is wrong with strikes: if a node strikes itself, another one lives or did so within D_max.
func TestStrikes(t *testing.T) {
	for _, c := range []bounds{
		{scenario{name: "three nodes, all networks, two changes", size: 3, graphs: search.Every(3), left: Budget{Cuts: 2}}, true},
		{scenario{name: "four nodes, a grant", size: 4, graphs: four, left: Budget{Cuts: 2, Grants: 1}}, true},
		{scenario{name: "three nodes, all networks, any number of changes", size: 3, graphs: search.Every(3), left: Budget{Cuts: always}}, false},
		{scenario{name: "three nodes, a write that hangs, a path", size: 3, graphs: outage, left: Budget{Cuts: 3, Hangs: 1, Paths: 1}}, false},
		{scenario{name: "four nodes, two grants, any number of changes", size: 4, graphs: four, left: Budget{Cuts: always, Grants: 2}}, false},
		{scenario{name: "five nodes, three changes", size: 5, graphs: five, left: Budget{Cuts: 3}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			c.strikes, c.times = true, times(3, 6)
			m := c.model()
			f := c.run(t, m, search.Env("LUNHOLD_LIMIT", 3_000_000))
			if f.Wrong != "" {
				t.Errorf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
			}
			if f.Met.Struck == 0 {
				t.Error("nobody strikes")
			}
		})
	}
}

// In an outage of all networks that reaches the nodes one after the other within D_max, no node strikes itself.
func TestStrikesInAnOutage(t *testing.T) {
	for _, c := range outages {
		t.Run(c.name, func(t *testing.T) {
			if !c.short && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			c.finds(t, c.want)
		})
	}
}

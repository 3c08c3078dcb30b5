package lunhold

import (
	"testing"
)

var (
	five = graphs("12345", "", "234", "123 45", "2-3 2-4 2-5", "2-3 2-4")
	four = graphs("1234", "", "12 34", "13 24", "123", "12", "1-2 1-3 1-4")
)

type bounds struct {
	search
	short bool // for all runs; else for make lunhold
}

var searches = []bounds{
	{search{name: "three nodes, all networks, three changes", size: 3, graphs: every(3), left: Budget{Cuts: 3}, both: true}, true},
	{search{name: "three nodes, two changes, a write", size: 3, graphs: every(3), left: Budget{Cuts: 2, Hangs: 1}}, true},
	{search{name: "three nodes, all networks, any number of changes", size: 3, graphs: every(3), left: Budget{Cuts: always}}, false},
}

func TestSearch(t *testing.T) {
	for _, c := range searches {
		t.Run(c.name, func(t *testing.T) {
			if !c.short && !long() {
				t.Skip("a long search: make lunhold")
			}
			m := c.model()
			f := c.run(t, m, env("LUNHOLD_LIMIT", 5_000_000))
			if f.Wrong != "" {
				t.Errorf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
			}
		})
	}
}

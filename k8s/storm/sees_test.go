package storm

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// Guards: a boot counts as seen if two agents of its group see it or, for a short time, if the node's own agent reports
// it. One agent that lies has no effect on another node. Reports about another boot, from another group, or from a
// silent Node do not count.
func TestSees(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change func(m []Member)
		after  time.Duration
		want   string
	}{
		{"two", func([]Member) {}, 0, "[n1 n2]"},
		{"one", func(m []Member) { m[1].Sighting = nil }, 0, "[]"},
		{"of another boot", func(m []Member) { m[1].Sighting.Sees = map[string]string{"n4": "other"} }, 0, "[]"},
		{"the Node shows another boot", func(m []Member) { m[3].Boot = "next" }, 0, "[]"},
		{"of another group", func(m []Member) { m[1].Group = "x" }, 0, "[]"},
		{"silent", func(m []Member) { m[1].Silent = true }, 0, "[]"},
		{"dead", func(m []Member) { m[1].Dead = true }, 0, "[]"},
		{"its own agent, silent and called dead", func(m []Member) {
			m[0].Sighting, m[1].Sighting, m[3].Sighting = nil, nil, &sightings.Sighting{Number: 4, Sees: map[string]string{"n4": "b"}}
		}, ownLasts, "[n4]"},
		{"its own agent a while ago", func(m []Member) {
			m[0].Sighting, m[1].Sighting, m[3].Sighting = nil, nil, &sightings.Sighting{Number: 4, Sees: map[string]string{"n4": "b"}}
		}, ownLasts + time.Second, "[]"},
		{"its own agent of another boot", func(m []Member) {
			m[0].Sighting, m[1].Sighting, m[3].Sighting = nil, nil, &sightings.Sighting{Number: 4, Sees: map[string]string{"n4": "other"}}
		}, 0, "[]"},
		{"two until they are too old", func([]Member) {}, wordLasts, "[n1 n2]"},
		{"two that are too old", func([]Member) {}, wordLasts + time.Second, "[]"},
	} {
		m := []Member{{Name: "n1", Boot: "1"}, {Name: "n2", Boot: "2"}, {Name: "n3", Boot: "3"}, {Name: "n4", Boot: "b", Silent: true, Dead: true}}
		for i := range m {
			if m[i].Group = "worker"; i < 2 {
				m[i].Sighting = &sightings.Sighting{Sees: map[string]string{"n4": "b"}}
			}
		}
		c.change(m)
		var h History
		Policy{}.Look(m, at, &h)
		if got := fmt.Sprint(Policy{}.Look(m, at.Add(c.after), &h).Sees("n4")); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

package lunhold

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

func long() bool { return os.Getenv("LUNHOLD_LONG") != "" }

var (
	onward = []uint8{0, 1, 2, 3, 4}
	back   = []uint8{4, 3, 2, 1, 0}
)

// scenario is one search of all states.
type scenario struct {
	name    string
	big     bool // not in a short run
	size    int
	graphs  []search.Graph
	left    Budget
	without Set // nodes that have no path to the LUN
	who     map[what]Set
	both    bool // try both orders of the nodes
	rules   Rules
	times   Times
	calm    bool // check P3
	steady  bool
	old     Set
	plain   Set
	lists   []Set
	devices int
	reach   []Set
	stays   Set
	dwell   uint8
	partial uint8
	strikes bool
	proofs  bool // do not check P5
}

func (c *scenario) model() *Model {
	m := &Model{Rules: c.rules, Times: c.times, Size: c.size, Shapes: c.graphs, Who: c.who, Calm: c.calm, Steady: c.steady, Exempt: c.without, Old: c.old, Plain: c.plain, Claims: c.proofs, Lists: c.lists, Devices: max(1, c.devices), Reach: c.reach, Stays: c.stays, Dwell: c.dwell, Partial: c.partial, Strikes: c.strikes, Orders: [][]uint8{onward}}
	if m.Lists == nil {
		m.Lists = []Set{1<<c.size - 1}
	}
	if m.Dated == 0 {
		m.Times = Usual
	}
	if c.both {
		m.Orders = append(m.Orders, back)
	}
	return m
}

func (m *Model) list(as []Action) string {
	var b strings.Builder
	ticks := 0
	for i, a := range as {
		if a.what == passes && len(m.Orders) == 1 {
			if ticks++; i+1 < len(as) && as[i+1].what == passes {
				continue
			}
			fmt.Fprintf(&b, "\n\t%d ticks", ticks)
			ticks = 0
			continue
		}
		fmt.Fprintf(&b, "\n\t%s", m.Say(a))
	}
	return b.String()
}

// run searches, and prints its progress if the search is long.
func (c *scenario) run(t *testing.T, m *Model, limit int) Found {
	t.Helper()
	begun := time.Now()
	told := begun
	f := m.Search(m.Root(c.left, c.without), limit, func(states, depth, next int) {
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Printf("lunhold: %s: %d states, depth %d, %d in this level, %v\n", c.name, states, depth, next, time.Since(begun).Round(time.Second))
		}
	})
	all := "all"
	if f.Cut {
		all = "the first of more"
	}
	t.Logf("%s: %d states, %s, %d deep, %+v, in %v", c.name, f.States, all, f.Depth, f.Met, time.Since(begun).Round(10*time.Millisecond))
	return f
}

// holds searches, and fails if anything is wrong.
func (c *scenario) holds(t *testing.T) {
	t.Helper()
	m := c.model()
	f := c.run(t, m, search.Env("LUNHOLD_LIMIT", 3_000_000))
	if f.Wrong != "" {
		t.Errorf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
	}
	if f.Met.Lived+f.Met.Asked == 0 || f.Met.Resets == 0 {
		t.Errorf("the search does not reach what it is to check: %+v", f.Met)
	}
}

// finds searches, and fails unless it finds the wanted error; "": none.
func (c *scenario) finds(t *testing.T, want string) {
	t.Helper()
	m := c.model()
	f := c.run(t, m, search.Env("LUNHOLD_LIMIT", 3_000_000))
	if !strings.HasPrefix(f.Wrong, want) || want == "" && f.Wrong != "" {
		t.Errorf("found %q, want %q", f.Wrong, want)
	}
	if f.Wrong != "" {
		t.Logf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
	}
}

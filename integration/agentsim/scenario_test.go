package agentsim

import (
	"strings"
	"testing"
	"time"
)

// group is a healthy group; the events begin after healthyFor.
func group(nodes int, change func(*Schedule), events ...Event) Schedule {
	s := Schedule{
		Seed: uint64(nodes), Nodes: nodes, Networks: 2, LUN: true, OnLoss: "fence",
		Watchdog: 6 * time.Second, Feed: time.Second, Reboot: 5 * time.Second,
	}
	if change != nil {
		change(&s)
	}
	for _, e := range events {
		e.At += healthyFor
		s.Events, s.End = append(s.Events, e), e.At
	}
	s.End += 35 * time.Second
	return s
}

var both = []int{0, 1}

func split(parts ...[]int) Event { return Event{Kind: Split, Parts: parts, Networks: both} }

func at(d time.Duration, e Event) Event {
	e.At = d
	return e
}

func noLUN(s *Schedule) { s.LUN = false }

// first makes these nodes the initial members, without a LUN.
func first(members ...int) func(*Schedule) {
	return func(s *Schedule) { s.Members, s.LUN = members, false }
}

func newMembers(list []int, told ...int) Event {
	return Event{Kind: NewMembers, Nodes: list, Parts: [][]int{told}}
}

// Each scenario fails if a property is broken. resets is the number of resets that must also be seen; -1 allows any
// number.
var scenarios = []struct {
	name   string
	s      Schedule
	resets int
	ties   int
}{
	{"equal split of four", group(4, nil, split([]int{0, 1}, []int{2, 3})), 2, 1},
	{"equal split of two", group(2, nil, split([]int{0}, []int{1})), -1, 1},
	{"equal split of six, one half reaches the API server", group(6, func(s *Schedule) { s.API = true },
		Event{Kind: APIDown, Nodes: []int{0, 2, 4}}, at(30*time.Second, split([]int{0, 2, 4}, []int{1, 3, 5}))), -1, 1},
	{"equal split, LUN lost for one half", group(4, nil,
		Event{Kind: LUNError, Nodes: []int{0, 1}, Share: 1}, at(10*time.Second, split([]int{0, 1}, []int{2, 3}))), -1, 0},
	{"equal split, LUN hangs for all", group(4, nil,
		Event{Kind: LUNHang, Nodes: []int{0, 1, 2, 3}}, at(2*time.Second, split([]int{0, 1}, []int{2, 3}))), -1, 0},
	{"equal split, LUN slow: 0.4 s", group(4, nil,
		Event{Kind: LUNSlow, Nodes: []int{0, 1, 2, 3}, Span: 400 * time.Millisecond, Share: 1}, at(30*time.Second, split([]int{0, 1}, []int{2, 3}))), 2, 0},
	{"equal split, LUN slow: 0.7 s", group(4, nil,
		Event{Kind: LUNSlow, Nodes: []int{0, 1, 2, 3}, Span: 700 * time.Millisecond, Share: 1}, at(30*time.Second, split([]int{0, 1}, []int{2, 3}))), 2, 0},
	{"calm: all networks are cut, LUN slow: 0.6 s", group(4, nil,
		Event{Kind: LUNSlow, Nodes: []int{0, 1, 2, 3}, Span: 600 * time.Millisecond, Share: 1}, at(30*time.Second, split([]int{0}, []int{1}, []int{2}, []int{3}))), 0, 0},
	{"equal split, read-only for one half", group(4, nil,
		Event{Kind: LUNReadOnly, Nodes: []int{2, 3}}, at(5*time.Second, split([]int{0, 1}, []int{2, 3}))), -1, 0},
	{"equal split turns by a quarter", group(4, nil, split([]int{0, 1}, []int{2, 3}), at(9*time.Second, split([]int{0, 2}, []int{1, 3}))), -1, 0},
	{"equal split without tie-breaker", group(4, noLUN, split([]int{0, 1}, []int{2, 3})), -1, 0},
	{"one of five is cut off", group(5, noLUN, split([]int{0}, []int{1, 2, 3, 4})), -1, 0},
	{"three parts of seven", group(7, noLUN, split([]int{0, 1}, []int{2, 3}, []int{4, 5, 6})), -1, 0},
	{"a minority is cut off one way", group(5, noLUN,
		Event{Kind: OneWay, Nodes: []int{0, 1}, Networks: both}, Event{Kind: OneWay, Nodes: []int{0, 2}, Networks: both},
		Event{Kind: OneWay, Nodes: []int{0, 3}, Networks: both}), -1, 0},
	{"the loop hangs", group(3, nil, Event{Kind: HangLoop, Nodes: []int{1}, Span: 20 * time.Second}), 1, 0},
	{"half of the loops hang", group(4, noLUN, Event{Kind: HangLoop, Nodes: []int{0, 1}, Span: 30 * time.Second}), 4, 0},
	{"boot into a partition, onQuorumLoss wait", group(5, func(s *Schedule) { s.OnLoss = "wait" },
		Event{Kind: Kill, Nodes: []int{0}}, at(8*time.Second, split([]int{0}, []int{1, 2, 3, 4}))), 1, 0},
	{"another list in one part, the old one in the other", group(5, first(0, 1, 2),
		split([]int{0, 1}, []int{2, 3, 4}), newMembers([]int{2, 3, 4}, 2)), -1, 0},

	// Calm: none of these resets a node.
	{"calm: one network is cut", group(4, nil, Event{Kind: Split, Parts: [][]int{{0, 1}, {2, 3}}, Networks: []int{0}}), 0, 0},
	{"calm: one network has no carrier", group(4, nil, Event{Kind: Carrier, Nodes: []int{0, 1, 2, 3}, Networks: []int{1}}), 0, 0},
	{"calm: the LUN is lost for all", group(4, nil, Event{Kind: LUNError, Nodes: []int{0, 1, 2, 3}, Share: 1}), 0, 0},
	{"calm: the LUN hangs for one", group(4, nil, Event{Kind: LUNHang, Nodes: []int{0}}, at(20*time.Second, Event{Kind: LUNBack})), 0, 0},
	{"calm: the API server is away", group(4, func(s *Schedule) { s.API = true }, Event{Kind: APIDown, Nodes: []int{0, 1, 2, 3}}), 0, 0},
	{"calm: a stall of a second", group(4, nil, Event{Kind: Freeze, Nodes: []int{1}, Span: time.Second}), 0, 0},
	{"calm: a stall of three seconds", group(3, nil, Event{Kind: Freeze, Nodes: []int{1}, Span: 3 * time.Second}), 0, 0},
	{"calm: losses", group(4, nil, Event{Kind: Loss, Share: 0.05}), 0, 0},
	{"calm: an agent crashes and is started", group(4, nil, Event{Kind: Restart, Nodes: []int{2}}), 0, 0},
	{"calm: rolling upgrade", group(4, nil,
		Event{Kind: Upgrade, Nodes: []int{0}, Span: 2 * time.Second}, at(10*time.Second, Event{Kind: Upgrade, Nodes: []int{1}, Span: 2 * time.Second}),
		at(20*time.Second, Event{Kind: Upgrade, Nodes: []int{2}, Span: 2 * time.Second}), at(30*time.Second, Event{Kind: Upgrade, Nodes: []int{3}, Span: 2 * time.Second})), 0, 0},
	{"calm: a short cut of everything", group(4, nil, split([]int{0}, []int{1}, []int{2}, []int{3}), at(3*time.Second, Event{Kind: Heal})), 0, 0},
}

// Every node that lives proves the death once the dead node's horizon has passed.
func TestDeathsAreProven(t *testing.T) {
	for name, s := range map[string]Schedule{
		"cut off":                    group(5, noLUN, split([]int{0}, []int{1, 2, 3, 4})),
		"half without LUN":           group(4, nil, Event{Kind: LUNError, Nodes: []int{2}, Share: 1}, at(5*time.Second, split([]int{0, 1}, []int{2, 3}))),
		"killed as late as possible": group(5, noLUN, split([]int{0}, []int{1, 2, 3, 4}), at(9*time.Second, Event{Kind: Kill, Nodes: []int{0}})),
		"killed":                     group(3, nil, Event{Kind: Kill, Nodes: []int{1}}),
	} {
		t.Run(name, func(t *testing.T) {
			s.Reboot, s.End = time.Hour, s.End+20*time.Second
			r := run(t, s)
			if want := r.Resets * (s.Nodes - r.Resets); len(r.Violations) > 0 || r.Deaths != want || want == 0 {
				t.Errorf("%d deaths were proven, want %d\n%s", r.Deaths, want, Explain(s, r))
			}
		})
	}
}

// The list of members changes while agents run, and only nodes that are cut off are reset.
func TestMembersChange(t *testing.T) {
	for _, c := range []struct {
		name          string
		s             Schedule
		resets, epoch int // epoch: of the list in force at the end
	}{
		{"one more", group(4, first(0, 1, 2), newMembers([]int{0, 1, 2, 3}, 0, 1, 2)), 0, 1},
		{"one less", group(4, noLUN, newMembers([]int{1, 2, 3}, 0, 1, 2, 3)), 0, 1},
		{"one for another, LUN", group(5, func(s *Schedule) { s.Members = []int{0, 1, 2, 3} }, newMembers([]int{1, 2, 3, 4}, 0, 1, 2, 3)), 0, 1},
		{"told to one, which waits for the others", group(4, first(0, 1, 2), newMembers([]int{0, 1, 2, 3}, 1)), 0, 0},
		{"one is killed", group(5, first(0, 1, 2, 3), Event{Kind: Kill, Nodes: []int{3}}, newMembers([]int{0, 1, 2, 4}, 0, 1, 2)), 1, 1},
		// This is shortened from a random schedule: nodes that lacked the previous list held up the next one.
		{"one has missed a list", group(3, noLUN, split([]int{0, 1}, []int{2}), at(3*time.Second, newMembers([]int{0, 1, 2}, 0, 1)),
			at(20*time.Second, Event{Kind: Heal}), at(25*time.Second, newMembers([]int{0, 1, 2}, 0, 1, 2))), 1, 2},
		// This is shortened from seed 60455: one half of two lives by its grant, and the other starts again together
		// with a node that only the next list contains. These two must not put that list into force.
		{"half and one that is to be added", group(3, func(s *Schedule) { s.Members = []int{0, 1} }, split([]int{0}, []int{1, 2}),
			at(7*time.Second, newMembers([]int{0, 1, 2}, 1, 2))), 1, 0},
		// This is shortened from seed 70228: a node stored a list while it was alone, and used it after its reset.
		// Nobody else had ever heard of the list, and nobody counted that node again.
		{"told to one that is then alone", group(4, first(0, 1, 2), newMembers([]int{1, 2}, 1), at(5*time.Second, split([]int{1}, []int{0, 2, 3})),
			at(30*time.Second, Event{Kind: Heal})), 1, 0},
		// The second list is in no file of the third machine, and the first list is in none that it could read.
		{"one was never told", group(3, noLUN, split([]int{0, 1}, []int{2}), at(3*time.Second, newMembers([]int{0, 1, 2}, 0, 1)),
			at(25*time.Second, Event{Kind: Kill, Nodes: []int{1}}), at(26*time.Second, Event{Kind: Heal})), 2, 1},
		// This is shortened from seed 31030: the first change adds more nodes than the list has, and these have moved
		// on to the second list when the old nodes need them. Nobody regained quorum.
		{"a second change while split", group(4, func(s *Schedule) {
			s.Members, s.LUN, s.AllNetworks, s.Reboot = []int{1, 3}, false, true, 13*time.Second
		},
			newMembers([]int{0, 2, 3}, 0, 1, 2, 3), at(1700*time.Millisecond, split([]int{0, 3}, []int{1, 2})),
			at(27*time.Second, newMembers([]int{1, 2, 3}, 0, 1, 2, 3)), at(60*time.Second, Event{Kind: Heal})), 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.s)
			if len(r.Violations) > 0 || r.Resets != c.resets || r.InForce != c.epoch {
				t.Errorf("%d resets, want %d; in force is the list of epoch %d, want %d\n%s", r.Resets, c.resets, r.InForce, c.epoch, Explain(c.s, r))
			}
		})
	}
}

func TestScenarios(t *testing.T) {
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.s)
			if len(r.Violations) > 0 {
				t.Fatal(Explain(c.s, r))
			}
			if c.resets >= 0 && r.Resets != c.resets || r.Ties != c.ties {
				t.Errorf("%d resets, %d equal splits judged, want %d and %d\n%s", r.Resets, r.Ties, c.resets, c.ties, Explain(c.s, r))
			}
		})
	}
}

// No node reports LEFT for a planned restart that takes longer than evidence lasts. All others report it for a crash
// that takes as long.
func TestPlannedRestartIsNoLeft(t *testing.T) {
	for _, c := range []struct {
		name  string
		event Event
		lefts int
	}{
		{"planned restart", Event{Kind: Upgrade, Nodes: []int{1}, Span: 12 * time.Second}, 0},
		{"kill", Event{Kind: Kill, Nodes: []int{1}}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := group(4, noLUN, c.event, at(13*time.Second, Event{Kind: Start}))
			s.End = healthyFor + 20*time.Second
			r := run(t, s)
			if len(r.Violations) > 0 || r.Lefts != c.lefts {
				t.Errorf("subscribers got LEFT %d times, want %d\n%s", r.Lefts, c.lefts, Explain(s, r))
			}
		})
	}
}

// After a heal memberlist goes on to declare nodes dead that it suspected before. A peer that has answered since then,
// and is published, does not become LEFT because of that. The cuts end around the time of the longest suspicion.
func TestHealedPeersAreNotLeftAgain(t *testing.T) {
	heals := 24
	if testing.Short() {
		heals = 6
	}
	for i := range heals {
		cut := 7100*time.Millisecond + time.Duration(i)*800*time.Millisecond/time.Duration(heals)
		s := group(4, func(s *Schedule) { s.LUN, s.Networks, s.Watchdog, s.Seed = false, 1, 20*time.Second, uint64(i+1) },
			Event{Kind: Split, Parts: [][]int{{0}, {1, 2, 3}}, Networks: []int{0}}, at(cut, Event{Kind: Heal}))
		s.End = healthyFor + cut + 4*time.Second
		r := run(t, s)
		healed, back := false, map[string]bool{}
		for _, l := range r.Timeline {
			healed = healed || strings.Contains(l, "the networks heal")
			_, said, ok := strings.Cut(l, "tells subscribers: ")
			if !ok || !healed {
				continue
			}
			who, _, _ := strings.Cut(l, "tells")
			peer := strings.Fields(who)[1] + " about " + said[strings.LastIndex(said, " ")+1:]
			if strings.HasPrefix(said, "JOIN") {
				back[peer] = true
			} else if strings.HasPrefix(said, "LEFT") && back[peer] {
				t.Errorf("cut for %v: %s", cut, strings.TrimSpace(l))
			}
		}
	}
}

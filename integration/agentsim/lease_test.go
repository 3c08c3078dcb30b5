package agentsim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func lease(s *Schedule) { s.LUN, s.API, s.Lease = false, true, true }

// seasoned delays the events until the Lease has been seen for its expiry time.
func seasoned(s Schedule) Schedule {
	later := s.seasoned() - healthyFor
	for i := range s.Events {
		s.Events[i].At += later
	}
	s.End += later
	return s
}

// TestSurvivors splits four nodes into halves. It varies how many nodes of each half reach the API server and how ties
// are broken, and compares the number of halves that live with the table in docs/kubernetes.md.
func TestSurvivors(t *testing.T) {
	doc, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	modes := []struct {
		name string
		set  func(*Schedule)
	}{
		{"none", func(s *Schedule) { s.LUN = false }},
		{"reachability", func(s *Schedule) { s.LUN, s.API = false, true }},
		{"lease", lease},
		{"lun", func(*Schedule) {}},
	}
	for _, c := range []struct {
		row  string
		down []int // the nodes that do not reach the API server
		want [4]int
	}{
		{"both halves", nil, [4]int{0, 2, 1, 1}},
		{"one half", []int{2, 3}, [4]int{0, 1, 1, 1}},
		{"one node of each half", []int{1, 3}, [4]int{0, 0, 1, 1}},
		{"one node of one half", []int{1, 2, 3}, [4]int{0, 0, 1, 1}},
		{"nobody", []int{0, 1, 2, 3}, [4]int{0, 0, 0, 1}},
	} {
		if line := fmt.Sprintf("| %s | %d | %d | %d | %d |", c.row, c.want[0], c.want[1], c.want[2], c.want[3]); !strings.Contains(string(doc), line) {
			t.Errorf("docs/kubernetes.md lacks %q", line)
		}
		for i, mode := range modes {
			if testing.Short() && mode.name != "lease" {
				continue
			}
			t.Run(c.row+"/"+mode.name, func(t *testing.T) {
				s := group(4, mode.set, Event{Kind: APIDown, Nodes: c.down}, at(10*time.Second, split([]int{0, 1}, []int{2, 3})))
				s.Reboot = time.Hour
				if s.Lease {
					s = seasoned(s)
				}
				r := run(t, s)
				// A half lives as a whole or not at all: each of its nodes needs the other.
				if len(r.Violations) > 0 || r.Living != 2*c.want[i] || r.Resets != 4-r.Living {
					t.Errorf("%d nodes live, %d were reset, want %d halves of two\n%s", r.Living, r.Resets, c.want[i], Explain(s, r))
				}
			})
		}
	}
}

// These splits are decided by a Lease, and the last cases must not reset anybody.
func TestLeaseScenarios(t *testing.T) {
	ours, theirs := []int{0, 1}, []int{2, 3}
	for i, c := range []struct {
		name         string
		s            Schedule
		resets, ties int // -1: any number
	}{
		{"four", group(4, lease, split(ours, theirs)), 2, 1},
		{"two", group(2, lease, split([]int{0}, []int{1})), 1, 1},
		{"six, a slow API server for one half", group(6, lease, Event{Kind: APIDown, Nodes: []int{0, 2, 4}}, at(10*time.Second, split([]int{0, 2, 4}, []int{1, 3, 5}))), 3, 0},
		{"the halves turn by a quarter", group(4, lease, split(ours, theirs), at(9*time.Second, split([]int{0, 2}, []int{1, 3}))), -1, 0},
		// By then all holders of the first grant are known to be done with it.
		{"again, the other way", group(4, func(s *Schedule) { lease(s); s.Reboot = 2 * time.Second }, split(ours, theirs), at(20*time.Second, Event{Kind: Heal}), at(60*time.Second, split([]int{0, 2}, []int{1, 3}))), 4, 0},
		{"an agent of the winning half is killed and started", group(4, lease, split(ours, theirs), at(20*time.Second, Event{Kind: Restart, Nodes: []int{0, 2}})), 2, 0},
		{"the Lease is too young", group(4, lease, split(ours, theirs)), 4, 0},
		{"boot into a split", group(4, lease, Event{Kind: Kill, Nodes: theirs}, at(9*time.Second, split(ours, theirs)), at(30*time.Second, Event{Kind: Start})), -1, 0},
		{"calm: the API server is slow", group(4, lease, Event{Kind: APIDown, Nodes: []int{0, 1, 2, 3}}, at(6*time.Minute, Event{Kind: APIBack})), 0, 0},
		{"calm: the API server refuses", group(4, lease, Event{Kind: APIDown, Nodes: []int{0, 1, 2, 3}, Pick: 1}, at(6*time.Minute, Event{Kind: APIBack})), 0, 0},
		{"calm: rolling upgrade", group(3, lease, Event{Kind: Upgrade, Nodes: []int{0}, Span: 2 * time.Second}, at(15*time.Second, Event{Kind: Upgrade, Nodes: []int{1}, Span: 2 * time.Second})), 0, 0},
	} {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			if c.name != "the Lease is too young" {
				s = seasoned(s)
			}
			r := run(t, s)
			if len(r.Violations) > 0 || c.resets >= 0 && r.Resets != c.resets || r.Ties != c.ties {
				t.Errorf("%d resets, %d equal splits judged, want %d and %d\n%s", r.Resets, r.Ties, c.resets, c.ties, Explain(s, r))
			}
		})
	}
}

// A planned stop during an equal split waits until the split ends. Otherwise the half that is granted next would take
// the node for dead.
func TestLeaseHoldsAPlannedStop(t *testing.T) {
	s := group(4, lease, Event{Kind: APIDown, Nodes: []int{2, 3}, Pick: 1}, at(10*time.Second, split([]int{0, 1}, []int{2, 3})), at(30*time.Second, Event{Kind: Upgrade, Nodes: []int{0, 1}, Span: 2 * time.Second}), at(70*time.Second, Event{Kind: Heal}))
	s.Reboot = 5 * time.Second
	s = seasoned(s)
	r := run(t, s)
	ended := func(from, to time.Duration) (n int) {
		for _, l := range r.Timeline {
			var at float64
			if _, err := fmt.Sscanf(strings.TrimSpace(l), "%fs", &at); err == nil && strings.Contains(l, "agent ended") && at >= from.Seconds() && at < to.Seconds() {
				n++
			}
		}
		return n
	}
	split, heal := s.Events[1].At, s.Events[3].At
	if len(r.Violations) > 0 || r.Resets != 2 || ended(split, heal) != 0 || ended(heal, s.End) != 2 {
		t.Errorf("%d resets; %d agents stopped in the split, %d after it\n%s", r.Resets, ended(split, heal), ended(heal, s.End), Explain(s, r))
	}
}

// Nodes whose watchdogs have longer timeouts than the others' win a split, and then lose the API server. The others
// were reset and are back. They are granted the Lease only when the winners have been reset, too. By their own timeouts
// they would have been granted it while both winners still ran. Guard: K3, K7.
func TestLeaseWaitsForTheHoldersWatchdogs(t *testing.T) {
	ours, theirs := []int{1, 3}, []int{0, 2}
	s := group(4, func(s *Schedule) { lease(s); s.Odd = 90 * time.Second },
		Event{Kind: APIDown, Nodes: theirs, Pick: 1}, at(10*time.Second, split(ours, theirs)),
		at(40*time.Second, Event{Kind: APIDown, Nodes: ours, Pick: 1}), at(400*time.Second, Event{Kind: Nothing}))
	s = seasoned(s)
	r := run(t, s)
	reset, granted, held := map[string]bool{}, 0, 0
	for _, l := range r.Timeline {
		for _, name := range []string{"n2", "n4"} {
			reset[name] = reset[name] || strings.Contains(l, name+"   RESET")
		}
		if strings.Contains(l, "writes the Lease") && strings.Contains(l, "[n2 n4]") {
			held++
		}
		if strings.Contains(l, "writes the Lease") && strings.Contains(l, "[n1 n3]") {
			if granted++; !reset["n2"] || !reset["n4"] {
				t.Errorf("granted to the others while holders run: %s", l)
			}
		}
	}
	if len(r.Violations) > 0 || held == 0 || granted == 0 || r.Resets != 4 {
		t.Errorf("%d resets, %d writes by the half that wins, %d by the half that takes over\n%s", r.Resets, held, granted, Explain(s, r))
	}
}

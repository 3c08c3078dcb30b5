package agentsim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func lease(s *Schedule) { s.LUN, s.API, s.Lease = false, true, true }

// seasoned delays what happens until a Lease has been seen for its expiry.
func seasoned(s Schedule) Schedule {
	later := s.seasoned() - healthyFor
	for i := range s.Events {
		s.Events[i].At += later
	}
	s.End += later
	return s
}

// TestSurvivors splits four nodes into halves of which so many reach the API server, in each way
// to break ties, and holds the table of docs/kubernetes.md to how many halves live.
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
		down []int // who does not reach the API server
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
			if raceDetector {
				continue // its runtime breaks in long bubbles (go.dev/issue/78156)
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

package leasequorum

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSurvivors splits four nodes into halves, each with a number of nodes that reach the API server, and compares the
// result with the table in docs/adr/0014.
func TestSurvivors(t *testing.T) {
	doc, err := os.ReadFile("../../docs/adr/0014-tie-break-by-a-lease-object.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		api  string // by node: + reaches the API server
		row  string
		want int // halves that live
	}{
		{"++++", "both halves", 1},
		{"++--", "one half", 1},
		{"+-+-", "one node of each half", 1},
		{"+---", "one node of one half", 1},
		{"----", "nobody", 0},
	} {
		for seed := range uint64(6) {
			w := newWorld(2*seed+1, 4)
			w.calm = true
			if v := w.run(times.Term + 6*time.Second); v != "" {
				t.Fatal(v)
			}
			for i, n := range w.nodes {
				n.api = c.api[i] == '+'
				for j := range w.nodes {
					w.links[i][j] = i/2 == j/2
				}
			}
			if v := w.run(w.now + 2*time.Second); v != "" {
				t.Fatalf("%s: %s", c.row, v)
			}
			living := [2]int{}
			for i, n := range w.nodes {
				if n.feeds() {
					living[i/2]++
				}
			}
			halves := 0
			for h, n := range living {
				if n == 1 {
					t.Errorf("%s: one node of half %d lives alone", c.row, h)
				}
				if n == 2 {
					halves++
				}
				if n > 0 && !strings.Contains(c.api[2*h:2*h+2], "+") {
					t.Errorf("%s: half %d lives without the API server", c.row, h)
				}
			}
			if halves != c.want {
				t.Errorf("%s: %d halves live, want %d\n%s", c.row, halves, c.want, strings.Join(w.trace, "\n"))
			}
		}
		if line := fmt.Sprintf("| %s | %d |", c.row, c.want); !strings.Contains(string(doc), line) {
			t.Errorf("docs/adr/0014 lacks %q", line)
		}
	}
}

package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// triple is a group of four on a LUN of three devices.
func triple(t *testing.T, seed uint64) *Cluster {
	t.Helper()
	cfg := DefaultConfig(4, seed)
	cfg.Devices = 3
	return started(t, cfg)
}

var oneHalf = map[string]bool{"[0 1]": true, "[2 3]": true}

// An equal split over three devices, some of which some nodes do not reach. Exactly one half lives as long as a half
// reaches a majority of the devices, no matter which.
func TestSplitOverThreeDevices(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing [2][]int // the devices that the nodes of each half do not reach
		winner  []int    // nil: either half
		nobody  bool
	}{
		{"all work", [2][]int{}, nil, false},
		{"one is away", [2][]int{{1}, {1}}, nil, false},
		{"the halves miss different ones", [2][]int{{0}, {2}}, nil, false},
		{"one half misses two", [2][]int{{0, 1}, {1}}, []int{2, 3}, false},
		{"the halves have one in common, which one half also misses", [2][]int{{0}, {1, 2}}, []int{0, 1}, false},
		{"two are away", [2][]int{{0, 1}, {0, 1}}, nil, true},
		{"each half misses two", [2][]int{{0, 1}, {1, 2}}, nil, true},
	} {
		for seed := range uint64(4) {
			for _, f := range []Faults{{Down: true}, {Hung: true}} {
				t.Run(fmt.Sprintf("%s/hung=%v/%d", c.name, f.Hung, seed), func(t *testing.T) {
					r := triple(t, seed)
					for half, missing := range c.missing {
						for _, n := range []int{2 * half, 2*half + 1} {
							if len(missing) > 0 {
								r.LUNFaults(n, &f, missing...)
							}
						}
					}
					r.Run(5 * time.Second)
					r.Split([][]int{{0, 1}, {2, 3}})
					r.Run(r.cfg.Budget().Tie())
					got := r.Feeding()
					switch {
					case c.nobody && slices.Equal(c.missing[0], c.missing[1]): // all nodes hold by the device that is left
						if len(got) != 4 || r.reason(0) != watchdog.ReasonNobodyLives {
							t.Errorf("feeding %v\n%s", got, r.Report())
						}
					case c.nobody: // here the halves cannot read what the other writes
						if len(got) != 0 {
							t.Errorf("feeding %v\n%s", got, r.Report())
						}
					case c.winner != nil && !slices.Equal(got, c.winner) || !oneHalf[fmt.Sprint(got)]:
						t.Errorf("feeding %v, want %v\n%s", got, c.winner, r.Report())
					}
					noViolations(t, r)
				})
			}
		}
	}
}

// The LUN of three devices survives the loss of one after the other, if each is back, and what failed on it can no
// longer land, before the next one is lost. No decision in between is lost with any of them.
func TestDevicesFailInTurns(t *testing.T) {
	c := triple(t, 3)
	turns := [][][]int{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}, {{0, 3}, {1, 2}}}
	for k := range 6 {
		for n := range 4 {
			c.LUNFaults(n, nil)
			c.LUNFaults(n, &Faults{Down: k%2 == 0, Hung: k%2 == 1}, k%3)
		}
		c.Run(5 * time.Second)
		c.Split(turns[k%3])
		mustRun(t, c, "one half feeds", 20*time.Second, func() bool { return len(c.Feeding()) == 2 })
		c.Heal()
		mustRun(t, c, "everybody feeds", 20*time.Second, feeds(c, 0, 1, 2, 3))
		for n := range 4 {
			c.LUNFaults(n, nil)
		}
		c.Run(130 * time.Second)
	}
	if n, _ := c.nodes[0].core.Arbiter().Decision(); n < 6 || c.Resets() != 0 {
		t.Errorf("%d decisions, %d resets", n, c.Resets())
	}
	noViolations(t, c)
}

// Two of three devices are lost, or all of them. That affects no node with a majority on the networks, and the LUN
// arbitrates again when they are back.
func TestOutageOfMostDevicesAloneResetsNobody(t *testing.T) {
	c := triple(t, 4)
	for n := range 4 {
		c.LUNFaults(n, &Faults{Hung: true}, n%3, (n+1)%3)
	}
	c.Run(5 * time.Minute)
	if !feeds(c, 0, 1, 2, 3)() || c.Resets() != 0 {
		t.Fatalf("feeding %v, resets %d", c.Feeding(), c.Resets())
	}
	for n := range 4 {
		c.LUNFaults(n, nil)
	}
	c.Run(20 * time.Second)
	c.Split([][]int{{0, 3}, {1, 2}})
	mustRun(t, c, "the LUN arbitrates again", 15*time.Second, func() bool { return len(c.Feeding()) == 2 })
	noViolations(t, c)
}

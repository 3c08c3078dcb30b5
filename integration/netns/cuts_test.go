package netns

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var cuts = flag.Int("cuts", 0, "how often each cut is repeated whose times are compared between two versions of the agent (FENCING_BIN)")

// cutTimes contains the times of one cut, each of the node that was last.
type cutTimes struct {
	// end is the time until the losers are no longer fed. If there is no winner, it is the time until all nodes starve
	// or hold by the LUN.
	end  time.Duration
	left time.Duration // until the winners, or all nodes, have reported LEFT for the nodes that they lost
	how  string        // the reason that the losers then report
}

// TestTimesOfCuts prints how fast a losing part gives way, and how fast the others report LEFT. It checks only the
// outcome, not the times.
func TestTimesOfCuts(t *testing.T) {
	need(t)
	if *cuts == 0 {
		t.Skip("compares two versions: -cuts 3, with FENCING_BIN for each")
	}
	kinds := []struct {
		name  string
		parts []int
	}{{"one alone", []int{4, 1}}, {"equal split", []int{2, 2}}, {"3|2", []int{3, 2}}, {"2|2|1", []int{2, 2, 1}}}
	times := make([][]cutTimes, len(kinds))
	t.Run("kinds", func(t *testing.T) {
		for k, kind := range kinds {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				size := 0
				for _, n := range kind.parts {
					size += n
				}
				c := newCluster(t, size, 512, nil)
				c.startAll()
				for range *cuts {
					times[k] = append(times[k], c.timesOf(kind.parts))
					c.must(c.Lab().Heal())
					c.await(startLimit, "all is as before", c.everybody(), observe.LeaseFree(c.nodes...))
				}
			})
		}
	})
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cut\tlosers\tnot fed after\tLEFT after\t")
	for k, kind := range kinds {
		if n := len(times[k]); n > 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", kind.name, times[k][n-1].how, spread(times[k], func(x cutTimes) time.Duration { return x.end }),
				spread(times[k], func(x cutTimes) time.Duration { return x.left }))
		}
	}
	w.Flush()
}

// spread prints the least, the median and the greatest.
func spread(all []cutTimes, of func(cutTimes) time.Duration) string {
	var s []float64
	for _, x := range all {
		s = append(s, of(x).Seconds())
	}
	slices.Sort(s)
	return fmt.Sprintf("%.2f / %.2f / %.2f s", s[0], s[len(s)/2], s[len(s)-1])
}

// timesOf cuts a healthy cluster into parts of these sizes.
func (c *cluster) timesOf(sizes []int) (out cutTimes) {
	c.t.Helper()
	var parts [][]string
	for rest := c.nodes; len(sizes) > 0; rest, sizes = rest[sizes[0]:], sizes[1:] {
		parts = append(parts, rest[:sizes[0]])
	}
	calm := time.Now()
	c.hold(5*time.Second+rand.N(3*time.Second), "calm before the cut", observe.Steady(calm, c.nodes...))
	began := time.Now()
	c.must(c.Lab().Cut(parts...))
	over := func(nodes ...string) observe.Condition {
		return func(v *observe.View) string {
			if held(nodes...)(v) == "" {
				return ""
			}
			return observe.Starving(nodes...)(v)
		}
	}
	var v *observe.View
	winners, losers := []string(nil), c.nodes
	switch {
	case len(parts[0]) > len(c.nodes)/2:
		winners, losers = parts[0], parts[1]
		c.await(startLimit, "the smaller part gives way", observe.Starving(losers...), observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, winners...))
	case len(parts) == 2:
		v, _ = c.await(startLimit, "one half lives", observe.Decided(parts[0], parts[1]))
		winners, losers = parts[0], parts[1]
		if observe.Starving(winners...)(v) == "" {
			winners, losers = losers, winners
		}
	default:
		c.await(startLimit, "nobody lives", over(c.nodes...))
	}
	for _, part := range parts {
		if winners == nil || slices.Equal(part, winners) {
			gone := slices.DeleteFunc(slices.Clone(c.nodes), func(n string) bool { return slices.Contains(part, n) })
			c.await(startLimit, "LEFT is said", observe.Reported(began, fencingv1.EventType_LEFT, gone, part))
			v, _ = c.View()
			for _, node := range part {
				for _, g := range gone {
					out.left = max(out.left, observe.FirstReport(v, began, fencingv1.EventType_LEFT, g, node).At.Sub(began))
				}
			}
		}
	}
	c.hold(5*time.Second, "it stays so", over(losers...))
	v, _ = c.View()
	for _, node := range losers {
		if at, ok := observe.Starved(v, began, node); ok {
			out.end = max(out.end, at.Sub(began))
		}
	}
	if held(losers...)(v) == "" {
		out.end = lastVerdict(v, began, fencingv1.Reason_REASON_NOBODY_LIVES)
	}
	out.how = observe.Verdict(v.Status[losers[0]])
	return out
}

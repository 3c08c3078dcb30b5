package soak

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

type measurements struct {
	faults                   map[Kind]int
	left, starved, recovered []time.Duration
	base, end                map[string]Usage
}

func newMeasurements() measurements { return measurements{faults: map[Kind]int{}} }

func (m *measurements) count(k Kind) { m.faults[k]++ }

// quantile returns the smallest value that at least the part p of all values does not exceed.
func quantile(sorted []time.Duration, p float64) time.Duration {
	i := int(p*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func (k *soak) report(rounds int) {
	m := &k.measured
	fmt.Fprintf(k.Out, "\n%d rounds in %v, %d agents, seed %d\n\n", rounds, time.Since(k.began).Round(time.Second), k.Nodes, k.Seed)
	w := tabwriter.NewWriter(k.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes")
	for _, kind := range slices.Sorted(maps.Keys(m.faults)) {
		fmt.Fprintf(w, "%s\t%d\n", kind, m.faults[kind])
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "time\tnumber\tmin\tmedian\tp99\tmax")
	for _, row := range []struct {
		what string
		d    []time.Duration
	}{
		{"from the fault to LEFT, each observer", m.left},
		{"from the fault to the end of permission, each node", m.starved},
		{"from the end of the faults until all is as before", m.recovered},
	} {
		if len(row.d) == 0 {
			fmt.Fprintf(w, "%s\t0\n", row.what)
			continue
		}
		slices.Sort(row.d)
		s := func(p float64) string { return fmt.Sprintf("%.2f s", quantile(row.d, p).Seconds()) }
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", row.what, len(row.d), s(0), s(0.5), s(0.99), s(1))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "agent never restarted\tmemory\tgoroutines\tdescriptors")
	for _, node := range slices.Sorted(maps.Keys(m.end)) {
		a, b := m.base[node], m.end[node]
		fmt.Fprintf(w, "%s\t%.1f -> %.1f MB\t%.0f -> %.0f\t%.0f -> %.0f\n", node, a.Memory/1e6, b.Memory/1e6, a.Goroutines, b.Goroutines, a.Descriptors, b.Descriptors)
	}
	w.Flush()
	if k.replayer != nil {
		fmt.Fprintf(k.Out, "\n%d old packets were sent again\n", k.replayer.sent.Load())
	}
	fmt.Fprintf(k.Out, "\nlongest time in which two sides were both permitted to feed: %.2f s, allowed are %.2f s\n",
		k.w.disjoint.Longest.Seconds(), k.w.disjoint.Bound.Seconds())
	if k.Armed {
		all := k.c.resets.since(k.began)
		counts := countResets(all)
		fmt.Fprintf(k.Out, "\nresets: %d\n", len(all))
		for _, how := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(k.Out, "  %4d %s\n", counts[how], how)
		}
	}
	for _, err := range k.c.resets.trouble() {
		k.w.violated("reset: %v", err)
	}
	violations := k.w.Violations()
	for _, v := range violations {
		fmt.Fprintln(k.Out, "VIOLATION:", v)
	}
	fmt.Fprintf(k.Out, "violations: %d\n", len(violations))
}

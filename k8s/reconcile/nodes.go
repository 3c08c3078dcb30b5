package reconcile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// WriteNodes tells people about each Node that this replica works at, a line each: what it does there, and what it
// waits for. It is served under /nodes.
func (r *Reconciler) WriteNodes(out io.Writer) {
	type line struct{ node, phase, since, text string }
	var lines []line
	r.mu.Lock()
	now := r.options.Now()
	for _, name := range slices.Sorted(maps.Keys(r.machines)) {
		w := r.machines[name]
		s := w.machine.State()
		text := s.Text
		if wait := w.begins.Sub(now); wait > 0 {
			text = fmt.Sprintf("is left to other replicas for %v", wait.Round(time.Second))
		}
		if s.Trouble != "" {
			text += "; last request failed: " + s.Trouble
		}
		if tellers := r.index.tellers(name); len(tellers) > 0 {
			text += fmt.Sprintf("; called dead by %d Nodes", len(tellers))
		}
		lines = append(lines, line{name, string(s.Phase), now.Sub(w.since).Round(time.Second).String(), text})
	}
	r.mu.Unlock()
	if len(lines) == 0 {
		fmt.Fprintln(out, "no Node is called dead")
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tPHASE\tSINCE\tDETAIL")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", l.node, l.phase, l.since, l.text)
	}
	_ = t.Flush() // who has asked has gone
}

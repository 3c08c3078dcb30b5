package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// steps lists the steps of a recovery in the order of the table. Times are counted from the fault. "fenced by" is taken
// from the logs of the agents, one after the other, and "told by" from what they write on their Nodes.
var steps = []string{"reset", "fenced by 1", "fenced by 2", "fenced by 3", "told by 2", "not ready", "tainted", "evicted", "gone", "created", "scheduled", "detached", "attached", "running", "ready"}

// blow is what happens to the node with the pod.
type blow struct {
	name   string
	strike func(t *testing.T, r *recovery, node string)
	proof  string // the proof of its death, as kubectl fence explain names it
	resets bool   // whether its watchdog resets it
}

// Guard: a node is cut off, and its pod runs elsewhere with its volume, without any action of a person.
func recovered(t *testing.T, r *recovery) {
	r.repeat(t, blow{"cut off", func(t *testing.T, r *recovery, node string) { do(t, r.Cut(node)) }, "sentence", true})
}

// Guard: the same for a node that crashes, and so cannot announce its death. If it has its own kernel, that panics.
func crashed(t *testing.T, r *recovery) {
	r.repeat(t, blow{"crashed", func(t *testing.T, r *recovery, node string) { do(t, r.Crash(t.Context(), node)) }, "time", false})
}

func (r *recovery) repeat(t *testing.T, b blow) {
	var table []map[string]float64
	for i := range *recoveries {
		row := r.once(t, b)
		table = append(table, row)
		t.Logf("run %d: %s", i+1, rowText(row))
	}
	if *recoveries > 1 {
		t.Logf("%d runs, %s, recovered by %s:\n%s", *recoveries, b.name, *byWhom, tableText(table))
	}
}

func rowText(row map[string]float64) string {
	var text strings.Builder
	for _, s := range append([]string{"replacement evicted"}, steps...) {
		if v, ok := row[s]; ok {
			fmt.Fprintf(&text, "%s %.2f; ", s, v)
		}
	}
	return text.String()
}

func tableText(table []map[string]float64) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| s | median | least | most | seen in | all |\n|---|---|---|---|---|---|\n")
	for _, s := range append(slices.Clone(steps), "replacement evicted", "fenced -> attached", "fenced -> ready") {
		var all []float64
		var each []string
		for _, row := range table {
			if v, ok := row[s]; ok {
				all = append(all, v)
				each = append(each, fmt.Sprintf("%.2f", v))
			}
		}
		if slices.Sort(all); len(all) > 0 {
			fmt.Fprintf(&text, "| %s | %.2f | %.2f | %.2f | %d | %s |\n", s, all[len(all)/2], all[0], all[len(all)-1], len(all), strings.Join(each, ", "))
		}
	}
	return text.String()
}

// once runs one recovery and returns the times of its steps after the fault.
func (r *recovery) once(t *testing.T, b blow) map[string]float64 {
	node, rec := r.start(t)
	resets := len(r.Resets(node))
	if *byWhom != "controller" {
		kubectl(t, r.Cluster, "-n", cluster.ControllerSpace, "scale", "deployment/fencing-controller", "--replicas=0")
	}
	at := time.Now()
	b.strike(t, r, node)
	defer func() {
		if t.Failed() {
			text, err := r.Command(context.Background(), []string{"status"})
			t.Logf("the agents say (%v)\n%s\nand the controller\n%s", err, text, r.says(t))
		}
	}()
	// If the host is so busy that the LUN does not answer, the node cannot announce its sentence. Its death is then
	// proven by time: two of the watchdog's timeouts later.
	until(t, "two agents report the death", 2*limit, func() bool { return !rec.when("told by 2").IsZero() })
	if *byWhom == "person" {
		kubectl(t, r.Cluster, "taint", "node", node, outOfService+"=nodeshutdown:NoExecute")
	}
	if r.elsewhere(t, rec) {
		until(t, "the replacement is Ready", limit, func() bool { return !rec.when("ready").IsZero() })
		if *byWhom == "controller" {
			r.explained(t, node, b.proof, at)
		}
	}
	if got := r.Resets(node); len(got) > resets {
		rec.note("reset", got[len(got)-1])
	} else if b.resets {
		t.Errorf("%s was never reset by its watchdog", node)
	}
	row := map[string]float64{}
	for i, moment := range fenced(t, r.Cluster, node, at) {
		rec.note(fmt.Sprintf("fenced by %d", i+1), moment)
	}
	r.inOrder(t, rec)
	rec.mu.Lock()
	for s, moment := range rec.at {
		if moment.After(at) {
			row[s] = moment.Sub(at).Seconds()
		}
	}
	rec.mu.Unlock()
	if f, ok := row["fenced by 2"]; ok && row["ready"] > 0 {
		row["fenced -> attached"], row["fenced -> ready"] = row["attached"]-f, row["ready"]-f
	}
	r.judge(t, rec)
	if *byWhom == "person" {
		kubectl(t, r.Cluster, "taint", "node", node, outOfService+"-")
	}
	if *byWhom != "controller" {
		kubectl(t, r.Cluster, "-n", cluster.ControllerSpace, "scale", "deployment/fencing-controller", "--replicas=2")
	}
	r.whole(t)
	r.judge(t, rec)
	return row
}

package recovery

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// tempest is one scenario of ten nodes and twenty ordinals, two replicas that own everything, and no other faults. The
// world's times are a quarter of Kubernetes' defaults (leaseDuration).
type tempest struct {
	name    string
	maxDead int // storm.maxDeadPercent
	lasts   time.Duration
	each    func(w *world, at time.Duration) // before each tick
	fenced  int                              // nodes whose boots were tainted, for the test
	noted   int                              // nodes that are in dispute at the end
	clean   bool                             // no taint and no dispute at the end, and everything runs
}

// outcome is the result of a scenario.
type outcome struct {
	fenced, noted, deleted int
	first, last            time.Duration // when the taints were set, after the beginning
	running                int           // ordinals at the end
	said                   []string      // phases and reasons, in the order in which they were first said
}

const far = 24 * time.Hour

// cut takes nodes off all networks; their watchdogs reset them, and they stay off.
func cut(w *world, nodes ...int) {
	for _, i := range nodes {
		n := w.nodes[i]
		if n.on && n.api {
			n.api, n.gossip, n.stuck, n.cutAt = false, false, true, w.now
		}
		if !n.on {
			n.bootAt = w.now.Add(far)
		}
	}
}

// unseen hides nodes from the others for a tick, whose watchdogs do not fire: all agents are wrong about them.
func unseen(w *world, nodes ...int) {
	for _, i := range nodes {
		n := w.nodes[i]
		if n.gossip {
			n.cutAt = w.now
		}
		n.gossip, n.watchdog = false, false
	}
}

// seen makes the nodes visible again.
func seen(w *world, nodes ...int) {
	for _, i := range nodes {
		w.nodes[i].gossip, w.nodes[i].watchdog = true, true
	}
}

// deaf keeps kubelets from the API server for a tick. The agents see each other, and cannot report it.
func deaf(w *world, nodes ...int) {
	for _, i := range nodes {
		n := w.nodes[i]
		n.api, n.cutAt = false, w.now
	}
}

// within reports whether a moment is between two seconds of a scenario.
func within(at time.Duration, from, to int) bool {
	return at >= time.Duration(from)*time.Second && at < time.Duration(to)*time.Second
}

func tempests() []tempest {
	half, all := []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	return []tempest{
		{name: "the switch of half the nodes fails, and their watchdogs reset them", lasts: 4 * time.Minute, fenced: 5,
			each: func(w *world, _ time.Duration) { cut(w, half...) }},
		{name: "the same, with `storm.maxDeadPercent: 40`", maxDead: 40, lasts: 4 * time.Minute, fenced: 4,
			each: func(w *world, _ time.Duration) { cut(w, half...) }},
		{name: "half the nodes are hidden from the others and run: no watchdog fires, all agents are wrong", lasts: 2 * time.Minute, noted: 5,
			each: func(w *world, _ time.Duration) { unseen(w, half...) }},
		{name: "half the kubelets lose the API server; the agents see each other", lasts: 2 * time.Minute, clean: true,
			each: func(w *world, at time.Duration) {
				if at < time.Minute {
					deaf(w, half...)
				}
			}},
		{name: "the API server is away from all for 60 s", lasts: 2 * time.Minute, clean: true,
			each: func(w *world, at time.Duration) {
				if w.down = at < time.Minute; w.down {
					deaf(w, all...)
				}
			}},
		{name: "the same, and one node dies meanwhile", lasts: 4 * time.Minute, fenced: 1,
			each: func(w *world, at time.Duration) {
				if w.down = at < time.Minute; w.down {
					deaf(w, all...)
				}
				if n := w.nodes[0]; within(at, 10, 11) {
					w.powerOff(n)
				}
				cut(w, 0)
			}},
		{name: "kube-controller-manager is away for 60 s, and one node dies", lasts: 4 * time.Minute, fenced: 1,
			each: func(w *world, at time.Duration) {
				w.kcm = at >= time.Minute
				cut(w, 0)
			}},
		{name: "a node that runs is hidden for 8 s and seen for 8 s, six times", lasts: 3 * time.Minute, noted: 1,
			each: func(w *world, at time.Duration) {
				if phase := int(at.Seconds()) % 16; at < 96*time.Second && phase < 8 {
					unseen(w, 0)
				} else {
					seen(w, 0)
				}
			}},
		{name: "a node loses its power every 60 s for 30 s, four times", lasts: 8 * time.Minute, fenced: 1, clean: true,
			each: func(w *world, at time.Duration) {
				n := w.nodes[0]
				if phase := int(at.Seconds()) % 60; at < 4*time.Minute && phase < 30 {
					w.powerOff(n)
					n.bootAt = w.now.Add(30*time.Second - time.Duration(phase)*time.Second)
				}
			}},
		{name: "four of ten are dead with `storm.maxDeadPercent: 40`, a fifth dies, and one comes back after 120 s", maxDead: 40, lasts: 6 * time.Minute, fenced: 5,
			each: func(w *world, at time.Duration) {
				cut(w, 1, 2, 3)
				if cut(w, 0); at >= 2*time.Minute && !w.nodes[0].on {
					w.nodes[0].bootAt = w.now
				} else if w.nodes[0].on && at > 2*time.Minute {
					w.nodes[0].api, w.nodes[0].gossip, w.nodes[0].stuck = true, true, false
				}
				if at >= time.Minute {
					cut(w, 4)
				}
			}},
	}
}

// blow runs a scenario.
func (s tempest) blow(t *testing.T) (*world, outcome) {
	t.Helper()
	w := newWorldOf(1, 10, 20)
	w.faults = false
	rules := belief.Settings{MinReporters: 2, Unknown: true}
	replicas := []*replica{{name: "a", maxDead: s.maxDead}, {name: "b", maxDead: s.maxDead}}
	var out outcome
	fenced := map[string]bool{}
	tick := func() {
		w.step()
		w.lateCalls(rules)
		for _, c := range replicas {
			w.replicaTick(c, rules)
			for _, name := range slices.Sorted(maps.Keys(c.machines)) {
				st := c.machines[name].State()
				word := strings.TrimSuffix(string(st.Phase)+" "+st.Held, " ")
				if st.Phase != Watching && !slices.Contains(out.said, word) {
					out.said = append(out.said, word)
				}
			}
		}
	}
	for end := w.now.Add(30 * time.Second); w.now.Before(end); { // until everything runs
		tick()
	}
	if w.alive() != w.ordinals {
		t.Fatalf("%s: %d of %d run before it begins", s.name, w.alive(), w.ordinals)
	}
	out.said = nil
	for began := w.now; w.now.Sub(began) < s.lasts; {
		s.each(w, w.now.Sub(began))
		tick()
		for _, n := range w.nodes {
			if _, inDispute := BootOf(n.taint); n.tainted && !inDispute && !fenced[n.name+n.taint] {
				fenced[n.name], fenced[n.name+n.taint] = true, true
				if out.last = w.now.Sub(began); out.first == 0 {
					out.first = out.last
				}
			}
		}
	}
	for _, n := range w.nodes {
		if fenced[n.name] {
			out.fenced++
		}
		if n.note == n.boot {
			out.noted++
		}
	}
	out.deleted, out.running = w.deleted, w.alive()
	return w, out
}

// alive returns the number of ordinals that run.
func (w *world) alive() int {
	n := 0
	for o := range w.ordinals {
		if slices.ContainsFunc(w.running, func(c *container) bool { return c.ordinal == o }) {
			n++
		}
	}
	return n
}

// The storms of docs/measurements/cluster.md: what is fenced, what is not, and what people are told. The rows there
// must match these results. STORM_TABLE=FILE writes them.
func TestStorms(t *testing.T) {
	var table strings.Builder
	table.WriteString("| what happens | fenced | s: first, last taint | pods deleted | in dispute | run at the end | reported |\n|---|---|---|---|---|---|---|\n")
	for _, s := range tempests() {
		w, got := s.blow(t)
		if len(w.problems) > 0 {
			t.Errorf("%s: %s\n%s", s.name, w.problems[0], strings.Join(w.trace, "\n"))
		}
		if got.fenced != s.fenced || got.noted != s.noted {
			t.Errorf("%s: %d fenced, %d in dispute, want %d and %d\n%s", s.name, got.fenced, got.noted, s.fenced, s.noted, strings.Join(w.trace, "\n"))
		}
		if s.clean && (got.running != w.ordinals || slices.ContainsFunc(w.nodes, func(n *simNode) bool { return n.tainted })) {
			t.Errorf("%s: %d of %d run at the end", s.name, got.running, w.ordinals)
		}
		times := ""
		if got.fenced > 0 {
			times = fmt.Sprintf("%.0f, %.0f", got.first.Seconds(), got.last.Seconds())
		}
		said := "nothing"
		if len(got.said) > 0 {
			said = "`" + strings.Join(got.said, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| %s | %d | %s | %d | %d | %d of %d | %s |\n", s.name, got.fenced, times, got.deleted, got.noted, got.running, w.ordinals, said)
	}
	t.Log("\n" + table.String())
	page, err := os.ReadFile("../../docs/measurements/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(table.String()) {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/measurements/cluster.md lacks this row: STORM_TABLE=FILE writes them all\n%s", row)
		}
	}
	if path := os.Getenv("STORM_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

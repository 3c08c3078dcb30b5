package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// deaths need a separate cluster, whose nodes have watchdogs that reset them. The watchdog of User-mode Linux is the
// kernel's softdog. In namespaces it is simulated: these nodes die only for comparison, if they are asked for by name.
var deaths = []struct {
	name    string
	victims []string
	fault   func(t *testing.T, d *died)
	// resets reports whether the watchdog strikes while the fault lasts.
	resets bool
}{
	{"dies_cut_off", []string{"node-4"}, func(t *testing.T, d *died) { do(t, d.Cut("node-4")) }, true},
	{"dies_by_order", []string{"node-4"}, func(t *testing.T, d *died) { d.order(t, "node-1", "node-4") }, true},
	{"dies_in_a_split", []string{"node-3", "node-4"}, func(t *testing.T, d *died) { do(t, d.Split("node-3", "node-4")) }, true},
	{"dies_without_lun", []string{"node-3", "node-4"}, func(t *testing.T, d *died) {
		do(t, errors.Join(d.LoseLUN("node-3"), d.LoseLUN("node-4"), d.Split("node-3", "node-4")))
	}, true},
	{"dies_without_power", []string{"node-4"}, func(t *testing.T, d *died) { do(t, d.PowerOff("node-4")) }, false},
	{"dies_frozen", []string{"node-4"}, func(t *testing.T, d *died) { do(t, d.Freeze("node-4")) }, false},
}

// died is a cluster, and what is observed of a death in it.
type died struct {
	*cluster.Cluster
	victims, others []string
	before          map[string]int // resets
	at              time.Time      // when the fault happened
}

func TestDeaths(t *testing.T) {
	var c *cluster.Cluster
	for _, s := range deaths {
		t.Run(s.name, func(t *testing.T) {
			if c == nil {
				c = startGuarded(t)
			}
			d := &died{Cluster: c, victims: s.victims, before: map[string]int{}}
			defer func() {
				if t.Failed() {
					text, err := c.Command(context.Background(), []string{"status"})
					t.Logf("the agents say (%v)\n%s", err, text)
				}
			}()
			for _, name := range c.Names() {
				d.before[name] = len(c.Resets(name))
				if !slices.Contains(s.victims, name) {
					d.others = append(d.others, name)
				}
			}
			await(t, c, "all nodes are Ready and guarded", cluster.NodesReady(c.Names()...), cluster.GroupWhole(c.Names()...), armed(c.Names()))
			ids := containers(look(t, c), d.others)
			d.at = time.Now()
			s.fault(t, d)
			row := d.dies(t, s.resets)
			for id, was := range ids {
				if got := containers(look(t, c), []string{id})[id]; got != was {
					t.Errorf("the agent's container on %s is another one", id)
				}
			}
			t.Logf("%s | %s", s.name, row)
		})
	}
	if c != nil {
		do(t, c.Close())
	}
}

func startGuarded(t *testing.T) *cluster.Cluster {
	t.Helper()
	if inside == nil {
		t.Skipf("set %s=1 as root to have nodes die in a real cluster (make test-cluster)", enableEnv)
	}
	if shared != nil { // the cluster of the other scenarios
		do(t, shared.Close())
		shared = nil
	}
	programs, err := cluster.ProgramsIn(root)
	do(t, err)
	if !kind(t, programs).OwnKernel() && !strings.Contains(flag.Lookup("test.run").Value.String(), "dies_") {
		t.Skip("needs nodes whose own kernel resets them, run make test-cluster KIND=uml; on nodes of namespaces, whose watchdog is simulated, deaths are tried if asked for by name: RUN='^dies_'")
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Nodes: 4, Programs: programs, Room: inside, Kind: kind(t, programs), Manifest: cluster.ManifestIn(root), Guarded: true, Say: t.Logf,
	})
	do(t, err)
	if err := c.Install(t.Context()); err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	return c
}

// order makes a user in the agent's pod on one node order another node to end, and checks the final answer. Root of the
// node may not do this, because it is in another PID namespace than the agent.
func (d *died) order(t *testing.T, by, victim string) {
	t.Helper()
	if out, err := d.Run(t.Context(), by, d.Fencectl(), "fence", victim, socketArg); err == nil || !strings.Contains(err.Error()+out, "root in another container") {
		t.Fatalf("from outside of the pod: %v\n%s", err, out)
	}
	pod := look(t, d.Cluster).AgentPod(by).Name
	type answer struct {
		out string
		err error
		at  time.Time
	}
	got := make(chan answer, 1)
	d.at = time.Now()
	go func() {
		out, err := d.Plane.Kubectl(t.Context(), "", "-n", cluster.Space, "exec", pod, "--", "fencectl", "fence", victim, "--reason=a scenario", "--wait", "-o=json")
		got <- answer{out, err, time.Now()}
	}()
	t.Cleanup(func() {
		a := <-got
		t.Logf("fencectl fence --wait on %s, after %.1f s: %v\n%s", by, a.at.Sub(d.at).Seconds(), a.err, a.out)
		if a.err != nil || !strings.Contains(a.out, `"proof": "sentence"`) {
			t.Errorf("fencectl fence --wait does not say that it is by sentence: %v", a.err)
		}
		text, err := d.Plane.Kubectl(context.Background(), "", "-n", cluster.Space, "logs", pod)
		for l := range strings.Lines(text) {
			if strings.Contains(l, "ordered") {
				t.Logf("the agent of %s says %s", by, l)
			}
		}
		do(t, err)
	})
}

// dies waits for the expected death of the victims, and for their return. It returns a line of the table.
func (d *died) dies(t *testing.T, resets bool) string {
	t.Helper()
	type told struct {
		by, of string
		at     time.Time
		err    error
	}
	// It follows the claims until a node has come back.
	var claims forecasts
	ctx, stop := context.WithCancel(t.Context())
	defer claims.tell(t, d)
	defer stop()
	go claims.follow(ctx, d)
	all := make(chan told)
	for _, by := range d.others {
		for _, of := range d.victims {
			go func() {
				err := d.waitFenced(t.Context(), by, of)
				all <- told{by, of, time.Now(), err}
			}()
		}
	}
	var reset, fenced []time.Time
	if resets {
		for _, name := range d.victims {
			until(t, name+" is reset by its watchdog", limit, func() bool { return len(d.Resets(name)) > d.before[name] })
			reset = append(reset, d.Resets(name)[d.before[name]])
		}
	}
	for range len(d.others) * len(d.victims) {
		w := <-all
		if w.err != nil {
			t.Fatalf("%s, of %s: %v", w.by, w.of, w.err)
		}
		fenced = append(fenced, w.at)
	}
	stop()
	slices.SortFunc(reset, time.Time.Compare)
	slices.SortFunc(fenced, time.Time.Compare)
	if resets && fenced[0].Before(reset[len(reset)-1]) && len(d.victims) == 1 {
		t.Errorf("BROKEN: FENCED %v before the reset", reset[len(reset)-1].Sub(fenced[0]))
	}
	thawed := d.thaw(t, resets)
	for _, name := range d.others {
		if n := len(d.Resets(name)); n != d.before[name] {
			t.Errorf("BROKEN: %s was reset, and it is not a victim", name)
		}
	}
	back := time.Now()
	do(t, d.Settle(t.Context(), limit))
	return fmt.Sprintf("reset after %s | FENCED after %s | as at the beginning %.1f s after their boot%s", d.since(reset), d.since(fenced), time.Since(back).Seconds(), thawed)
}

// thaw lets a frozen node continue: it must be reset then.
func (d *died) thaw(t *testing.T, reset bool) string {
	t.Helper()
	name := d.victims[0]
	if reset || d.Thaw(name) != nil { // it has no power
		return ""
	}
	began := time.Now()
	until(t, name+" is reset when it continues", limit, func() bool { return len(d.Resets(name)) > d.before[name] })
	return fmt.Sprintf("; reset %.2f s after it continued", time.Since(began).Seconds())
}

// since prints the first and the last of some times, counted from the fault.
func (d *died) since(times []time.Time) string {
	if len(times) == 0 {
		return "-"
	}
	first, last := times[0].Sub(d.at).Seconds(), times[len(times)-1].Sub(d.at).Seconds()
	if len(times) == 1 {
		return fmt.Sprintf("%.1f s", first)
	}
	return fmt.Sprintf("%.1f to %.1f s", first, last)
}

// waitFenced returns when the agent of a node reports another one as FENCED. It waits in the same way as a script
// would.
func (d *died) waitFenced(ctx context.Context, by, of string) error {
	end := time.Now().Add(2 * limit)
	for {
		out, err := d.Run(ctx, by, d.Fencectl(), "wait", socketArg, "--fenced", of, "--timeout=60s")
		if err == nil {
			return nil
		}
		// The exit code is 3 if the node was not fenced within the timeout.
		if time.Now().After(end) || !strings.Contains(err.Error(), "exit code 3") {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
}

package grouppolicy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func spec(group, mode, timeout, loss string) Spec {
	s := Spec{Group: group, Mode: mode, OnQuorumLoss: loss}
	s.Watchdog.Timeout = timeout
	return s
}

func TestSpecsAreRead(t *testing.T) {
	for _, c := range []struct {
		spec     Spec
		want     Policy
		problems string
	}{
		{spec("", "", "", ""), Policy{}, ""},
		{spec("", Watchdog, "10s", "fence"), Policy{Watchdog, 10 * time.Second, "fence"}, ""},
		{spec("", Notify, "1h", "wait"), Policy{Notify, time.Hour, "wait"}, ""},
		{spec("", "watchdog", "1s", "reboot"), Policy{}, `mode: "watchdog" is not possible; allowed: Watchdog, Notify` +
			`|onQuorumLoss: "reboot" is not possible; allowed: fence, exclude, wait` +
			`|watchdog.timeout: "1s" is not possible; allowed: whole seconds from 2s to 1h0m0s, with a unit`},
		{spec("", "", "2500ms", "exclude"), Policy{OnQuorumLoss: "exclude"}, `watchdog.timeout: "2500ms" is not possible; allowed: whole seconds from 2s to 1h0m0s, with a unit`},
		{spec("", "", "60", ""), Policy{}, `watchdog.timeout: "60" is not possible; allowed: whole seconds from 2s to 1h0m0s, with a unit`},
		{spec("", "", "3h", ""), Policy{}, `watchdog.timeout: "3h" is not possible; allowed: whole seconds from 2s to 1h0m0s, with a unit`},
	} {
		p, problems := c.spec.Policy()
		if p != c.want || strings.Join(problems, "|") != c.problems {
			t.Errorf("%+v: %+v, %q", c.spec, p, problems)
		}
	}
}

func TestPoliciesAreResolved(t *testing.T) {
	groups := []Object{
		{Name: "b", Spec: spec("g", Notify, "", "")}, {Name: "a", Spec: spec("g", Watchdog, "", "fence")}, {Name: "c", Spec: spec("", "", "", "")}, {Name: "d", Spec: spec("", "off", "", "")},
	}
	nodeGroups := []Object{{Name: "g", Spec: spec("", Notify, "60s", "")}, {Name: "e", Spec: spec("", Watchdog, "60s", "")}, {Name: "plain", Spec: Spec{}}, {Name: "f", Spec: spec("", "Sometimes", "", "")}, {Name: "d", Problem: "it is a list"}}
	wanted, idle := Resolve(groups, nodeGroups)
	want := map[string]Wanted{
		"g": {Policy{Watchdog, time.Minute, "fence"}, "a", []string{"mode: the NodeGroup says Notify; this object says Watchdog, which counts"}},
		"c": {Object: "c"},
		"d": {Object: "d", Problems: []string{`mode: "off" is not possible; allowed: Watchdog, Notify`, "NodeGroup: it is a list"}},
		"e": {Policy: Policy{Mode: Watchdog, Timeout: time.Minute}},
		"f": {Problems: []string{`NodeGroup: mode: "Sometimes" is not possible; allowed: Watchdog, Notify`}},
	}
	if !reflect.DeepEqual(wanted, want) {
		t.Errorf("%+v\nwant %+v", wanted, want)
	}
	if !reflect.DeepEqual(idle, map[string]string{"b": "a"}) {
		t.Error(idle)
	}
}

// Guard: each setting is compared, and what is not said, on either side, is no difference.
func TestEachSettingIsCompared(t *testing.T) {
	run := Policy{Watchdog, 10 * time.Second, "fence"}
	for _, c := range []struct {
		want, run Policy
		out       string
	}{
		{Policy{}, run, ""},
		{run, run, ""},
		{run, Policy{}, ""},
		{Policy{Mode: Notify}, run, "mode is Watchdog, the group's policy says Notify"},
		{Policy{Timeout: time.Minute}, run, "watchdog.timeout is 10s, the group's policy says 1m0s"},
		{Policy{OnQuorumLoss: "wait"}, run, "onQuorumLoss is fence, the group's policy says wait"},
		{Policy{Notify, time.Minute, "wait"}, run, "mode is Watchdog, the group's policy says Notify|onQuorumLoss is fence, the group's policy says wait"},
		{Policy{Watchdog, time.Minute, "fence"}, Policy{Notify, 10 * time.Second, "fence"}, "mode is Notify, the group's policy says Watchdog"},
		{Policy{OnQuorumLoss: strings.Repeat("\n", 1000)}, run, `onQuorumLoss is fence, the group's policy says "` + strings.Repeat(`\n`, mostText) + `"`},
	} {
		if out := strings.Join(Differ(c.want, c.run), "|"); out != c.out {
			t.Errorf("%+v, %+v: %s", c.want, c.run, out)
		}
	}
	if n := reflect.TypeFor[Policy]().NumField(); n != len(lines(run, run)) {
		t.Errorf("a policy has %d settings, of which %d are compared", n, len(lines(run, run)))
	}
}

func TestStatusOfAGroup(t *testing.T) {
	want := &Wanted{Policy: Policy{Mode: Watchdog, Timeout: 10 * time.Second}, Problems: []string{"a", "b"}}
	old := &Status{Agents: []Told{{Node: "n1", Mode: Watchdog, Timeout: "10s"}, {Node: "n3", Mode: Notify}, {Node: "gone"}, {Node: "n5", Mode: Watchdog}}}
	got := Merge(old, want, []string{"n1", "n2", "n3", "n4", "n5"}, Heard{"n2": {Watchdog, 20 * time.Second, "fence"}, "n5": nil, "stranger": {Mode: Watchdog}})
	n2 := []string{"watchdog.timeout is 20s, the group's policy says 10s"}
	n3 := []string{"mode is Notify, the group's policy says Watchdog"}
	expected := &Status{Nodes: 5, Agree: 1, Differ: 2, Unknown: 2, Problem: "a; b", Agents: []Told{
		{Node: "n1", Mode: Watchdog, Timeout: "10s"}, {Node: "n2", Mode: Watchdog, Timeout: "20s", OnQuorumLoss: "fence", Differs: n2}, {Node: "n3", Mode: Notify, Differs: n3},
	}}
	if !reflect.DeepEqual(got, expected) || !got.Equal(expected) || got.Equal(old) {
		t.Errorf("%+v\nwant %+v", got, expected)
	}
	if again := Merge(got, want, []string{"n1", "n2", "n3", "n4", "n5"}, nil); !again.Equal(got) {
		t.Errorf("another replica, which hears nobody, writes %+v", again)
	}
}

// Two replicas write one status, by compare-and-swap, while agents go from one to the other, are upgraded and come with other settings. When that ends,
// and dead streams have, the status says of each agent what it told last, and nobody writes any more.
func TestReplicasAgreeInTheEnd(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		policies := []*Policy{nil, {Watchdog, 10 * time.Second, "fence"}, {Watchdog, 20 * time.Second, "fence"}, {Notify, 0, "wait"}}
		want := &Wanted{Policy: *policies[1]}
		nodes := []string{"n1", "n2", "n3", "n4"}
		heard := []Heard{{}, {}} // by replica; dead streams, too
		read := []*Status{{}, {}}
		status, version := &Status{}, 0
		versions := []int{0, 0}
		at, runs := map[string]int{}, map[string]*Policy{}
		step := func(settled bool) (wrote bool) {
			i := r.IntN(2)
			if settled || r.IntN(2) == 0 {
				read[i], versions[i] = status, version
			}
			if next := Merge(read[i], want, nodes, heard[i]); !next.Equal(read[i]) && versions[i] == version {
				status, version, wrote = next, version+1, true
			}
			return wrote
		}
		for range 40 {
			if r.IntN(3) > 0 {
				step(false)
				continue
			}
			n := nodes[r.IntN(len(nodes))]
			at[n], runs[n] = r.IntN(2), policies[r.IntN(len(policies))]
			heard[at[n]][n] = runs[n]
		}
		for n, i := range at {
			delete(heard[1-i], n)
		}
		for range 20 {
			step(true)
		}
		for range 20 {
			if step(true) {
				t.Fatalf("seed %d: they go on writing", seed)
			}
		}
		for n, run := range runs {
			i := slices.IndexFunc(status.Agents, func(t Told) bool { return t.Node == n })
			switch {
			case run == nil && i >= 0, run != nil && i < 0:
				t.Fatalf("seed %d: %s runs %v; %+v", seed, n, run, status)
			case run != nil && (status.Agents[i].Mode != run.Mode || fmt.Sprint(status.Agents[i].policy()) != fmt.Sprint(*run) || (len(status.Agents[i].Differs) > 0) != (*run != *policies[1])):
				t.Fatalf("seed %d: %s runs %+v; %+v", seed, n, run, status.Agents[i])
			}
		}
		if status.Agree+status.Differ != len(status.Agents) || status.Nodes != status.Agree+status.Differ+status.Unknown {
			if len(runs) > 0 {
				t.Fatalf("seed %d: %+v", seed, status)
			}
		}
	}
}

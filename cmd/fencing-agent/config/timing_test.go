package config

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func TestTimingsFillWhatTheFileLeavesOut(t *testing.T) {
	c, _, err := Parse("f", []byte(with("timing: fast\nwatchdog: {timeout: 8s}")), environment("NODE_NAME", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Watchdog.Timeout != 8*time.Second || c.Gossip.Profile != netgossip.ProfileFast {
		t.Errorf("explicit keys do not win: %v, %v", c.Watchdog.Timeout, c.Gossip.Profile)
	}
	if c.Watchdog.FeedInterval != time.Second || c.LUN.IOTimeout != 500*time.Millisecond {
		t.Errorf("fast: feed %v, I/O timeout %v", c.Watchdog.FeedInterval, c.LUN.IOTimeout)
	}
}

// Guard: a user who only shortens watchdog.timeout, as tuning.md advises, gets a configuration that the agent accepts.
func TestAShortTimeoutAloneIsFedInTime(t *testing.T) {
	for _, c := range []struct {
		file string
		feed time.Duration
	}{
		{"watchdog: {timeout: 10s}", 2 * time.Second},
		{"watchdog: {timeout: 2s}", 400 * time.Millisecond},
		{"watchdog: {timeout: 11s}", 5 * time.Second}, // as before: the default fits
		{"timing: fast\nwatchdog: {timeout: 4s}", time.Second},
		{"timing: fast\nwatchdog: {timeout: 2s}", 400 * time.Millisecond},
		{"timing: careful\nwatchdog: {timeout: 10s}", 2 * time.Second},
		{"watchdog: {timeout: 10s}\nexperimental: {feedInterval: 4s}", 4 * time.Second},
	} {
		got, _, err := Parse("f", []byte(with(c.file)), environment("NODE_NAME", "n1"))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		} else if got.Watchdog.FeedInterval != c.feed {
			t.Errorf("%s: fed every %v, want %v", c.file, got.Watchdog.FeedInterval, c.feed)
		}
	}
}

// Each timing must be a configuration that the agent would accept, with and without a LUN, and each must be slower than
// the one before it.
func TestTimingsAreValidAndOrdered(t *testing.T) {
	last := time.Duration(0)
	for _, timing := range Timings() {
		r := newReport()
		c := ForTiming(timing, 4)
		c.LUN.Devices = []string{"/dev/mapper/fence"}
		checkLUN(c, r)
		checkWatchdog(c, r)
		for _, p := range r.problems {
			t.Errorf("%s: %v", timing, p)
		}
		if d := c.Budget(c.Watchdog.Timeout).Tie(); d <= last {
			t.Errorf("%s: %v, no more than the one before", timing, d)
		} else {
			last = d
		}
	}
	d := ForTiming(TimingDefault, 0)
	d.Members.Static = nil
	if got, want := *d, *Default(); !reflect.DeepEqual(got.Watchdog, want.Watchdog) || got.LUN.IOTimeout != want.LUN.IOTimeout || got.Gossip.Profile != want.Gossip.Profile {
		t.Error("the default timing is not the default")
	}
}

func TestOrderOfMaintenanceSignals(t *testing.T) {
	for first, want := range map[DisableSource][]DisableSource{DisableAny: nil, DisableFile: {DisableFile, DisableNode}, DisableNode: {DisableNode, DisableFile}} {
		c, _ := mustParse(t, with("watchdog: {disableFirst: "+string(first)+"}", "kubernetes: {kubeconfig: /k}"), noEnv)
		if got := c.Watchdog.DisableOrder(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", first, got)
		}
	}
	if _, warnings := mustParse(t, with("watchdog: {disableFirst: node}"), noEnv); len(warnings) != 1 || warnings[0].Path != "watchdog.disableFirst" {
		t.Errorf("without anybody who shows the Node: %v", warnings)
	}
}

// Each use of the Node includes the uses before it. A Node that is followed is a condition for arming.
func TestUseOfTheNode(t *testing.T) {
	var had [3]bool
	for i, use := range NodeUse("").values() {
		k := Kubernetes{Node: NodeUse(use)}
		has := [3]bool{k.Follows(), k.Reports(), k.Labels()}
		n := 0
		for j := range has {
			if has[j] {
				n++
			} else if had[j] {
				t.Errorf("%s: less than the one before it", use)
			}
		}
		if n != i {
			t.Errorf("%s: %v", use, has)
		}
		had = has
	}
	if !Default().Kubernetes.Reports() {
		t.Error("nothing is reported by default")
	}
}

// A check says that a first start needs founders. An agent of a running group needs none, and does not warn.
func TestAdviceOnFounders(t *testing.T) {
	for founders, want := range map[string]bool{"": true, ", founders: [n1, n2]": false} {
		r, err := Review("f", []byte(with("members: {source: controller, controller: {address: c:1"+founders+"}}")), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(r.Advice, func(p Problem) bool { return p.Path == "members.controller.founders" })
		if said != want || len(r.Warnings) > 0 {
			t.Errorf("%q: advice %v, warnings %v", founders, r.Advice, r.Warnings)
		}
	}
	expectProblems(t, []problemCase{{"a founder twice", with("members: {source: controller, controller: {address: c:1, founders: [n1, n2, n1]}}"),
		"members.controller.founders[2]: is listed twice, found n1; allowed: each node once"}})
	_, warnings := mustParse(t, with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}], controller: {founders: [n1]}}"), noEnv)
	if len(warnings) != 1 || warnings[0].String() != "members.controller.founders: has no effect: members.source is not controller, found [n1]" {
		t.Errorf("without the controller: %v", warnings)
	}
}

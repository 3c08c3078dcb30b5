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
// the one before it. A LUN makes none of them slower.
func TestTimingsAreValidAndOrdered(t *testing.T) {
	var last [2]time.Duration
	for _, timing := range Timings() {
		for i, lun := range []bool{true, false} {
			r := newReport()
			c := ForTiming(timing, 4, lun)
			checkLUN(c, r)
			checkWatchdog(c, r)
			for _, p := range slices.Concat(r.problems, r.warnings) {
				t.Errorf("%s, LUN %v: %v", timing, lun, p)
			}
			d := c.Budget(c.Watchdog.Timeout).Tie()
			if d <= last[i] {
				t.Errorf("%s, LUN %v: %v, no more than the one before", timing, lun, d)
			}
			last[i] = d
		}
		if last[0] > last[1] {
			t.Errorf("%s: %v with a LUN, %v without", timing, last[0], last[1])
		}
	}
	d := ForTiming(TimingDefault, 0, false)
	d.Members.Static = nil
	if got, want := *d, *Default(); !reflect.DeepEqual(got.Watchdog, want.Watchdog) || got.LUN.IOTimeout != want.LUN.IOTimeout || got.Gossip.Profile != want.Gossip.Profile {
		t.Error("the default timing is not the default")
	}
}

// The sums are those of docs/adr/0024: what a crash costs, and what a host may stand still for.
func TestTimesOfAPreset(t *testing.T) {
	for _, c := range []struct {
		timing             Timing
		lun                bool
		timeout, feed, sum time.Duration
	}{
		{TimingFast, true, 4 * time.Second, 500 * time.Millisecond, 14 * time.Second},
		{TimingFast, false, 5 * time.Second, time.Second, 16500 * time.Millisecond},
		{TimingDefault, true, 10 * time.Second, time.Second, 36 * time.Second},
		{TimingDefault, false, 30 * time.Second, 5 * time.Second, 80 * time.Second},
		{TimingCareful, true, 30 * time.Second, 5 * time.Second, 97 * time.Second},
		{TimingCareful, false, 30 * time.Second, 5 * time.Second, 97 * time.Second},
		{TimingWAN, true, 10 * time.Second, time.Second, 40 * time.Second},
		{TimingADR, true, 10 * time.Second, time.Second, 36 * time.Second},
	} {
		got := ForTiming(c.timing, 4, c.lun)
		if w := got.Watchdog; w.Timeout != c.timeout || w.FeedInterval != c.feed || got.Budget(w.Timeout).Horizon() != c.sum {
			t.Errorf("%s, LUN %v: W %v, F %v, dead after %v", c.timing, c.lun, w.Timeout, w.FeedInterval, got.Budget(w.Timeout).Horizon())
		}
	}
}

// Guard: a group keeps the longer timeout if a node of it may starve for long and live: there the timeout decides which
// outages the group survives.
func TestOnlyAGroupThatTheLUNRulesIsFedForLess(t *testing.T) {
	const lun = "lun: {devices: [/dev/mapper/fence]}"
	for _, c := range []struct {
		what    string
		keys    []string
		timeout time.Duration
	}{
		{"no LUN", nil, 30 * time.Second},
		{"a LUN", []string{lun}, 10 * time.Second},
		{"three devices", []string{"lun: {devices: [/dev/a, /dev/b, /dev/c]}"}, 10 * time.Second},
		{"a LUN of another name on this node", []string{lun, "nodeDevices: [{node: n1, lun: [/dev/mapper/other]}]"}, 10 * time.Second},
		{"the LUN as a network", []string{"lun: {devices: [/dev/mapper/fence], mode: or}"}, 10 * time.Second},
		{"a LUN that a node must have", []string{"lun: {devices: [/dev/mapper/fence], mode: and}"}, 30 * time.Second},
		{"no hold", []string{"lun: {devices: [/dev/mapper/fence], hold: false}"}, 30 * time.Second},
		{"no sentences", []string{lun, "watchdog: {selfFence: none}"}, 30 * time.Second},
		{"no reset", []string{lun, "onQuorumLoss: wait"}, 30 * time.Second},
		{"nothing decides a split", []string{lun, "quorum: {tieBreak: none}"}, 30 * time.Second},
		{"the API server decides a split", []string{lun, "quorum: {tieBreak: kubernetes}", "kubernetes: {kubeconfig: /k}"}, 30 * time.Second},
		{"the API server where the LUN cannot", []string{lun, "quorum: {tieBreak: lun-then-kubernetes}", "kubernetes: {kubeconfig: /k}"}, 10 * time.Second},
		{"a Lease decides a split", []string{"quorum: {tieBreak: lease}", "kubernetes: {kubeconfig: /k}"}, 30 * time.Second},
		{"a dry run", []string{lun, "watchdog: {driver: none}"}, 10 * time.Second},
		{"a file that says it", []string{lun, "watchdog: {timeout: 60s}"}, time.Minute},
		{"a careful group", []string{lun, "timing: careful"}, 30 * time.Second},
	} {
		got, _ := mustParse(t, with(c.keys...), environment("NODE_NAME", "n1"))
		if got.Watchdog.Timeout != c.timeout {
			t.Errorf("%s: watchdog.timeout %v, want %v", c.what, got.Watchdog.Timeout, c.timeout)
		}
	}
}

// What a cut costs is the time by which the others know of the sentence, and nothing where there will be none.
func TestAnnounced(t *testing.T) {
	const lun = "lun: {devices: [/dev/mapper/fence]}"
	for _, c := range []struct {
		what string
		keys []string
		want time.Duration
	}{
		{"default", []string{lun}, 13200 * time.Millisecond},
		{"fast", []string{lun, "timing: fast"}, 6750 * time.Millisecond},
		{"careful", []string{lun, "timing: careful"}, 23 * time.Second},
		{"a dry run", []string{lun, "watchdog: {driver: none}"}, 13200 * time.Millisecond},
		{"a driver that counts even seconds", []string{lun, "watchdog: {device: 'identity:IB700 WDT'}"}, 15200 * time.Millisecond},
		{"a driver that cannot count so little", []string{lun, "watchdog: {device: 'identity:iTCO_wdt'}"}, 0},
		{"no LUN", nil, 0},
		{"no hold", []string{"lun: {devices: [/dev/mapper/fence], hold: false}"}, 0},
		{"no self-fence", []string{lun, "watchdog: {selfFence: none}"}, 0},
		{"a timeout that looks like a sentence", []string{lun, "watchdog: {timeout: 3s}"}, 0},
	} {
		got, _ := mustParse(t, with(c.keys...), environment("NODE_NAME", "n1"))
		if got.Announced() != c.want {
			t.Errorf("%s: %v, want %v", c.what, got.Announced(), c.want)
		}
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

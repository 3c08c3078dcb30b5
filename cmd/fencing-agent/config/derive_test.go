package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// The example shows the timetable of a node that is lost, with the defaults and a driver that accepted the requested
// watchdog timeout.
func ExampleConfig_Budget() {
	c := Default()
	w := c.Watchdog.Timeout
	fmt.Println("D_max   evidence is too old         ", c.EvidenceMaxAge())
	fmt.Println("A       arbitration budget          ", c.ArbitrationBudget())
	fmt.Println("        of it: preference delay     ", c.PreferenceDelay())
	fmt.Println("               rank stagger         ", c.RankStagger())
	fmt.Println("               ballot and one retry ", c.BallotBudget())
	fmt.Println("G       grant lifetime              ", c.GrantLifetime())
	fmt.Println("F + W   last feeding, watchdog      ", c.Watchdog.FeedInterval+w)
	fmt.Println("R       agent killed while starved  ", c.Budget(w).Release)
	fmt.Println("T_expire                            ", c.GrantExpiry(w))
	fmt.Println("T_dead  against a majority          ", c.Budget(w).Majority())
	fmt.Println("T_dead  after an equal split        ", c.Budget(w).Tie())
	// Output:
	// D_max   evidence is too old          4s
	// A       arbitration budget           10s
	//         of it: preference delay      2s
	//                rank stagger          1s
	//                ballot and one retry  4.7s
	// G       grant lifetime               10s
	// F + W   last feeding, watchdog       35s
	// R       agent killed while starved   30s
	// T_expire                             46s
	// T_dead  against a majority           1m10s
	// T_dead  after an equal split         1m20s
}

func TestTieBudgetCountsTheLongerOfArbitrationAndGrant(t *testing.T) {
	c := Default()
	age := 2 * time.Minute
	c.Experimental.Gossip.EvidenceMaxAge = &age
	if got := c.GrantLifetime(); got != age {
		t.Errorf("G = %v: shorter than the evidence it rests on", got)
	}
	if got, want := c.Budget(30*time.Second).Tie(), age+c.ArbitrationBudget()+66*time.Second; got != want {
		t.Errorf("Budget.Tie = %v, want %v", got, want)
	}
}

func TestParams(t *testing.T) {
	c := Default()
	c.Members.Static = make([]Member, 50)
	if got, want := c.Params(), netgossip.Tune(50); got != want {
		t.Errorf("auto: got %+v, want %+v", got, want)
	}
	if got, want := c.ParamsFor(100), netgossip.Tune(100); got != want {
		t.Errorf("another roster: got %+v, want %+v", got, want)
	}
	for _, p := range netgossip.Profiles() {
		c.Gossip.Profile = p
		if got, want := c.Params(), p.Params(50); got != want {
			t.Errorf("%s: got %+v, want %+v", p, got, want)
		}
		if !slices.ContainsFunc(Timing("").values(), func(t string) bool { return Timing(t).profile() == p }) {
			t.Errorf("%s is that of no timing", p)
		}
	}
}

// TestOverridesReachEveryParameter sets each override to a different value and looks for it in the parameter of the
// same name.
func TestOverridesReachEveryParameter(t *testing.T) {
	var o Overrides
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		p := reflect.New(v.Field(i).Type().Elem())
		p.Elem().SetInt(int64(1000 + i))
		v.Field(i).Set(p)
	}
	var params netgossip.Params
	o.Apply(&params)
	got := reflect.ValueOf(params)
	if got.NumField() != v.NumField() {
		t.Errorf("%d parameters, %d overrides", got.NumField(), v.NumField())
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if f := got.FieldByName(name); !f.IsValid() || f.Int() != int64(1000+i) {
			t.Errorf("override %s did not reach the parameter: %v", name, f)
		}
	}
	before := netgossip.Tune(10)
	after := before
	new(Overrides).Apply(&after)
	if after != before {
		t.Errorf("no overrides changed %+v to %+v", before, after)
	}
}

// TestTunedParamsPassTheChecks guards against a profile that its own checks refuse.
func TestTunedParamsPassTheChecks(t *testing.T) {
	for _, p := range netgossip.Profiles() {
		for _, n := range []int{1, 2, 3, 4, 10, 11, 20, 50, 99, 100, 300, 500, roster.MaxNodes} {
			c, r := Default(), newReport()
			c.Gossip.Profile = p
			c.Members.Static = make([]Member, n)
			checkGossip(c, r)
			checkLUN(c, r)
			checkWatchdog(c, r)
			if len(r.problems)+len(r.warnings) > 0 {
				t.Errorf("%s, n = %d: %v %v", p, n, r.problems, r.warnings)
			}
		}
	}
}

func TestTieBreakers(t *testing.T) {
	tests := []struct {
		name, file string
		env        []string
		want       []Breaker
	}{
		{"nothing there", with(), nil, nil},
		{"in-cluster", with(), []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"}, []Breaker{"kubernetes"}},
		{"kubeconfig", with("kubernetes: {kubeconfig: /k}"), nil, []Breaker{"kubernetes"}},
		{"device", with("lun: {devices: [/dev/sda]}"), nil, []Breaker{"lun"}},
		{"both", with("lun: {devices: [/dev/sda]}", "kubernetes: {kubeconfig: /k}"), nil, []Breaker{"kubernetes", "lun"}},
		{"both, by name", with("lun: {devices: [/dev/sda]}", "kubernetes: {kubeconfig: /k}", "quorum: {tieBreak: lun-then-kubernetes}"), nil, []Breaker{"kubernetes", "lun"}},
		{"not wanted", with("lun: {devices: [/dev/sda]}", "kubernetes: {kubeconfig: /k}", "quorum: {tieBreak: none}"), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := mustParse(t, tt.file, environment(tt.env...))
			if got := c.TieBreakers(); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGossipLabelFits(t *testing.T) {
	long := strings.Repeat("x", 63)
	c, _ := mustParse(t, with("cluster: "+long, "nodeGroup: "+long, network("name: "+long+", at: e"),
		"members: {static: [{name: n1, addresses: {"+long+": 10.0.0.1}}]}"), noEnv)
	if label := c.GossipLabel(c.SystemNetworks[0].Name); len(label) > 200 {
		t.Errorf("the longest label has %d bytes", len(label))
	}
	if got := Default().GossipLabel("mgmt"); got != "default//mgmt" {
		t.Errorf("got %q", got)
	}
}

func TestStaticMembersMakeARoster(t *testing.T) {
	c, _ := mustParse(t, with(), noEnv)
	r, err := roster.New(1, c.StaticMembers(), c.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	if r.Size() != 3 || r.Name(r.Self) != "n1" || r.Members[1].Addresses["mgmt"] != "10.0.0.2" {
		t.Errorf("roster %+v", r)
	}
}

func TestPolicy(t *testing.T) {
	for text, want := range map[string]netgossip.Policy{
		"any": netgossip.Any(), "all": netgossip.All(), "{atLeast: 1}": netgossip.AtLeast(1),
	} {
		c, _ := mustParse(t, with("reachability: "+text), noEnv)
		if got := c.Reachability.Policy(); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
		if got := c.Reachability.String(); got != text {
			t.Errorf("%s prints as %s", text, got)
		}
	}
}

// TestEffectiveConfiguration compares the output with golden files. full.yaml sets every key, so the test also shows
// that every key can be read and printed.
func TestEffectiveConfiguration(t *testing.T) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, file string }{{"minimal", with()}, {"full", string(full)}} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := mustParse(t, tt.file, noEnv)
			text, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+tt.name+".golden.yaml", text)
			again, _ := mustParse(t, string(text), noEnv)
			if !reflect.DeepEqual(again, c) {
				t.Errorf("read again: %+v\nwant %+v", again, c)
			}

			asJSON, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var fromYAML, fromJSON any
			if err := yaml.Unmarshal(text, &fromYAML); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(asJSON, &fromJSON); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(asJSON) || !reflect.DeepEqual(fromYAML, fromJSON) {
				t.Errorf("JSON differs from YAML: %s", asJSON)
			}
		})
	}
}

// TestFullSetsEveryKey checks that full.yaml is complete.
func TestFullSetsEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := newReport()
	r.decodeFile(data, Default())
	given := make(map[string]bool)
	for path := range r.lines {
		given[indices.ReplaceAllString(path, "[]")] = true
	}
	for _, k := range Keys() {
		if !given[k] {
			t.Errorf("full.yaml does not set %s", k)
		}
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run with -rewrite if that is meant. Got:\n%s", path, got)
	}
}

// Guard: sums use the latest time at which the watchdog fires, according to what is known or configured for its driver.
func TestSumsOfALateDriver(t *testing.T) {
	for _, tc := range []struct {
		device, identity string
		want             time.Duration
	}{
		{"/dev/watchdog", "", 30 * time.Second},
		{"/dev/watchdog", "Software Watchdog", 30 * time.Second},
		{"/dev/watchdog", "iTCO_wdt", time.Minute},
		{"identity:iTCO_wdt", "", time.Minute},
	} {
		c := Default()
		c.Watchdog.Device, c.WatchdogDriver.Identity = tc.device, tc.identity
		if got := c.LatestReset(); got != tc.want {
			t.Errorf("%s, %s: fires by %v, want %v", tc.device, tc.identity, got, tc.want)
		}
		if c.LeaseExpiry(4) < LeaseTerm+c.BudgetFor(c.LatestReset(), 4).Horizon() {
			t.Errorf("%s, %s: the Lease expires after %v", tc.device, tc.identity, c.LeaseExpiry(4))
		}
	}
}

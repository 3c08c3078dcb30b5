package members

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

func policy(mode string, timeout time.Duration, loss string) *fencingv1.MembersUpdate {
	return &fencingv1.MembersUpdate{Policy: policyMessage(grouppolicy.Policy{Mode: mode, Timeout: timeout, OnQuorumLoss: loss})}
}

// What differs is shown until it does not; a stream that shows no policy, as an older controller's, shows that there is none.
func TestPolicyIsCompared(t *testing.T) {
	f := newFollower(t)
	m := &Members{controller: f.controllerSource}
	if d := m.PolicyDiffers(); d != nil {
		t.Error(d)
	}
	f.told(policy("Watchdog", f.cfg.Watchdog.Timeout, "fence"))
	if d := m.PolicyDiffers(); len(d) != 0 || f.log.Len() != 0 {
		t.Error(d, f.log.String())
	}
	f.told(policy("Notify", 0, "wait"))
	want := []string{"mode is Watchdog, the group's policy says Notify", "onQuorumLoss is fence, the group's policy says wait"}
	if d := m.PolicyDiffers(); !reflect.DeepEqual(d, want) || !strings.Contains(f.log.String(), "the group's policy says wait") {
		t.Error(d, f.log.String())
	}
	f.told(&fencingv1.MembersUpdate{}) // a sign of life
	if d := m.PolicyDiffers(); !reflect.DeepEqual(d, want) {
		t.Error(d)
	}
	f.now = f.now.Add(controllerLines)
	f.policed(nil)
	if d := m.PolicyDiffers(); len(d) != 0 || !strings.Contains(f.log.String(), "no policy of the group any more") {
		t.Error(d, f.log.String())
	}
	if d := (&Members{}).PolicyDiffers(); d != nil {
		t.Error(d)
	}
}

// Guard: a controller may show any policy at any time. The agent's configuration, what it says it runs with, its lists and what it knows of its Node
// stay what they were; the log stays short, and the latest policy is what is shown.
func TestNothingOfAPolicyIsTakenUp(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	f := newFollower(t)
	f.metrics = newControllerMetrics(prometheus.NewRegistry())
	before, err := f.cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	report := f.report()
	for range 2000 {
		f.told(policy(pick("", "Watchdog", "Notify", "Off", strings.Repeat("\n", 5000)), time.Duration(r.Int64N(1<<45)-1<<44), pick("", "fence", "exclude", "wait", "never")))
	}
	after, err := f.cfg.YAML()
	if err != nil || string(before) != string(after) {
		t.Errorf("seed %d: the configuration is another one: %v\n%s", seed, err, after)
	}
	if !proto.Equal(report, f.report()) {
		t.Errorf("seed %d: it says %v, and said %v", seed, f.report(), report)
	}
	if len(f.lists) != 0 || len(f.states) != 0 || f.offer != nil {
		t.Errorf("seed %d: %+v, %+v", seed, f.lists, f.states)
	}
	if n := strings.Count(f.log.String(), "\n"); n > 1 || f.log.Len() > 1000 {
		t.Errorf("seed %d: %d lines:\n%s", seed, n, f.log.String())
	}
	f.told(policy("Notify", 0, ""))
	f.now = f.now.Add(controllerLines)
	f.tick(func(string) {}, f.found)
	if d := *f.differs.Load(); len(d) != 1 || !strings.HasSuffix(strings.TrimSpace(f.log.String()), `differs="mode is Watchdog, the group's policy says Notify"`) {
		t.Errorf("seed %d: %q\n%s", seed, d, f.log.String())
	}
}

// What an agent runs with is in the words of the policy, and no setting is left out.
func TestRuns(t *testing.T) {
	c := config.Default()
	if p := runs(c); p != (grouppolicy.Policy{Mode: "Watchdog", Timeout: c.Watchdog.Timeout, OnQuorumLoss: "fence"}) {
		t.Errorf("%+v", p)
	}
	c.Watchdog.Driver, c.OnQuorumLoss = config.DriverNone, config.LossWait
	if p := runs(c); p.Mode != "Notify" || p.OnQuorumLoss != "wait" {
		t.Errorf("%+v", p)
	}
}

package kube

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// outageEnv names the variable with the length of each kind of outage, such as 10m.
	outageEnv = "FENCING_OUTAGE"
	// shortOutage is longer than evidence lasts, which is what matters.
	shortOutage = 8 * time.Second
)

// Whole agents use the role and the tokens of the manifests. The test checks what they request, that no outage of the
// API changes a verdict, and that maintenance reaches them.
func TestAgentsOnTheRealServer(t *testing.T) {
	a := startAgents(t, checkOften)
	a.settled(t, 3)
	var consumers []*consumer
	for _, r := range a.group {
		consumers = append(consumers, a.listen(t, r))
	}
	t.Run("steady state", func(t *testing.T) { a.steady(t, 5*a.check) })
	fault := func(f controlplane.Fault) func() error {
		return func() error {
			a.proxy.Fault(f)
			a.proxy.Cut() // including the watches
			return nil
		}
	}
	network := func(f func()) func() error {
		return func() error {
			f()
			return nil
		}
	}
	for _, o := range []struct {
		name  string
		begin func() error
	}{
		{"no bytes", network(a.proxy.Freeze)},
		{"refused", network(a.proxy.Refuse)},
		{"30 s late", fault(controlplane.Delay(30 * time.Second))},
		{"errors", fault(controlplane.Answer(http.StatusInternalServerError, ""))},
		{"throttled", fault(controlplane.Answer(http.StatusTooManyRequests, "1"))},
		{"lost replies", fault(controlplane.LoseReplies(func(*http.Request) bool { return true }))},
		{"the server stands still", a.plane.FreezeServer},
		{"its etcd stands still", a.plane.FreezeEtcd},
		{"crashed", a.plane.KillServer},
	} {
		t.Run(o.name, func(t *testing.T) {
			a.unmoved(t, o.begin)
			for _, c := range consumers {
				c.calm(t)
			}
		})
		a.proxy.Fault(nil)
		a.proxy.Thaw()
		if err := errors.Join(a.plane.ThawServer(), a.plane.ThawEtcd()); err != nil {
			t.Fatal(err)
		}
		serverUp(t, a.plane)
	}
	ill := a.group[1]
	if err := patchNode(a.admin, ill.node, annotate(disable, true)); err != nil {
		t.Fatal(err)
	}
	ill.becomes(t, "REASON_MAINTENANCE", 3)
	a.group[0].becomes(t, "REASON_NETWORK_QUORUM", 3)
	if err := patchNode(a.admin, ill.node, annotate(disable, false)); err != nil {
		t.Fatal(err)
	}
	a.settled(t, 3)
}

// unmoved begins an outage and checks all verdicts while it lasts.
func (a *agents) unmoved(t *testing.T, begin func() error) {
	limit := shortOutage
	if text := os.Getenv(outageEnv); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	before := a.verdicts(t)
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for ; time.Since(began) < limit && !t.Failed(); <-pause.C {
		a.compare(t, before)
	}
}

// An agent's file preserves what it has seen of the members and of its Node. Agents that crash, and start while the
// server is away, find their group and arm, or stay disarmed, as before.
func TestAgentsStartWithoutTheServer(t *testing.T) {
	a := startAgents(t, checkOften)
	a.settled(t, 3)
	ill := a.group[2]
	if err := patchNode(a.admin, ill.node, annotate(disable, true)); err != nil {
		t.Fatal(err)
	}
	disarmed := func(s agentStatus) bool {
		return s.Verdict.Reason == "REASON_MAINTENANCE" && s.Watchdog.State == "WATCHDOG_STATE_DISARMED"
	}
	ill.shows(t, "maintenance", disarmed)
	if err := a.plane.KillServer(); err != nil {
		t.Fatal(err)
	}
	for _, r := range a.group {
		r.kill()
	}
	for _, r := range a.group {
		r.start(t)
	}
	for _, r := range a.group[:2] {
		r.shows(t, "its group and its permission", func(s agentStatus) bool {
			return s.Verdict.Reason == "REASON_NETWORK_QUORUM" && s.Verdict.Tally.Counted == 3 && s.Watchdog.State == "WATCHDOG_STATE_ARMED"
		})
	}
	ill.shows(t, "the maintenance from before", func(s agentStatus) bool {
		return s.Verdict.Reason == "REASON_MAINTENANCE" && s.Verdict.Tally.Counted == 3 && s.Watchdog.State != "WATCHDOG_STATE_ARMED"
	})
	serverUp(t, a.plane)
	if err := patchNode(a.admin, ill.node, annotate(disable, false)); err != nil {
		t.Fatal(err)
	}
	a.settled(t, 3)
}

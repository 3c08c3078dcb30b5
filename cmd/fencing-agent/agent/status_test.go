package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// The API's enums are filled by name, so a renamed reason would silently become
// UNSPECIFIED. Both directions: nothing is missing, and the API promises nothing more.
func TestReasonsHaveTheirEnum(t *testing.T) {
	seen := map[fencingv1.Reason]watchdog.Reason{}
	for _, r := range watchdog.Reasons() {
		e := publish.ReasonOf(r.String())
		if other, twice := seen[e]; twice {
			t.Errorf("%v and %v are both %v", other, r, e)
		}
		if e == fencingv1.Reason_REASON_UNSPECIFIED {
			t.Errorf("reason %v has no enum", r)
		}
		seen[e] = r
	}
	for v, name := range fencingv1.Reason_name {
		if e := fencingv1.Reason(v); v != 0 && seen[e] == 0 {
			t.Errorf("no decision has the reason %s", name)
		}
	}
}

func TestActionsHaveTheirEnum(t *testing.T) {
	want := map[watchdog.Action]fencingv1.Permission{
		watchdog.Feed:   fencingv1.Permission_PERMISSION_FEED,
		watchdog.Hold:   fencingv1.Permission_PERMISSION_HOLD,
		watchdog.Starve: fencingv1.Permission_PERMISSION_STARVE,
		watchdog.Disarm: fencingv1.Permission_PERMISSION_DISARM,
	}
	for a, e := range want {
		if got := publish.PermissionOf(a.String()); got != e {
			t.Errorf("%v is %v, want %v", a, got, e)
		}
	}
	if len(want) != len(fencingv1.Permission_name)-1 {
		t.Errorf("the API has %d permissions, %d were tried", len(fencingv1.Permission_name)-1, len(want))
	}
}

func TestWatchdogStatesHaveTheirEnum(t *testing.T) {
	want := map[wdt.Status]fencingv1.WatchdogState{
		wdt.Unarmed:  fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED,
		wdt.Armed:    fencingv1.WatchdogState_WATCHDOG_STATE_ARMED,
		wdt.Starved:  fencingv1.WatchdogState_WATCHDOG_STATE_STARVED,
		wdt.Disarmed: fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED,
		wdt.Faulty:   fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY,
	}
	for s, e := range want {
		if got := publish.WatchdogStateOf(s.String()); got != e {
			t.Errorf("%v is %v, want %v", s, got, e)
		}
	}
	if len(want) != len(fencingv1.WatchdogState_name)-1 {
		t.Errorf("the API has %d states, %d were tried", len(fencingv1.WatchdogState_name)-1, len(want))
	}
}

// Who lives by another holder's writes is told so: its own path to the LUN needs care. And who has given
// up a grant that names it is told why.
func TestVerdictSaysWhatTheTieBreakerDid(t *testing.T) {
	core := watchdog.NewCore(watchdog.Config{Roster: listing(t, "n1", "n2"), Networks: 1})
	core.Split().Relayed, core.Split().Why = true, "why"
	if v := verdictOf(core, watchdog.Decision{Reason: watchdog.ReasonSplitWon}); !v.GetRelayed() || v.GetDetail() != "why" || v.GetGivenUp() != "" {
		t.Errorf("won: %v", v)
	}
	if v := verdictOf(core, watchdog.Decision{Reason: watchdog.ReasonSplitLost}); v.GetRelayed() || v.GetDetail() != "" || v.GetGivenUp() != "why" {
		t.Errorf("lost: %v", v)
	}
	if v := verdictOf(core, watchdog.Decision{Reason: watchdog.ReasonSplitPending}); v.GetDetail() != "why" || v.GetGivenUp() != "" {
		t.Errorf("pending: %v", v)
	}
	if v := verdictOf(core, watchdog.Decision{Reason: watchdog.ReasonNetworkQuorum}); v.GetRelayed() || v.GetDetail() != "" {
		t.Errorf("majority: %v", v) // what is left of a tie that is over
	}
}

func TestTieBreakerOfTheVerdict(t *testing.T) {
	for want, set := range map[fencingv1.TieBreaker]func(*config.Config){
		fencingv1.TieBreaker_TIE_BREAKER_NONE: func(c *config.Config) { c.Quorum.TieBreakers = nil },
		fencingv1.TieBreaker_TIE_BREAKER_LUN: func(c *config.Config) {
			c.Quorum.TieBreakers, c.LUN.Devices = []config.Breaker{config.BreakerLUN}, []string{"/dev/a"}
		},
		fencingv1.TieBreaker_TIE_BREAKER_API: func(c *config.Config) {
			c.Quorum.TieBreakers, c.Kubernetes.Kubeconfig = []config.Breaker{config.BreakerKubernetes}, "/k"
		},
		fencingv1.TieBreaker_TIE_BREAKER_LEASE: func(c *config.Config) {
			c.Quorum.TieBreakers, c.Kubernetes.Kubeconfig = []config.Breaker{config.BreakerKubernetes}, "/k"
			c.Kubernetes.TieBreak = config.TieBreakLease
		},
	} {
		c := config.Default()
		set(c)
		a := brokenTies(t, c)
		if got := tieBreakerOf(a.core, watchdog.ReasonNetworkQuorum); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		if got := tieBreakerOf(a.core, watchdog.ReasonAPIReachable); got != fencingv1.TieBreaker_TIE_BREAKER_API {
			t.Errorf("a tie that the API has broken is broken by %v", got)
		}
	}
}

// brokenTies is an agent of two nodes with the tie-breaker that its configuration asks for.
func brokenTies(t *testing.T, c *config.Config) *Agent {
	t.Helper()
	a := &Agent{
		cfg: c, roster: numbered(2), rosters: rosterWork{largest: 2}, self: identity{boot: 1, process: 1}, clock: func() boottime.Instant { return boottime.Instant(time.Hour) },
		opts: Options{OpenLease: func(func(leasequorum.Completion)) LeaseRegister { return &heldRegister{} }},
	}
	a.core = watchdog.NewCore(coreConfig(c, a.roster, a.self.boot, "test"))
	if err := a.startBreaker(func(func(context.Context)) {}); err != nil {
		t.Fatal(err)
	}
	return a
}

// Each tie-breaker calls itself what the configuration and the API call it, and metrics have it from the start.
func TestTieBreakersGoByKnownNames(t *testing.T) {
	for _, lease := range []bool{false, true} {
		c := config.Default()
		c.Quorum.TieBreakers, c.LUN.Devices = []config.Breaker{config.BreakerLUN}, []string{"/dev/a"}
		if lease {
			c.Quorum.TieBreakers, c.LUN.Devices, c.Kubernetes.Kubeconfig = []config.Breaker{config.BreakerKubernetes}, nil, "/k"
			c.Kubernetes.TieBreak = config.TieBreakLease
		}
		n := brokenTies(t, c).core.Breaker().Name()
		if !slices.Contains(config.Breakers(), config.Breaker(n.Setting)) {
			t.Errorf("%+v: no value of quorum.tieBreakers", n)
		}
		if _, ok := fencingv1.TieBreaker_value["TIE_BREAKER_"+strings.ToUpper(n.Status)]; !ok {
			t.Errorf("%+v: no value of the API", n)
		}
	}
}

// The decision is shown wherever there can be one: without a LUN and a Lease there is none.
func TestLeaseStatusIsOfTheTieBreaker(t *testing.T) {
	c := config.Default()
	c.Quorum.TieBreakers, c.Kubernetes.Kubeconfig = []config.Breaker{config.BreakerKubernetes}, "/k"
	if l := brokenTies(t, c).leaseStatus(1); l != nil {
		t.Errorf("by reaching the API: %v", l)
	}
	c.Kubernetes.TieBreak = config.TieBreakLease
	a := brokenTies(t, c)
	if l := a.leaseStatus(1); l == nil || l.GetHeld() || l.GetGrantedFor() != nil {
		t.Errorf("by a Lease that was not read: %v", l)
	}
	c = config.Default()
	a = brokenTies(t, c)
	a.lun.keepers = []*keeper.Keeper{{}}
	if l := a.leaseStatus(1); l == nil || l.GetInstance() != 0 {
		t.Errorf("by a LUN that was not opened: %v", l)
	}
}

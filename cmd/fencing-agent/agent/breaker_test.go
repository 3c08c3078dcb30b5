package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

func TestTieBreakerOfTheVerdict(t *testing.T) {
	for want, set := range map[fencingv1.TieBreaker]func(*config.Config){
		fencingv1.TieBreaker_TIE_BREAKER_NONE: func(c *config.Config) { c.Quorum.TieBreak = config.TieBreakNone },
		fencingv1.TieBreaker_TIE_BREAKER_LUN: func(c *config.Config) {
			c.Quorum.TieBreak, c.LUN.Devices = config.TieBreakLUN, []string{"/dev/a"}
		},
		fencingv1.TieBreaker_TIE_BREAKER_API: func(c *config.Config) {
			c.Quorum.TieBreak, c.Kubernetes.Kubeconfig = config.TieBreakAPI, "/k"
		},
		fencingv1.TieBreaker_TIE_BREAKER_LEASE: func(c *config.Config) {
			c.Quorum.TieBreak, c.Kubernetes.Kubeconfig = config.TieBreakLease, "/k"
		},
	} {
		c := config.Default()
		set(c)
		a := brokenTies(t, c)
		tells := func(r watchdog.Reason) fencingv1.TieBreaker {
			v := a.verdict(watchdog.Decision{Reason: r})
			return v.Message().GetTieBreaker()
		}
		if got := tells(watchdog.ReasonNetworkQuorum); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		if got := tells(watchdog.ReasonAPIReachable); got != fencingv1.TieBreaker_TIE_BREAKER_API {
			t.Errorf("a tie that the API has broken is broken by %v", got)
		}
	}
}

// brokenTies returns an agent of a group of two nodes, with the tie-breaker that its configuration names.
func brokenTies(t *testing.T, c *config.Config) *Agent {
	t.Helper()
	seen := new(members.Members)
	seen.Grow(2)
	a := &Agent{
		cfg: c, roster: numbered(2), members: seen, self: identity{boot: 1, process: 1}, clock: func() boottime.Instant { return boottime.Instant(time.Hour) },
		opts: Options{OpenLease: func(func(leasequorum.Completion)) LeaseRegister { return &heldRegister{} }},
	}
	a.core = watchdog.NewCore(coreConfig(c, a.roster, a.self.boot, "test"))
	if err := a.startBreaker(func(func(context.Context)) {}); err != nil {
		t.Fatal(err)
	}
	return a
}

// Each tie-breaker has the same name in the configuration, in the API and in the metrics, which contain it from the
// start.
func TestTieBreakersGoByKnownNames(t *testing.T) {
	for _, lease := range []bool{false, true} {
		c := config.Default()
		c.Quorum.TieBreak, c.LUN.Devices = config.TieBreakLUN, []string{"/dev/a"}
		if lease {
			c.Quorum.TieBreak, c.LUN.Devices, c.Kubernetes.Kubeconfig = config.TieBreakLease, nil, "/k"
		}
		n := brokenTies(t, c).core.Breaker().Name()
		if !slices.Contains(config.Breakers(), config.Breaker(n.Setting)) {
			t.Errorf("%+v: no tie-breaker of the configuration", n)
		}
		if _, ok := fencingv1.TieBreaker_value["TIE_BREAKER_"+strings.ToUpper(n.Status)]; !ok {
			t.Errorf("%+v: no value of the API", n)
		}
	}
}

// A LUN and a Lease always show a grant, even before they have been read. Any other tie-breaker has none.
func TestGrantIsOfTheTieBreaker(t *testing.T) {
	c := config.Default()
	c.Quorum.TieBreak, c.Kubernetes.Kubeconfig = config.TieBreakAPI, "/k"
	if g, ok := brokenTies(t, c).grant(1); ok {
		t.Errorf("by reaching the API: %v", g)
	}
	c.Quorum.TieBreak = config.TieBreakLease
	a := brokenTies(t, c)
	if g, ok := a.grant(1); !ok || g.Held || g.For != 0 {
		t.Errorf("by a Lease that was not read: %v", g)
	}
	c = config.Default()
	a = brokenTies(t, c)
	a.lun.keepers = []*keeper.Keeper{{}}
	if g, ok := a.grant(1); !ok || g.Instance != 0 {
		t.Errorf("by a LUN that was not opened: %v", g)
	}
}

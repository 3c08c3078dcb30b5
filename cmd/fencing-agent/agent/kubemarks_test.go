package agent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// The test checks the marks of one node on its Node after each of some steps.
func TestMarksOnTheOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		s.Put(k8stest.Node("n1", nil, "10.0.0.1"))
		core, err := s.Client(t, nil).For(client.Core)
		if err != nil {
			t.Fatal(err)
		}
		w, err := marks.New(marks.Config{Client: core, Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		defer func() {
			cancel()
			<-done
		}()
		cfg := config.Default()
		cfg.Kubernetes.Node = config.NodeLabel
		m := &nodeMarks{cfg: cfg, writer: w}
		cfg.SystemNetworks = []config.SystemNetwork{{Name: "mgmt", Port: 7946}}
		m.addresses = members.NewAddresses(cfg, map[string]netip.Addr{"mgmt": netip.MustParseAddr("10.0.0.1")}, w)
		see := func() {
			synctest.Wait()
			n := s.Get("n1")
			m.seen(ownnode.State{
				Known: true, Exists: true, Labels: n.Labels, Annotations: n.Annotations, Addresses: []netip.Addr{netip.MustParseAddr(n.Status.Addresses[0].Address)},
			})
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			n := s.Get("n1")
			if got := fmt.Sprint(n.Labels, n.Annotations); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		m.label(false)
		see()
		expect("map[node-manager.deckhouse.io/fencing-mode:Watchdog] map[]")
		m.label(true)
		expect("map[node-manager.deckhouse.io/fencing-enabled: node-manager.deckhouse.io/fencing-mode:Watchdog] map[]")
		m.label(false)
		m.moved("mgmt", netip.MustParseAddr("10.0.0.2"))
		expect("map[node-manager.deckhouse.io/fencing-mode:Watchdog] map[fencing-agent.io/address.mgmt:10.0.0.2]")
		see()
		m.moved("mgmt", netip.MustParseAddr("10.0.0.1"))
		expect("map[node-manager.deckhouse.io/fencing-mode:Watchdog] map[fencing-agent.io/address.mgmt:10.0.0.1]")
		why := func() string { return "why" }
		for _, dry := range []bool{false, true} {
			for _, st := range []wdt.Status{wdt.Unarmed, wdt.Armed, wdt.Armed, wdt.Starved, wdt.Armed, wdt.Disarmed} {
				m.noteWatchdog(wdt.State{Status: st, DryRun: dry}, why)
			}
		}
		for _, d := range []watchdog.Decision{
			{Action: watchdog.Starve, Reason: watchdog.ReasonStarting},
			{Action: watchdog.Feed, Reason: watchdog.ReasonNetworkQuorum, Quorum: true},
			{Action: watchdog.Hold, Reason: watchdog.ReasonSplitPending},
			{Action: watchdog.Feed, Reason: watchdog.ReasonSplitWon, Quorum: true},
			{Action: watchdog.Starve, Reason: watchdog.ReasonQuorumLost},
			{Action: watchdog.Feed, Reason: watchdog.ReasonNetworkQuorum, Quorum: true},
			{Action: watchdog.Disarm, Reason: watchdog.ReasonMaintenance},
		} {
			m.noteDecision(d, why)
		}
		time.Sleep(time.Minute)
		reasons := []string{}
		for _, e := range s.Events() {
			reasons = append(reasons, e.Reason)
		}
		if got := strings.Join(reasons, " "); got != "WatchdogArmed WatchdogStarvation WatchdogDisarmed DryRun DryRun DryRun TieBreakWon QuorumLost QuorumRegained" {
			t.Errorf("events: %s", got)
		}
	})
}

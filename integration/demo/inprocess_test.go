package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// shouters are agents that do nothing but call to every member on every network and
// write down whom they hear.
type shouters struct {
	mu    sync.Mutex
	heard map[[3]string]time.Time // network, from, to
}

func (s *shouters) run(ctx context.Context, path string, over func(netgossiptest.Listen) netgossiptest.Listen, log io.Writer) error {
	cfg, _, err := config.Load(path, os.Getenv)
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "here is", cfg.NodeName)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, network := range cfg.SystemNetworks {
		transport, err := over(swim.Listen)(netip.AddrPortFrom(network.At.Address, uint16(network.Port)))
		if err != nil {
			return err
		}
		wg.Go(func() { s.shout(ctx, cfg, network, transport) })
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *shouters) shout(ctx context.Context, cfg *config.Config, network config.SystemNetwork, transport memberlist.NodeAwareTransport) {
	defer transport.Shutdown()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case p := <-transport.PacketCh():
			s.mu.Lock()
			s.heard[[3]string{network.Name, string(p.Buf), cfg.NodeName}] = time.Now()
			s.mu.Unlock()
		case <-again.C:
			for _, m := range cfg.Members.Static {
				to := netip.AddrPortFrom(m.Addresses[network.Name], uint16(network.Port)).String()
				_, _ = transport.WriteToAddress([]byte(cfg.NodeName), memberlist.Address{Addr: to})
			}
		case <-ctx.Done():
			return
		}
	}
}

// hears waits until calls have passed, and only those, in a time in which each would
// have been heard several times.
func (s *shouters) hears(t *testing.T, c *InProcess, want func(network, from, to string) bool) {
	t.Helper()
	nodes := c.Nodes()
	ended := func() (errs []error) {
		for _, node := range nodes {
			errs = append(errs, c.Exited(node))
		}
		return errs
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	end := time.After(time.Minute)
	since := time.Now()
	for {
		var wrong []string
		s.mu.Lock()
		for _, network := range networks {
			for _, from := range nodes {
				for _, to := range nodes {
					at := s.heard[[3]string{network, from, to}]
					if from != to && at.After(since) != want(network, from, to) {
						wrong = append(wrong, network+":"+from+">"+to)
					}
				}
			}
		}
		s.mu.Unlock()
		if len(wrong) == 0 && time.Since(since) > 100*time.Millisecond {
			return
		}
		if time.Since(since) > time.Second {
			since = time.Now() // what was under way at the change has come by now
		}
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("wrong: %v; agents: %v", wrong, ended())
		}
	}
}

func newInProcess(t *testing.T, runAgent RunAgent) *InProcess {
	t.Helper()
	dir, err := os.MkdirTemp("", "fd")
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewInProcess(lab.AgentConfig{Dir: dir, Nodes: names(4), Networks: networks}, runAgent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return c
}

func TestInProcessCuts(t *testing.T) {
	s := &shouters{heard: map[[3]string]time.Time{}}
	c := newInProcess(t, s.run)
	for _, node := range c.Nodes() {
		if err := c.Start(node); err != nil {
			t.Fatal(err)
		}
	}
	everything := func(string, string, string) bool { return true }
	halves := func(network, from, to string) bool { return network != "data" || (from <= "n2") == (to <= "n2") }
	s.hears(t, c, everything)
	if err := c.CutNetworks([]string{"data"}, []string{"n1", "n2"}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, c, halves)
	if dropped, err := c.Dropped(); err != nil || dropped == 0 {
		t.Errorf("dropped %d, %v; want some", dropped, err)
	}

	if err := c.Kill("n4"); err != nil {
		t.Fatal(err)
	}
	s.hears(t, c, func(network, from, to string) bool { return from != "n4" && to != "n4" && halves(network, from, to) })
	if err := c.Exited("n4"); err != nil {
		t.Errorf("killed on purpose, yet: %v", err)
	}
	if err := c.Start("n4"); err != nil {
		t.Fatal(err)
	}
	s.hears(t, c, halves) // the cut is in force for it too
	if err := c.Heal(); err != nil {
		t.Fatal(err)
	}
	s.hears(t, c, everything)
	log, err := os.ReadFile(c.logPath("n4"))
	if err != nil || strings.Count(string(log), "here is n4") != 2 {
		t.Errorf("log %q, %v; want both runs", log, err)
	}
}

func TestInProcessReportsAgentsThatEnd(t *testing.T) {
	c := newInProcess(t, func(context.Context, string, func(netgossiptest.Listen) netgossiptest.Listen, io.Writer) error {
		return errors.New("no luck")
	})
	if err := c.Start("n1"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := Walk(t.Context(), c, "lun.img", Options{Scenario: "up", Out: &out, limit: 5 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "no luck") || !slices.Contains(strings.Split(out.String(), "\n"), c.Describe()) {
		t.Errorf("error %v, output\n%s", err, out.String())
	}
}

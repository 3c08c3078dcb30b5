package page

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
	"github.com/fencing-agent/fencing-agent/integration/demo"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// cluster is agents in this process, each with a watchdog that ends it, and a page.
type cluster struct {
	*demo.InProcess
	t    *testing.T
	ends map[string]chan struct{} // closed when the watchdog has ended the first boot of a node

	mu    sync.Mutex
	boots map[string]uint64
	http  map[string]string
}

func startCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	lun := filepath.Join(dir, "lun")
	if _, err := lunadmin.Init(t.Context(), lunadmin.InitOptions{Path: lun, Cluster: "demo", NodeGroup: "demo", Slots: len(names), Create: true}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, boots: map[string]uint64{}, http: map[string]string{}, ends: map[string]chan struct{}{}}
	for _, n := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.http[n], c.ends[n] = l.Addr().String(), make(chan struct{})
		_ = l.Close() // the agent takes the address
	}
	c.InProcess, err = demo.NewInProcess(lab.AgentConfig{
		Dir: dir, Cluster: "demo", Group: "demo", Nodes: names, Networks: []string{"mgmt", "data"}, LUN: func(string) string { return lun },
		Override: map[string]any{"watchdog": map[string]any{"timeout": "15s", "selfFence": "none"}, "experimental": map[string]any{"feedInterval": "2s"}},
	}, c.run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, n := range names {
		if err := c.Start(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// run is an agent in a boot of its own, which its watchdog ends without a last word.
func (c *cluster) run(ctx context.Context, path string, over func(netgossiptest.Listen) netgossiptest.Listen, log io.Writer) error {
	cfg, _, err := config.Load(path, os.Getenv)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.boots[cfg.NodeName]++
	boot := c.boots[cfg.NodeName]<<32 | uint64(len(cfg.NodeName))<<8 | uint64(cfg.NodeName[len(cfg.NodeName)-1])
	cfg.HTTP.Address = c.http[cfg.NodeName]
	c.mu.Unlock()
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(agent.ErrAbandon) })()
	dog := watchdogtest.New(watchdogtest.Config{Clock: boottime.Now, OnFire: func(boottime.Instant) {
		cancel(agent.ErrAbandon)
		if boot>>32 == 1 {
			close(c.ends[cfg.NodeName])
		}
	}})
	return agent.Run(own, agent.Options{
		Config: cfg, ConfigPath: path, Logger: slog.New(slog.NewTextHandler(log, nil)), Version: "v0.1.0", Listen: swim.Listener(over(swim.Listen)),
		Watchdog: dog, Boot: boot,
	})
}

func (c *cluster) url(node string) string { return fmt.Sprintf("http://%s/", c.http[node]) }

// await waits for what must come.
func await(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

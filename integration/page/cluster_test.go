package page

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// cluster runs agents in this process, on a network in memory, each with a watchdog that ends it, and with a page.
type cluster struct {
	t       *testing.T
	dir     string
	network *netgossiptest.Network
	names   []string
	ends    map[string]chan struct{} // closed when the watchdog has ended the first boot of a node
	http    map[string]string
	boots   map[string]uint64
	running sync.WaitGroup
	stop    []context.CancelCauseFunc
}

const pageConfig = `cluster: demo
nodeName: %[1]s
nodeGroup: demo
members: {source: static, cacheFile: %[2]s/%[1]s.members.json, static: [%[3]s]}
systemNetworks: [{name: mgmt, at: %[4]s}, {name: data, at: %[5]s}]
lun: {devices: [%[2]s/lun]}
quorum: {tieBreak: lun}
watchdog: {timeout: 15s, selfFence: none, disableFile: %[2]s/%[1]s.disable}
experimental: {feedInterval: 2s}
api: {socket: %[2]s/%[1]s.sock}
http: {address: "%[6]s"}
`

func startCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if _, err := lunadmin.Init(t.Context(), lunadmin.InitOptions{Path: filepath.Join(dir, "lun"), Cluster: "demo", NodeGroup: "demo", Slots: len(names), Create: true}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, network: netgossiptest.NewNetwork(1), names: names, boots: map[string]uint64{}, http: map[string]string{}, ends: map[string]chan struct{}{}}
	for _, n := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.http[n], c.ends[n] = l.Addr().String(), make(chan struct{})
		_ = l.Close() // so that the agent can use the address
	}
	t.Cleanup(func() {
		for _, stop := range c.stop {
			stop(agent.ErrAbandon)
		}
		c.running.Wait()
	})
	for _, n := range names {
		c.start(n)
	}
	return c
}

// addresses returns the addresses of a node on both networks.
func (c *cluster) addresses(node string) []netip.Addr {
	i := byte(slices.Index(c.names, node) + 1)
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 1, i}), netip.AddrFrom4([4]byte{127, 0, 2, i})}
}

// start runs the agent of a node in another boot. Its watchdog ends the agent without a last message.
func (c *cluster) start(node string) {
	c.t.Helper()
	var members []string
	for _, n := range c.names {
		at := c.addresses(n)
		members = append(members, fmt.Sprintf("{name: %s, addresses: {mgmt: %s, data: %s}}", n, at[0], at[1]))
	}
	at := c.addresses(node)
	path := filepath.Join(c.dir, node+".yaml")
	text := fmt.Sprintf(pageConfig, node, c.dir, strings.Join(members, ", "), at[0], at[1], c.http[node])
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	cfg, _, err := config.Load(path, os.Getenv)
	if err != nil {
		c.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, node+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	c.boots[node]++
	first, boot := c.boots[node] == 1, c.boots[node]<<32|uint64(len(node))<<8|uint64(node[len(node)-1])
	ctx, cancel := context.WithCancelCause(context.Background())
	c.stop = append(c.stop, cancel)
	dog := watchdogtest.New(watchdogtest.Config{Clock: boottime.Now, OnFire: func(boottime.Instant) {
		cancel(agent.ErrAbandon)
		if first {
			close(c.ends[node])
		}
	}})
	c.running.Go(func() {
		defer log.Close()
		_ = agent.Run(ctx, agent.Options{
			Config: cfg, ConfigPath: path, Logger: slog.New(slog.NewTextHandler(log, nil)), Version: "v0.1.0", Listen: c.network.Listen,
			Watchdog: dog, Boot: boot,
		})
	})
}

// cut drops everything between two halves.
func (c *cluster) cut(a, b []string) {
	var halves [2][]netip.Addr
	for i, half := range [][]string{a, b} {
		for _, n := range half {
			halves[i] = append(halves[i], c.addresses(n)...)
		}
	}
	c.network.Partition(halves[0], halves[1])
}

func (c *cluster) socket(node string) string { return filepath.Join(c.dir, node+".sock") }

func (c *cluster) url(node string) string { return fmt.Sprintf("http://%s/", c.http[node]) }

// await waits for something that must happen.
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

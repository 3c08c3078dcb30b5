package swim_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

const (
	testPort  = 17946 // below the ephemeral ports
	testLabel = "cluster/group/mgmt"
)

// clock is virtual inside a bubble and boottime-like outside.
func clock() boottime.Instant { return boottime.Instant(time.Now().UnixNano()) }

// recorder is a Sink that records everything and checks the promises made to a Sink.
type recorder struct {
	t       *testing.T
	inside  atomic.Bool
	stopped atomic.Bool
	hook    func() // runs inside every call

	mu        sync.Mutex
	alive     map[int]bool
	changes   []string
	answers   map[int][]netgossip.Answer
	heard     map[int]int
	lastHeard map[int]boottime.Instant
	conflicts map[string]int
	vouched   boottime.Instant
	missed    []string
	doubts    int
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{
		t: t, alive: map[int]bool{}, answers: map[int][]netgossip.Answer{},
		heard: map[int]int{}, lastHeard: map[int]boottime.Instant{}, conflicts: map[string]int{},
	}
}

func (r *recorder) record(call string, f func()) {
	if r.stopped.Load() {
		r.t.Errorf("%s after Stop", call)
	}
	if !r.inside.CompareAndSwap(false, true) {
		r.t.Errorf("%s while another call was inside", call)
	}
	defer r.inside.Store(false)
	if r.hook != nil {
		r.hook()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) MemberChanged(_, peer int, alive bool, at boottime.Instant) {
	r.record("MemberChanged", func() {
		r.alive[peer] = alive
		r.changes = append(r.changes, fmt.Sprintf("%d %v", peer, alive))
	})
}

func (r *recorder) Answered(a netgossip.Answer) {
	r.record("Answered", func() { r.answers[a.Peer] = append(r.answers[a.Peer], a) })
}

func (r *recorder) Vouched(_ int, at boottime.Instant) {
	r.record("Vouched", func() { r.vouched = max(r.vouched, at) })
}

func (r *recorder) Missed(_, peer int, since boottime.Instant, void bool) {
	r.record("Missed", func() { r.missed = append(r.missed, fmt.Sprintf("%d %v", peer, void)) })
}

func (r *recorder) Doubted(int) { r.record("Doubted", func() { r.doubts++ }) }

func (r *recorder) Heard(_, peer int, at boottime.Instant) {
	r.record("Heard", func() { r.heard[peer]++; r.lastHeard[peer] = at })
}

func (r *recorder) Conflict(_ int, name, address string) {
	r.record("Conflict", func() { r.conflicts[name+" "+address]++ })
}

// view runs f while nothing is recorded.
func (r *recorder) view(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// anchor returns the start of the latest answered probe of the peer.
func (r *recorder) anchor(peer int) (at boottime.Instant) {
	r.view(func() {
		for _, a := range r.answers[peer] {
			at = max(at, a.SentAt)
		}
	})
	return at
}

func (r *recorder) latest(peer int) (s *netgossip.Statement) {
	r.view(func() {
		if n := len(r.answers[peer]); n > 0 {
			s = r.answers[peer][n-1].Statement
		}
	})
	return s
}

func (r *recorder) last(peer int) (a netgossip.Answer) {
	r.view(func() {
		if n := len(r.answers[peer]); n > 0 {
			a = r.answers[peer][n-1]
		}
	})
	return a
}

func (r *recorder) isAlive(peer int) (alive bool) {
	r.view(func() { alive = r.alive[peer] })
	return alive
}

func (r *recorder) countHeard(peer int) (n int) {
	r.view(func() { n = r.heard[peer] })
	return n
}

// logs is a log output that tests can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// node is one instance with its surroundings.
type node struct {
	*swim.Instance
	cfg       swim.Config
	index     int
	addr      netip.Addr
	sink      *recorder
	logs      *logs
	registry  *prometheus.Registry
	statement atomic.Pointer[netgossip.Statement]
}

// say replaces the node's statement with one that has the counter.
func (n *node) say(counter uint32) {
	n.statement.Store(&netgossip.Statement{
		Boot: uint64(n.index) + 1, RosterEpoch: n.cfg.Roster.Epoch, RosterDigest: n.cfg.Roster.Digest,
		Token: netgossip.Token{Nonce: uint64(n.index) + 1, Counter: counter},
		Seen:  roster.FullSet(n.cfg.Roster.Size()), View: roster.FullSet(n.cfg.Roster.Size()),
	})
}

// refused reads fencing_agent_gossip_refused_total as an operator would.
func (n *node) refused(t *testing.T, reason string) float64 {
	t.Helper()
	return n.metric(t, "fencing_agent_gossip_refused_total", "reason", reason)
}

func (n *node) metric(t *testing.T, name, label, value string) float64 {
	t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label && l.GetValue() == value {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("no metric %s{%s=%q}", name, label, value)
	return 0
}

func (n *node) stop(t *testing.T, leave bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := n.Stop(ctx, leave); err != nil {
		t.Error(err)
	}
	n.sink.stopped.Store(true)
}

// Names are n1, n2, ...; addresses 10.0.0.1, 10.0.0.2, ...
func memory(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i + 1)}) }

func testRoster(t testing.TB, n, self int, address func(int) netip.Addr) *roster.Roster {
	t.Helper()
	members := make([]roster.Member, n)
	for i := range members {
		members[i] = roster.Member{
			Name:      fmt.Sprintf("n%03d", i+1),
			Addresses: map[string]string{"mgmt": address(i).String()},
		}
	}
	r, err := roster.New(1, members, members[self].Name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// configure creates the node with an index; change may alter its configuration.
func configure(t *testing.T, n, index int, address func(int) netip.Addr, listen swim.Listener, change func(*swim.Config)) *node {
	t.Helper()
	nd := &node{index: index, addr: address(index), sink: newRecorder(t), logs: &logs{}, registry: prometheus.NewRegistry()}
	nd.cfg = swim.Config{
		Name:      "mgmt",
		Label:     testLabel,
		Roster:    testRoster(t, n, index, address),
		BindAddr:  nd.addr,
		Port:      testPort,
		Params:    netgossip.Tune(n),
		Transport: listen,
		Clock:     clock,
		Sink:      nd.sink,
		Statement: nd.statement.Load,
		Logger:    slog.New(slog.NewTextHandler(nd.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Metrics:   swim.NewMetrics(nd.registry),
	}
	nd.say(1)
	if change != nil {
		change(&nd.cfg)
	}
	return nd
}

// start creates and starts the node's instance; it may be called again after a stop.
func (n *node) start(t *testing.T) {
	t.Helper()
	in, err := swim.New(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Instance = in
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
}

// restart replaces a stopped instance as a new process would, with a new Sink.
func (n *node) restart(t *testing.T) {
	t.Helper()
	n.sink = newRecorder(t)
	n.cfg.Sink = n.sink
	n.start(t)
}

// cluster is n nodes in memory; it must be created in a bubble.
type cluster struct {
	t     *testing.T
	net   *netgossiptest.Network
	nodes []*node
}

func newCluster(t *testing.T, n int, change func(*swim.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, net: netgossiptest.NewNetwork(1)}
	c.net.SetAll(netgossiptest.Link{Delay: 100 * time.Microsecond, Jitter: 400 * time.Microsecond})
	for i := range n {
		c.nodes = append(c.nodes, configure(t, n, i, memory, c.net.Listen, change))
	}
	t.Cleanup(c.close)
	return c
}

func startCluster(t *testing.T, n int, change func(*swim.Config)) *cluster {
	t.Helper()
	c := newCluster(t, n, change)
	for _, nd := range c.nodes {
		nd.start(t)
		time.Sleep(37 * time.Millisecond) // instances that are created at the same instant would tick in step
	}
	return c
}

func (c *cluster) close() {
	for _, nd := range c.nodes {
		if nd.Instance != nil {
			if err := nd.Stop(context.Background(), false); err != nil {
				c.t.Error(err)
			}
			nd.sink.stopped.Store(true)
		}
	}
	time.Sleep(3 * time.Minute) // memberlist's timers must run out inside the bubble
}

// await advances the bubble until cond holds.
func (c *cluster) await(within time.Duration, what string, cond func() bool) {
	c.t.Helper()
	awaitStep(c.t, within, time.Millisecond, what, cond)
}

func awaitStep(t *testing.T, within, step time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(step)
	}
}

// complete reports whether every running node lists every other, and has evidence of it from after the given instant.
func (c *cluster) complete(after boottime.Instant) bool {
	for _, a := range c.nodes {
		if a.Stats().Members != len(c.nodes) {
			return false
		}
		for _, b := range c.nodes {
			if a != b && (!a.sink.isAlive(b.index) || a.sink.anchor(b.index) <= after) {
				return false
			}
		}
	}
	return true
}

func (c *cluster) awaitComplete(within time.Duration) {
	c.t.Helper()
	from := clock()
	c.await(within, "every node lists and has evidence of every other", func() bool { return c.complete(from) })
}

func keyring(t testing.TB, keys ...string) *memberlist.Keyring {
	t.Helper()
	var raw [][]byte
	for _, k := range keys {
		raw = append(raw, bytes.Repeat([]byte(k), 32))
	}
	ring, err := memberlist.NewKeyring(raw, raw[0])
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

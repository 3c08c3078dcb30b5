package gossip

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// member is a replica on the loopback.
type member struct {
	*Gossip
	mu     sync.Mutex
	heard  []distributedapp.Message
	config uint64
	stop   func()
}

// start runs a replica that looks for these peers.
func start(t *testing.T, name string, ring *memberlist.Keyring, peers ...string) *member {
	t.Helper()
	m := &member{}
	o := Options{
		Name: name, Version: "v1", Bind: "127.0.0.1", Advertise: "127.0.0.1", Peers: peers, Rejoin: 50 * time.Millisecond,
		ProbeInterval: 200 * time.Millisecond, ProbeTimeout: 100 * time.Millisecond, Keyring: ring,
		State: func() distributedapp.Message {
			m.mu.Lock()
			defer m.mu.Unlock()
			return distributedapp.Message{Kind: distributedapp.Configure, Origin: name, Version: m.config}
		},
		Receive: func(x distributedapp.Message) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.heard = append(m.heard, x)
		},
		Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	m.Gossip = g
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	var once sync.Once
	m.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(m.stop)
	return m
}

func (m *member) has(is func(distributedapp.Message) bool) func() bool {
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.ContainsFunc(m.heard, is)
	}
}

func (m *member) knows(names ...string) func() bool {
	return func() bool {
		got, _ := m.Members()
		slices.Sort(got)
		return slices.Equal(got, names)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Members find each other, and hear all messages except their own. A member that joins late gets the state.
func TestSpread(t *testing.T) {
	a := start(t, "a", nil)
	a.mu.Lock()
	a.config = 7
	a.mu.Unlock()
	b := start(t, "b", nil, a.Address())
	await(t, "both see both", func() bool { return a.knows("a", "b")() && b.knows("a", "b")() })
	a.Tell(distributedapp.Message{Kind: distributedapp.Reconcile, Origin: "a", Namespace: "default", Name: "web"})
	web := func(m distributedapp.Message) bool {
		return m.Kind == distributedapp.Reconcile && m.Name == "web" && m.Origin == "a"
	}
	await(t, "b hears of it", b.has(web))
	if a.has(web)() {
		t.Error("a hears itself")
	}
	c := start(t, "c", nil, a.Address(), "127.0.0.1:1") // an unreachable peer keeps no member from joining
	await(t, "the late one knows the state", c.has(func(m distributedapp.Message) bool { return m.Version == 7 }))
	await(t, "all see all", func() bool { return a.knows("a", "b", "c")() && b.knows("a", "b", "c")() })
	c.stop()
	await(t, "one that leaves is gone", func() bool { return a.knows("a", "b")() && b.knows("a", "b")() })
}

// Guard: memberlist does not look again for members that it has called dead; the replicas do.
func TestRejoin(t *testing.T) {
	a := start(t, "a", nil)
	b := start(t, "b", nil, a.Address())
	await(t, "they are two", a.knows("a", "b"))
	address := a.Address()
	a.stop()
	await(t, "b is alone", b.knows("b"))
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	o := a.o
	if _, err := fmt.Sscan(port, &o.Port); err != nil {
		t.Fatal(err)
	}
	o.AdvertisePort, o.Peers = o.Port, nil // it looks for nobody
	var again *Gossip
	await(t, "its port is free again", func() bool { again, err = New(o); return err == nil })
	defer func() { _ = again.list.Shutdown() }()
	await(t, "b finds it again", b.knows("a", "b"))
}

// Guard: a replica without the key is not a member, and is not heard.
func TestKey(t *testing.T) {
	ring := func() *memberlist.Keyring {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		r, err := memberlist.NewKeyring(nil, key)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one := ring()
	a := start(t, "a", one)
	b := start(t, "b", one, a.Address())
	stranger := start(t, "stranger", nil, a.Address())
	other := start(t, "other", ring(), a.Address())
	await(t, "they are two", a.knows("a", "b"))
	for _, m := range []*member{stranger, other} {
		await(t, "it has tried to join", func() bool { return testutil.ToFloat64(m.o.Metrics.joins) > 2 })
	}
	if !a.knows("a", "b")() || !b.knows("a", "b")() {
		t.Error("strangers are members")
	}
}

// Guard: a member that reads nothing does not delay others, and uses a bounded amount of memory.
func TestMemberThatTakesNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts and never reads
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a := start(t, "a", nil)
	at := silent.Addr().(*net.TCPAddr)
	n := &memberlist.Node{Name: "silent", Addr: at.IP, Port: uint16(at.Port)}
	for range 3 * mostWaiting {
		a.send(n, []byte(strings.Repeat("x", mostBytes)))
	}
	a.Gossip.mu.Lock()
	if n := a.waiting["silent"]; n > mostWaiting {
		t.Errorf("%d wait", n)
	}
	a.Gossip.mu.Unlock()
	if testutil.ToFloat64(a.o.Metrics.dropped) == 0 {
		t.Error("nothing was dropped")
	}
}

func TestDecode(t *testing.T) {
	good := distributedapp.Message{Kind: distributedapp.Delete, Origin: "a", Namespace: "d", Name: "web", Timestamp: 5}
	text, err := Encode(good)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(text); err != nil || got != good {
		t.Errorf("%+v %v", got, err)
	}
	long := strings.Repeat("n", mostName+1)
	for name, text := range map[string]string{
		"nothing":      "",
		"no JSON":      "web",
		"another type": `{"kind":3}`,
		"no sender":    `{"kind":"reconcile","crNamespace":"d","crName":"web"}`,
		"another kind": `{"kind":"reboot","originPod":"a","crNamespace":"d","crName":"web"}`,
		"no name":      `{"kind":"reconcile","originPod":"a","crNamespace":"d"}`,
		"a long name":  `{"kind":"reconcile","originPod":"a","crNamespace":"d","crName":"` + long + `"}`,
		"too long":     `{"kind":"config","originPod":"a"` + strings.Repeat(" ", mostBytes) + `}`,
	} {
		if got, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is taken: %+v", name, got)
		}
	}
	if _, err := Encode(distributedapp.Message{Kind: distributedapp.Delete, Origin: strings.Repeat(long, 4)}); err == nil {
		t.Error("a long message is sent")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"reconcile","originPod":"a","crNamespace":"d","crName":"web"}`))
	f.Add([]byte(`{"kind":"config","originPod":"a","configVersion":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		if again, err := Encode(m); err == nil {
			if got, err := Decode(again); err != nil || got != m {
				t.Errorf("%+v is %+v: %v", m, got, err)
			}
		}
	})
}

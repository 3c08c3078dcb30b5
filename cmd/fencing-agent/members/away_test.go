package members

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	lists "github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// api is an API server with one group's book and Nodes, and the replicas that watch it.
type api struct {
	mu       sync.Mutex
	book     *memberbook.Book
	version  int
	nodes    map[string]ownnode.State
	watching []*lists.Hub
}

func (a *api) Read(context.Context, string) (*memberbook.Book, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.book == nil {
		return nil, "", nil
	}
	return a.book, strconv.Itoa(a.version), nil
}

// booked returns the current book.
func (a *api) booked() *memberbook.Book {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book
}

func (a *api) Nodes(context.Context, string) (names []string, _ error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range a.nodes {
		names = append(names, n)
	}
	return names, nil
}

func (a *api) Write(_ context.Context, b *memberbook.Book, version string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.book != nil && version != strconv.Itoa(a.version) {
		return lists.ErrConflict
	}
	a.book = b
	a.version++
	for _, h := range a.watching { // in order, as a watch reports it
		h.Booked("g", b)
	}
	return nil
}

// node changes a Node.
func (a *api) node(name string, annotations map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	s := ownnode.State{Known: true, Exists: true, UID: "u-" + name, Version: uint64(a.version), Annotations: annotations}
	a.nodes[name] = s
	for _, h := range a.watching {
		h.Seen(name, lists.Node{Group: "g", State: s})
	}
}

// watch starts or ends the reports to a replica.
func (a *api) watch(h *lists.Hub, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watching = slices.DeleteFunc(a.watching, func(o *lists.Hub) bool { return o == h })
	if !yes {
		return
	}
	a.watching = append(a.watching, h)
	for name, s := range a.nodes {
		h.Seen(name, lists.Node{Group: "g", State: s})
	}
	if a.book != nil {
		h.Booked("g", a.book)
	}
	h.Synced()
}

// replica is a replica of fencing-controller, reached through a wire that can be cut.
type replica struct {
	hub    *lists.Hub
	listen *bufconn.Listener
	stop   func()
	cut    bool // no new connection, and no bytes on the old ones
}

func newReplica(a *api, dir string, writes bool) *replica {
	r := &replica{hub: lists.NewHub(), listen: bufconn.Listen(1 << 16)}
	a.watch(r.hub, true)
	srv := grpc.NewServer(lists.Options(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.New(slog.DiscardHandler))...)
	review := func(_ context.Context, token string) (string, error) { return token, nil }
	fencingv1.RegisterFencingMembersServer(srv, &lists.Server{Hub: r.hub, Logger: slog.New(slog.DiscardHandler), Review: review})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(unhurriedListener{r.listen}) })
	if writes {
		wg.Go(func() { (&lists.Scribe{Hub: r.hub, Store: a, Logger: slog.New(slog.DiscardHandler)}).Run(ctx) })
	}
	r.stop = sync.OnceFunc(func() { cancel(); a.watch(r.hub, false); srv.Stop(); wg.Wait() })
	return r
}

// hanging is a connection that transfers nothing while the wire is cut.
type hanging struct {
	net.Conn
	cut func() bool
}

func (h hanging) Write(p []byte) (int, error) {
	if h.cut() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func (h hanging) Read(p []byte) (int, error) {
	for {
		n, err := h.Conn.Read(p)
		if err != nil || !h.cut() {
			return n, err
		}
	}
}

// follows is one agent: its source, its lists, and what was reported to it about its Node.
type follows struct {
	name    string
	m       *Members
	core    *watchdog.Core // only used by step
	replica int            // the replica that it reaches; guarded by troop.mu

	mu       sync.Mutex
	begun    *watchdog.Core
	box      []List
	versions memberbook.Versions
	state    ownnode.State
}

// troop is a group of agents in contact with each other.
type troop struct {
	t        *testing.T
	mu       sync.Mutex
	replicas [2]*replica
	nodes    []*follows
}

func (tr *troop) clock() boottime.Instant { return boottime.Instant(time.Now().UnixNano()) }

// join starts an agent. It returns when the agent knows its first list.
func (tr *troop) join(ctx context.Context, wg *sync.WaitGroup, dir string, i int) {
	t, f := tr.t, &follows{name: fmt.Sprintf("n%d", i), replica: i % 2}
	c := config.Default()
	c.NodeName, c.NodeGroup, c.Members.CacheFile, c.Members.Source = f.name, "g", filepath.Join(dir, f.name+".json"), config.SourceController
	c.SystemNetworks = []config.SystemNetwork{{Name: "a"}}
	c.Kubernetes.DisableAnnotations = []string{"off"}
	c.Members.Controller = config.Controller{
		Address: "c:1", ServerName: "fencing-controller", Credentials: filepath.Join(dir, f.name), Founders: []string{"n1", "n2", "n3", "n4", "n5"},
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err := errors.Join(err, os.MkdirAll(c.Members.Controller.Credentials, 0o700), os.WriteFile(c.Members.Controller.CAFile(), ca, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Members.Controller.TokenFile(), []byte(f.name), 0o600); err != nil {
		t.Fatal(err)
	}
	f.m = New(Config{
		Config: c, Logger: slog.New(slog.DiscardHandler), Clock: tr.clock,
		Local: func(*config.SystemNetwork, netip.Addr) (netip.Addr, error) {
			return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), nil
		},
		Node: func(s ownnode.State) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.versions.Look(s.Version, tr.clock()) {
				f.state = s
			}
		},
		NodeUID: func() string { f.mu.Lock(); defer f.mu.Unlock(); return f.state.UID },
		Saved:   func(error) {}, Fetch: func([]string, int, roster.Ref) {},
		Listed: func(l List) { f.mu.Lock(); defer f.mu.Unlock(); f.box = append(f.box, l) },
	})
	f.m.controller.connect = func(ctx context.Context, _ string) (net.Conn, error) {
		tr.mu.Lock()
		r := tr.replicas[f.replica]
		tr.mu.Unlock()
		cut := func() bool { tr.mu.Lock(); defer tr.mu.Unlock(); return r.cut }
		if cut() {
			<-ctx.Done()
			return nil, errors.New("no route")
		}
		conn, err := r.listen.DialContext(ctx)
		return hanging{unhurried{conn}, cut}, err
	}
	f.m.controller.waiting = func(*atomic.Pointer[string]) func() { return func() {} }
	wg.Go(func() {
		s, d, err := f.m.Begin(ctx)
		if err != nil {
			return // the end of the test
		}
		f.mu.Lock()
		f.begun = coreOf(s, d)
		f.mu.Unlock()
		f.m.source.Follow(ctx, f.m.again, f.m.cfg.Listed)
	})
	tr.nodes = append(tr.nodes, f)
}

// step lets every node look at all others, and at what its source shows.
func (tr *troop) step() {
	for _, f := range tr.nodes {
		f.mu.Lock()
		box := f.box
		f.core, f.box = f.begun, nil
		f.mu.Unlock()
		core := f.core
		if core == nil {
			continue
		}
		for _, l := range box {
			f.m.Learn(core, l)
		}
		s := core.Rosters().Succession()
		m := s.Advance(tr.peers(f))
		if m.Save != nil {
			s.Saved(nil)
		}
		f.m.showPresent(s)
	}
}

// peers returns all agents that have begun, numbered as in nodes.
func (tr *troop) peers(f *follows) *roster.Peers {
	p := &roster.Peers{Members: func(r *roster.Roster) (set roster.Set) {
		for i, o := range tr.nodes {
			if _, listed := r.Index(o.name); listed {
				set.Add(i)
			}
		}
		return set
	}}
	p.Stands = func(i int) roster.Standing { return tr.nodes[i].core.Rosters().Succession().Standing() }
	for i, o := range tr.nodes {
		if o == f {
			p.Self = i
		} else if o.core != nil {
			p.Contact.Add(i)
		}
	}
	return p
}

// verdicts returns what decides about each node: the list in force, whether another one is pending, and whether its
// Node disarms it.
func (tr *troop) verdicts() (out []string) {
	for _, f := range tr.nodes {
		f.mu.Lock()
		g := ownnode.Rules{Disable: []string{"off"}}.Judge(f.state)
		text := fmt.Sprintf("%s: %+v", f.name, g)
		if f.core != nil {
			s := f.core.Rosters().Succession()
			text += fmt.Sprintf(" %v claims %v, %d lists", s.Base().Ref(), s.Claims(), len(s.Chain()))
		}
		f.mu.Unlock()
		out = append(out, text)
	}
	return out
}

// goes advances the time.
func (tr *troop) goes(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(250 * time.Millisecond)
		tr.step()
	}
}

// stays advances the time while no verdict may change.
func (tr *troop) stays(what string, d time.Duration, meanwhile func()) {
	tr.t.Helper()
	before := tr.verdicts()
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(250 * time.Millisecond)
		meanwhile()
		tr.step()
		if now := tr.verdicts(); !slices.Equal(now, before) {
			tr.t.Fatalf("%s, after %v:\n%q\n%q", what, d-time.Until(end), before, now)
		}
	}
}

// settled waits until this many nodes use one list, with the number of the book.
func (tr *troop) settled(a *api, n int) {
	tr.t.Helper()
	for range 600 {
		tr.goes(time.Second)
		ok, book := 0, a.booked()
		for _, f := range tr.nodes {
			if f.core != nil && book != nil && f.core.Rosters().Succession().Settled() && f.core.Rosters().Succession().Base().Epoch == book.Epoch && f.core.Rosters().Succession().Base().Size() == n {
				ok++
			}
		}
		if ok == n {
			return
		}
	}
	tr.t.Fatalf("not settled: %q, book %+v", tr.verdicts(), a.booked())
}

// A controller cannot be reached for ten minutes, is killed, its replicas disagree, and one of them sends wrong lists.
// None of this changes a verdict. The time is virtual; servers and streams are real.
func TestControllerThatIsAwayOrLiesChangesNothing(t *testing.T) {
	dir, seed := t.TempDir(), mrand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		writeCertificate(t, dir)
		a := &api{nodes: map[string]ownnode.State{}}
		tr := &troop{t: t, replicas: [2]*replica{newReplica(a, dir, true), newReplica(a, dir, true)}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer func() {
			cancel()
			wg.Wait()
			tr.replicas[0].stop()
			tr.replicas[1].stop()
		}()
		for i := 1; i <= 5; i++ {
			a.node(fmt.Sprintf("n%d", i), nil)
		}
		for i := 1; i <= 5; i++ {
			tr.join(ctx, &wg, dir, i)
		}
		tr.settled(a, 5)

		cut := func(yes bool) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.replicas[0].cut, tr.replicas[1].cut = yes, yes
		}
		cut(true)
		a.node("n1", map[string]string{"off": ""})
		a.node("n6", nil)
		tr.join(ctx, &wg, dir, 6)
		tr.stays("partitioned", 10*time.Minute, func() {})
		cut(false)
		tr.settled(a, 6)
		tr.disarmed(t, "n1")

		a.watch(tr.replicas[1].hub, false) // it is behind from here on, and writes from what it knows
		a.node("n2", map[string]string{"off": ""})
		tr.goes(time.Minute)
		tr.disarmed(t, "n1", "n2") // by the replica that is not behind
		tr.mu.Lock()
		tr.nodes[1].replica = 1
		tr.mu.Unlock()
		tr.kill(a, dir, 0, true)
		tr.stays("killed, and the other one is behind", 10*time.Minute-time.Minute, func() {})
		a.watch(tr.replicas[1].hub, true)
		tr.goes(time.Minute)
		tr.disarmed(t, "n1", "n2")

		tr.kill(a, dir, 1, false) // the replica that replaces it sends wrong lists
		a.watch(tr.replicas[1].hub, false)
		rng := mrand.New(mrand.NewPCG(seed, 1))
		tr.goes(2 * time.Minute)
		honest := a.booked()
		believed := 0
		tr.stays("lied to", 10*time.Minute, func() {
			tr.replicas[1].hub.Booked("g", lie(rng, honest))
			for _, f := range tr.nodes {
				if f.core.Rosters().Succession().Next() != nil {
					believed++
				}
			}
		})
		if believed == 0 { // a controller may show some of these lists: they are kept out because no other node is shown them
			t.Error("no lie was as good as a list")
		}
	})
}

// disarmed compares the nodes that are under maintenance.
func (tr *troop) disarmed(t *testing.T, want ...string) {
	t.Helper()
	var is []string
	for _, f := range tr.nodes {
		f.mu.Lock()
		if _, off := f.state.Annotations["off"]; off {
			is = append(is, f.name)
		}
		f.mu.Unlock()
	}
	if !slices.Equal(is, want) {
		t.Fatalf("under maintenance are %v, want %v", is, want)
	}
}

// kill ends a replica and starts another one in its place.
func (tr *troop) kill(a *api, dir string, i int, writes bool) {
	tr.replicas[i].stop()
	r := newReplica(a, dir, writes)
	tr.mu.Lock()
	tr.replicas[i] = r
	tr.mu.Unlock()
}

// lie makes a list that is not the group's: without members, with other members, with other addresses, with numbers of any size.
func lie(rng *mrand.Rand, honest *memberbook.Book) *memberbook.Book {
	b := &memberbook.Book{Group: "g", Epoch: honest.Epoch + rng.Uint64N(5) - 2}
	switch rng.IntN(4) {
	case 0:
		b.Epoch = uint64(time.Now().Unix()) + rng.Uint64N(7200)
	case 1:
		b.Epoch = 1 + rng.Uint64N(1<<40)
	}
	for _, m := range honest.Members {
		if rng.IntN(4) == 0 {
			continue
		}
		if rng.IntN(6) == 0 {
			m.Addresses = map[string]string{"a": fmt.Sprintf("10.9.0.%d", 1+rng.IntN(200))}
		}
		b.Members = append(b.Members, m)
	}
	if rng.IntN(2) == 0 || len(b.Members) == 0 {
		b.Members = append(b.Members, roster.Member{Name: "z", Addresses: map[string]string{"a": "10.8.0.1"}})
	}
	return b
}

// writeCertificate writes a certificate that is its own CA.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, DNSNames: []string{"fencing-controller"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "ca.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

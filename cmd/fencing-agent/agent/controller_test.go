package agent

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
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	lists "github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// bookStore is an API server with one group's book and Nodes.
type bookStore struct {
	mu      sync.Mutex
	hub     *lists.Hub
	book    *memberbook.Book
	version int
	nodes   map[string]ownnode.State
}

func (s *bookStore) Read(context.Context, string) (*memberbook.Book, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.book == nil {
		return nil, "", nil
	}
	return s.book, strconv.Itoa(s.version), nil
}

func (s *bookStore) Nodes(context.Context, string) (names []string, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.nodes {
		names = append(names, n)
	}
	return names, nil
}

func (s *bookStore) Write(_ context.Context, b *memberbook.Book, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.book == nil) != (version == "") || s.book != nil && version != strconv.Itoa(s.version) {
		return lists.ErrConflict
	}
	s.book = b
	s.version++
	s.hub.Booked("test", b) // in order, as a watch reports it
	return nil
}

// node creates or changes a Node of the group.
func (s *bookStore) node(name string, annotations map[string]string) {
	s.nodeAt(name, 0, annotations)
}

// nodeAt creates or changes a Node of the group, with this version.
func (s *bookStore) nodeAt(name string, version uint64, annotations map[string]string) {
	st := ownnode.State{Known: true, Exists: true, UID: "u-" + name, Version: version, Annotations: annotations}
	s.mu.Lock()
	s.nodes[name] = st
	hub := s.hub
	s.mu.Unlock()
	hub.Seen(name, lists.Node{Group: "test", State: st})
}

// listController is the part of fencing-controller that serves lists. The token is the name of a node.
type listController struct {
	t       *testing.T
	dir     string
	address string
	store   *bookStore
	stop    func()
}

func newListController(t *testing.T, dir string) *listController {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"fencing-controller"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &listController{t: t, dir: dir, store: &bookStore{hub: lists.NewHub(), nodes: map[string]ownnode.State{}}}
	c.store.hub.Synced()
	t.Cleanup(func() { c.stop() })
	c.start(true)
	return c
}

// start starts a replica that knows the state of the API server. A replica that does not write may be given any list.
func (c *listController) start(writes bool) {
	c.t.Helper()
	address := c.address
	if address == "" {
		address = "127.81.4.1:0"
	}
	l, err := net.Listen("tcp4", address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.address = l.Addr().String()
	hub := lists.NewHub()
	c.store.mu.Lock()
	c.store.hub = hub
	for name, s := range c.store.nodes {
		hub.Seen(name, lists.Node{Group: "test", State: s})
	}
	if c.store.book != nil {
		hub.Booked("test", c.store.book)
	}
	c.store.mu.Unlock()
	hub.Synced()
	srv := grpc.NewServer(lists.Options(filepath.Join(c.dir, "tls.crt"), filepath.Join(c.dir, "tls.key"), slog.New(slog.DiscardHandler))...)
	fencingv1.RegisterFencingMembersServer(srv, &lists.Server{Hub: hub, Logger: slog.New(slog.DiscardHandler), Review: func(_ context.Context, token string) (string, error) {
		node, ok := strings.CutPrefix(token, "token-of-")
		if !ok {
			return "", lists.ErrRefused
		}
		return node, nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	if writes {
		wg.Go(func() {
			(&lists.Scribe{Hub: hub, Store: c.store, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		})
	}
	c.stop = sync.OnceFunc(func() { cancel(); srv.Stop(); wg.Wait() })
}

// configureController writes the file of a node that follows the controller.
func (f *fleet) configureController(c *listController, names ...string) {
	f.t.Helper()
	for _, name := range names {
		text := fmt.Sprintf(`nodeName: %[1]s
nodeGroup: test
members:
  source: controller
  cacheFile: %[2]s/%[1]s.json
  controller: {address: "%[5]s", serverName: fencing-controller, credentials: %[2]s/%[1]s.credentials, founders: [n1, n2]}
systemNetworks:
  - {name: a, at: 127.81.1.%[3]d, port: %[4]d}
  - {name: b, at: 127.81.2.%[3]d, port: %[4]d}
watchdog: {driver: none, timeout: 10s, disableFile: %[2]s/%[1]s.off}
api: {socket: %[2]s/%[1]s.sock}
http: {address: ""}
`, name, f.dir, f.hosts[name], f.port, c.address)
		ca, err := os.ReadFile(filepath.Join(f.dir, "tls.crt"))
		folder := filepath.Join(f.dir, name+".credentials")
		if err := errors.Join(err, os.MkdirAll(folder, 0o700)); err != nil {
			f.t.Fatal(err)
		}
		for path, text := range map[string]string{f.path(name): text, filepath.Join(folder, "ca.crt"): string(ca), filepath.Join(folder, "token"): "token-of-" + name + "\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// A group is founded by the controller's list and takes over its number; a node joins; annotations disarm. A controller
// that is away changes nothing, even while agents restart, and its lists count again when it is back.
func TestMembersFromTheController(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	c := newListController(t, f.dir)
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	f.configureController(c, four...)
	for _, n := range three {
		c.store.node(n, nil)
	}
	f.start(three...)
	f.agree(three...)
	numbered := func(names ...string) {
		t.Helper()
		for _, n := range names {
			f.until(n, "by the number of the book", func(s *fencingv1.Status) bool { return s.Roster.GetEpoch() > 1<<30 && s.Roster.Change == "" })
		}
	}
	numbered(three...)
	f.mark()

	c.store.node("n4", nil)
	f.start("n4")
	f.agree(four...)
	numbered(four...)
	f.calm(three...)
	f.mark()

	c.store.node("n2", map[string]string{"fencing-agent.io/disable": ""})
	f.until("n2", "under maintenance", func(s *fencingv1.Status) bool { return len(s.Verdict.GetDisarmedBy()) > 0 })
	c.stop() // from here on the controller does not answer
	f.stop("n2", nil)
	f.start("n2")
	f.agree(four...)
	f.counted("n2", "n1", "n3") // otherwise n4 leaves while n2 is not counted, and two of four have no quorum
	f.calm("n1", "n3")
	f.mark()
	f.stop("n4", ErrAbandon)
	f.start("n4")
	f.agree(four...)
	f.calm("n1", "n2", "n3")
	f.until("n2", "still under maintenance", func(s *fencingv1.Status) bool { return len(s.Verdict.GetDisarmedBy()) > 0 })
	f.until("n4", "not disarmed", func(s *fencingv1.Status) bool { return len(s.Verdict.GetDisarmedBy()) == 0 })

	c.store.nodeAt("n2", 100, map[string]string{"fencing-agent.io/disable": ""})
	c.start(false)
	f.until("n2", "told", func(*fencingv1.Status) bool {
		return strings.Contains(f.nodes["n2"].logged()[f.nodes["n2"].mark:], "following the controller again")
	})
	c.store.nodeAt("n2", 99, nil) // as a replica sends it that is behind
	f.until("n2", "not misled", func(s *fencingv1.Status) bool {
		return strings.Contains(f.nodes["n2"].logged()[f.nodes["n2"].mark:], "an older state of this node's Node than the one that this agent knows") && len(s.Verdict.GetDisarmedBy()) > 0
	})
	c.store.nodeAt("n2", 101, nil)
	f.until("n2", "at work", func(s *fencingv1.Status) bool { return len(s.Verdict.GetDisarmedBy()) == 0 })
	f.calm("n1", "n3", "n4")
	f.lied(c, four...)
}

// counted waits until the others again count a node that announced its stop and has come back.
func (f *fleet) counted(node string, by ...string) {
	f.t.Helper()
	for _, o := range by {
		f.until(o, "counting "+node+" again", func(s *fencingv1.Status) bool {
			return slices.ContainsFunc(s.GetNodes(), func(n *fencingv1.NodeStatus) bool {
				return n.GetName() == node && n.GetCounted() && n.GetSeesThisNode() && !n.GetStopping()
			})
		})
	}
}

// lied makes the controller send a wrong list, which no node may follow.
func (f *fleet) lied(c *listController, names ...string) {
	f.t.Helper()
	c.store.mu.Lock()
	honest, hub := c.store.book, c.store.hub
	c.store.mu.Unlock()
	list := func(epoch uint64, members []roster.Member) *memberbook.Book {
		return &memberbook.Book{Group: "test", Epoch: epoch, Members: members}
	}
	elsewhere := slices.Clone(honest.Members)
	for i := range elsewhere {
		elsewhere[i].Addresses = maps.Clone(elsewhere[i].Addresses)
		elsewhere[i].Addresses["a"] = fmt.Sprintf("127.81.9.%d", i+1)
	}
	f.mark()
	before := f.status("n1").Roster.GetEpoch()
	for _, lie := range []struct {
		book *memberbook.Book
		says string
	}{
		{list(honest.Epoch-1, honest.Members), "is older than"},
		{list(honest.Epoch, honest.Members[:3]), "another list has epoch"},
		{list(uint64(time.Now().Unix())+7200, honest.Members), "ahead of this node's clock"},
		{list(honest.Epoch+1, honest.Members[:1]), "are to be removed"},
		{list(honest.Epoch+2, elsewhere), "it lists this node with the addresses"},
	} {
		hub.Booked("test", lie.book)
		for _, n := range names {
			deadline := time.Now().Add(fleetPatience)
			for !strings.Contains(f.nodes[n].logged()[f.nodes[n].mark:], lie.says) {
				if time.Now().After(deadline) {
					f.t.Fatalf("%s does not say %q", n, lie.says)
				}
				<-time.After(50 * time.Millisecond)
			}
		}
	}
	for _, n := range names {
		if s := f.status(n); s.Roster.GetEpoch() != before || int(s.Roster.GetSize()) != len(names) || s.Roster.Change != "" {
			f.t.Errorf("%s goes by %v", n, s.Roster)
		}
	}
	f.calm(names...)
}

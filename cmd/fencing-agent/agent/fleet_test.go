package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

const (
	// fleetPatience limits every wait. It is longer than any of them takes on a busy machine.
	fleetPatience = 90 * time.Second
	// evidenceStall is a stall that may cost evidence. Evidence lasts for 4 s and is renewed every second.
	evidenceStall = 2 * time.Second
)

// fleet is a group of agents in this process, on loopback addresses of two networks.
type fleet struct {
	t      *testing.T
	dir    string
	port   int
	stalls *observe.Stalls
	hosts  map[string]int // the last byte of the node's addresses
	nodes  map[string]*crew
	source func(node string) members.Source // nil: the file
	kube   func() *client.Client            // returns the client of each agent; nil: none
}

// crew is one agent and its log.
type crew struct {
	a      *Agent
	cancel context.CancelCauseFunc
	done   chan error

	mu   sync.Mutex
	log  bytes.Buffer
	mark int // the number of bytes at the start of the log that calm does not check

	marked time.Time
}

func (c *crew) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *crew) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	l, err := net.Listen("tcp4", "127.81.1.250:0") // kept open, so that no other fleet takes the same port
	if err != nil {
		t.Skipf("no address 127.81.1.250 on this system: %v", err)
	}
	f := &fleet{t: t, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port, stalls: observe.NewStalls(), hosts: map[string]int{}, nodes: map[string]*crew{}}
	for i := range 9 {
		f.hosts[fmt.Sprintf("n%d", i+1)] = i + 1
	}
	t.Cleanup(func() {
		for name := range f.nodes {
			f.stop(name, ErrAbandon)
		}
		f.stalls.Close()
		_ = l.Close()
	})
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name+".yaml") }

// configure writes the file of a node.
func (f *fleet) configure(name string, epoch int, members ...string) {
	f.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "nodeName: %s\nnodeGroup: test\nmembers:\n  epoch: %d\n  cacheFile: %s.json\n  static:\n", name, epoch, filepath.Join(f.dir, name))
	for _, m := range members {
		fmt.Fprintf(&b, "    - {name: %s, addresses: {a: 127.81.1.%d, b: 127.81.2.%d}}\n", m, f.hosts[m], f.hosts[m])
	}
	fmt.Fprintf(&b, "systemNetworks:\n  - {name: a, at: 127.81.1.%d, port: %d}\n  - {name: b, at: 127.81.2.%d, port: %d}\n", f.hosts[name], f.port, f.hosts[name], f.port)
	fmt.Fprintf(&b, "watchdog: {driver: none, timeout: 10s, disableFile: %s.off}\napi: {socket: %s.sock}\nhttp: {address: \"\"}\n",
		filepath.Join(f.dir, name), filepath.Join(f.dir, name))
	if err := os.WriteFile(f.path(name), []byte(b.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// start starts agents, all at the same time: without a list of members they wait for each other.
func (f *fleet) start(names ...string) {
	f.t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, len(names))
	contexts := make([]context.Context, len(names))
	for i, name := range names {
		cfg, _, err := config.Load(f.path(name), os.Getenv)
		if err != nil {
			f.t.Fatal(err)
		}
		c := &crew{done: make(chan error, 1)}
		f.nodes[name] = c
		contexts[i], c.cancel = context.WithCancelCause(f.t.Context())
		o := Options{Config: cfg, ConfigPath: f.path(name), Logger: slog.New(slog.NewTextHandler(c, nil)), Boot: uint64(name[1])}
		if f.kube != nil {
			o.Kubernetes = f.kube()
		}
		if f.source != nil {
			o.Members = f.source(name)
		}
		wg.Go(func() { c.a, errs[i] = prepare(contexts[i], o) })
	}
	wg.Wait()
	for i, name := range names {
		c := f.nodes[name]
		if errs[i] != nil {
			delete(f.nodes, name)
			f.t.Fatalf("%s: %v\n%s", name, errs[i], c.logged())
		}
		go func() { c.done <- c.a.run(contexts[i]) }()
	}
}

func (f *fleet) stop(name string, cause error) {
	c := f.nodes[name]
	delete(f.nodes, name)
	c.cancel(cause)
	if err := <-c.done; f.t.Failed() {
		f.t.Logf("--- %s: %v\n%s", name, err, c.logged())
	}
}

// status returns the latest picture of a node, or an empty one.
func (f *fleet) status(name string) *fencingv1.Status {
	if s := f.nodes[name].a.status(); s != nil {
		return s
	}
	return &fencingv1.Status{Verdict: &fencingv1.Verdict{Tally: &fencingv1.Tally{}}, Roster: &fencingv1.RosterStatus{}}
}

// await waits until the nodes count the wanted number of members by the list of the epoch, and every node reaches every
// other on both networks.
func (f *fleet) await(epoch uint64, names ...string) {
	f.t.Helper()
	deadline := time.After(fleetPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var missing []string
		for _, name := range names {
			s := f.status(name)
			if s.Roster.Epoch != epoch || s.Roster.Size != uint32(len(names)) || s.Verdict.Tally.Counted != uint32(len(names)) || !s.Verdict.Quorum || s.Roster.Change != "" {
				missing = append(missing, fmt.Sprintf("%s: %v %v", name, s.Roster, s.Verdict))
			}
			for _, n := range s.Networks {
				reachable := 0
				for _, m := range n.Members {
					if m.Reachable {
						reachable++
					}
				}
				if reachable < len(names)-1 {
					missing = append(missing, fmt.Sprintf("%s reaches %d on %s", name, reachable, n.Name))
				}
			}
		}
		if len(missing) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("the list of epoch %d does not come into force:\n%s", epoch, strings.Join(missing, "\n"))
		}
	}
}

// mark makes calm check from now on: a group that starts finds its quorum in several steps.
func (f *fleet) mark() {
	for _, c := range f.nodes {
		c.mark, c.marked = len(c.logged()), time.Now()
	}
}

// calm fails if a node that stayed has lost its quorum, or has reported another node that stayed as LEFT. Agents that
// stood still for as long as evidence lasts are right to do so.
func (f *fleet) calm(stayed ...string) {
	f.t.Helper()
	for _, name := range stayed {
		if d := f.stalls.Since(f.nodes[name].marked); d >= evidenceStall {
			f.t.Logf("the machine stood still for %v: whether %s was calm is not judged", d, name)
			continue
		}
		for line := range strings.Lines(f.nodes[name].logged()[f.nodes[name].mark:]) {
			if strings.Contains(line, `msg="verdict changed"`) && strings.Contains(line, "quorum=false") && !strings.Contains(line, "reason=starting") {
				f.t.Errorf("%s lost its quorum: %s", name, line)
			}
			if _, rest, ok := strings.Cut(line, `msg="membership changed" left=`); ok && slices.ContainsFunc(stayed, func(n string) bool { return strings.Contains(strings.SplitN(rest, "why=", 2)[0], n) }) {
				f.t.Errorf("%s says: %s", name, line)
			}
		}
	}
}

// The group goes from three agents to four and back to three, and one agent gets other addresses. Only the list in the
// files changes. No node that stays loses its quorum or is reported as LEFT.
func TestMembersChangeWhileAgentsRun(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	for _, n := range three {
		f.configure(n, 0, three...)
	}
	f.start(three...)
	f.await(0, three...)
	f.mark()

	for _, n := range four {
		f.configure(n, 1, four...)
	}
	f.start("n4")
	f.await(1, four...)
	f.calm(three...)
	f.mark()

	left := []string{"n2", "n3", "n4"}
	for _, n := range four {
		f.configure(n, 2, left...)
	}
	f.await(2, left...)
	f.calm(left...)
	deadline := time.Now().Add(fleetPatience)
	for !strings.Contains(f.nodes["n1"].logged(), "this node was removed from the group") {
		if time.Now().After(deadline) {
			t.Fatal("n1 is not told that it was removed")
		}
		<-time.After(50 * time.Millisecond)
	}
	f.until("n1", "disarmed, and says why", disarmedWith("the removal of this node from the list of members"))
	f.stop("n1", nil)

	// n4 moves: its agent must bind other addresses, so only this agent is restarted.
	f.stop("n4", nil)
	f.hosts["n4"] = 104
	for _, n := range left {
		f.configure(n, 3, left...)
	}
	f.start("n4")
	f.await(3, left...)
	f.calm("n2", "n3")
}

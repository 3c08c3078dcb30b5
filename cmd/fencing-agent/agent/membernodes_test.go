package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
)

var groupLabel = map[string]string{"node.deckhouse.io/group": "test"}

// configureKube writes the file of a node whose list comes from the API server.
func (f *fleet) configureKube(names ...string) {
	f.t.Helper()
	for _, name := range names {
		text := fmt.Sprintf(`nodeName: %[1]s
nodeGroup: test
members: {source: kubernetes, cacheFile: %[2]s/%[1]s.json}
experimental: {checkInterval: 2s}
kubernetes: {kubeconfig: /none, node: label}
quorum: {tieBreak: none}
systemNetworks:
  - {name: a, at: 127.81.1.%[3]d, port: %[4]d}
  - {name: b, at: 127.81.2.%[3]d, port: %[4]d}
watchdog: {driver: none, timeout: 10s, disableFile: %[2]s/%[1]s.off}
api: {socket: %[2]s/%[1]s.sock}
http: {address: ""}
`, name, f.dir, f.hosts[name], f.port)
		if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// agree waits until the nodes count each other by one common list, and returns its epoch.
func (f *fleet) agree(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.until(name, fmt.Sprintf("one of %d", len(names)), func(s *fencingv1.Status) bool {
			return int(s.Roster.GetSize()) == len(names) && int(s.Verdict.Tally.GetCounted()) == len(names) && s.Verdict.Quorum && s.Roster.Change == ""
		})
	}
}

// A group is founded from the Nodes with its label; the agents write the addresses there themselves. A node joins and
// one leaves, only by a change of its Node. An API server that is away changes nothing, even for an agent that is
// restarted.
func TestMembersFromTheAPIServer(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	s := k8stest.New(t)
	f.kube = func() *client.Client { return s.Client(t, nil) }
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	f.configureKube(four...)
	for _, n := range three {
		s.Put(k8stest.Node(n, groupLabel, fmt.Sprintf("127.81.1.%d", f.hosts[n])))
	}
	s.Put(k8stest.Node("stranger", nil, "127.81.1.200"))
	f.start(three...)
	f.agree(three...)
	f.mark()
	if a := s.Get("n2").Annotations[nodelist.AddressAnnotation+"b"]; a != "127.81.2.2" {
		t.Errorf("n2 says of its address on network b: %q", a)
	}

	s.Put(k8stest.Node("n4", groupLabel, "127.81.1.4"))
	f.start("n4")
	f.agree(four...)
	f.calm(three...)
	f.mark()

	s.Refuse(true)
	f.stop("n4", nil)
	f.start("n4")
	f.agree(four...)
	f.calm(three...)
	f.mark()
	s.Update("n1", func(n *corev1.Node) { n.Labels = nil })
	s.Refuse(false)
	f.agree("n2", "n3", "n4") // a list that gets shorter is believed after a while
	f.calm("n2", "n3", "n4")
	f.until("n1", "told that it was removed", func(st *fencingv1.Status) bool { return st.Roster.GetChange() != "" || !st.Verdict.Quorum })
	deadline := time.Now().Add(fleetPatience)
	for !strings.Contains(f.nodes["n1"].logged(), "this node was removed from the group") {
		if time.Now().After(deadline) {
			t.Fatal("n1 is not told that it was removed")
		}
		<-time.After(50 * time.Millisecond)
	}
	reasons := map[string]int{}
	for _, e := range s.Events() {
		reasons[e.InvolvedObject.Name+" "+e.Reason]++
	}
	if reasons["n2 DryRun"] != 1 || reasons["n2 WatchdogArmed"] != 0 || reasons["n2 QuorumLost"] != 0 || s.Get("n2").Labels["node-manager.deckhouse.io/fencing-mode"] != "Notify" {
		t.Errorf("events %v, labels of n2 %v", reasons, s.Get("n2").Labels)
	}
}

// An agent that waits for its first list is healthy, but not ready, and says what it waits for. The others lack exactly
// what it writes about itself.
func TestWaitingForTheFirstList(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	s := k8stest.New(t)
	l, err := net.Listen("tcp", "127.81.3.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // now the agent can use the address; no other test does
	f.configureKube("n1")
	text, err := os.ReadFile(f.path("n1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path("n1"), bytes.Replace(text, []byte(`address: ""`), []byte("address: "+address), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(f.path("n1"), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Boot: 1, Kubernetes: s.Client(t, nil)})
	}()
	says := func(path string, code int, want string) {
		t.Helper()
		deadline := time.Now().Add(fleetPatience)
		for {
			got := ""
			if resp, err := http.Get("http://" + address + path); err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got = string(body); resp.StatusCode == code && strings.Contains(got, want) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s says %q, want %q", path, got, want)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	says("/healthz", http.StatusOK, "waiting")
	says("/readyz", http.StatusServiceUnavailable, "no Node named n1 has the label")
	s.Put(k8stest.Node("n1", groupLabel, "127.81.1.1"))
	s.Put(k8stest.Node("n2", groupLabel, "127.81.1.2"))
	says("/readyz", http.StatusServiceUnavailable, "node n2 has 127.81.1.2 on the networks a and b")
	if a := s.Get("n1").Annotations[nodelist.AddressAnnotation+"b"]; a != "127.81.2.1" {
		t.Errorf("n1 says of its address on network b: %q", a)
	}
	s.Delete("n2")
	says("/readyz", http.StatusOK, "ok")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package fencing

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/kdump"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

func listener(now func() time.Time) *Crashes {
	return NewCrashes("", slog.New(slog.NewTextHandler(io.Discard, nil)), now, prometheus.NewRegistry())
}

var kdumpMessage = []byte("@*0\x1b\x01\x00\x00\x00")

func nodeAt(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// A sender with an address of no Node, or of two Nodes, is not heard.
func TestWhoIsHeard(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c, o := listener(func() time.Time { return now }), owners{}
	o.add(nodeAt("n3", "192.0.2.3", "192.0.2.7"))
	with := nodeAt("n4", "192.0.2.4", "n4.example", "192.0.2.4", "2001:db8::4")
	with.Annotations = map[string]string{"fencing-agent.io/address.storage": "198.51.100.4", "other": "198.51.100.9"}
	o.add(with)
	o.add(nodeAt("n5", "192.0.2.7"))
	o.add(nodeAt("n6", "192.0.2.7"))
	c.know(o)
	for _, s := range []struct {
		from, message string
		node          string
	}{
		{"192.0.2.4:4711", string(kdumpMessage), "n4"},
		{"[::ffff:192.0.2.4]:4711", string(kdumpMessage), "n4"},
		{"[2001:db8::4]:4711", string(kdumpMessage), "n4"},
		{"198.51.100.4:4711", string(kdumpMessage), "n4"},
		{"192.0.2.3:4711", string(kdumpMessage), "n3"},
		{"192.0.2.7:4711", string(kdumpMessage), ""},
		{"198.51.100.9:4711", string(kdumpMessage), ""},
		{"192.0.2.4:4711", "hello", ""},
	} {
		c.book = kdump.Book{}
		c.take([]byte(s.message), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.from)))
		for _, name := range []string{"n3", "n4", "n5", "n6"} {
			heard := !c.judge(name, nodefence.Node{Exists: true, Boot: "b"}, now).Last.IsZero()
			if heard != (name == s.node) {
				t.Errorf("%s: %s is heard: %v", s.from, name, heard)
			}
		}
	}
	if got := testutil.ToFloat64(c.messages.WithLabelValues("unknown")); got != 2 {
		t.Errorf("%v unknown", got)
	}
}

const realSender = "/usr/libexec/fence-agents/fence_kdump_send"

// Debian's fence_kdump_send, as it runs in a crash kernel, is a proof for its node, which is then fenced; and for no
// other.
func TestRealSender(t *testing.T) {
	if _, err := os.Stat(realSender); err != nil {
		t.Skip("needs Debian's fence-agents: " + err.Error())
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := listener(time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, conn) }()
	defer func() {
		if cancel(); <-done != nil {
			t.Error("it did not stop in order")
		}
	}()
	s := newStage(t)
	s.configure("begin_by=not-ready", "trigger_after=86400")
	s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fence-config-n4"}, Data: map[string]string{"config.properties": "node_name=n4\nkdump=true\npower_management=bmc-off bmc-on"}})
	s.node("n4", false, "0", time.Now())
	n4 := &corev1.Node{}
	if err := s.Get(ctx, clientKey("n4"), n4); err != nil {
		t.Fatal(err)
	}
	n4.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	s.put(n4)
	s.r.Crashes, s.r.Now = c, time.Now
	if s.round(); s.fence() != nil {
		t.Fatal("it begins without a message")
	}
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	sender := exec.CommandContext(ctx, realSender, "-p", port, "-i", "5", "127.0.0.1")
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	defer func() { _ = sender.Process.Kill(); _ = sender.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.fence() == nil || s.fence().Status.Proof == nil {
		if time.Since(began) > time.Minute {
			t.Fatalf("no proof: %+v", s.fence())
		}
		<-tick.C
		s.round()
	}
	f := s.fence()
	t.Logf("the sender began %v before the proof", time.Since(began).Round(100*time.Millisecond))
	if f.Status.Proof.Kind != nodefence.ByKdump || f.Status.Dump == nil || time.Since(began) < 5*time.Second {
		t.Errorf("%+v", f.Status)
	}
	if ok, err := s.r.Proof(ctx, "n4", dead); !ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	s.rounds(5)
	if got := strings.Join(s.ran, " "); strings.Contains(got, "bmc-off") {
		t.Errorf("%s: the power was cut while the dump is written", got)
	}
}

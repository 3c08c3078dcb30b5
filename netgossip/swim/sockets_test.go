package swim_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// These tests use real sockets on 127.0.0.0/8 and real time.

// patience bounds the waits in real time, on a machine that may be busy.
const patience = time.Minute

func loopback(i int) netip.Addr { return netgossiptest.Loopback(i + 1) }

func TestListenConforms(t *testing.T) {
	for i, c := range netgossiptest.TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Cleanup(func() { goleak.VerifyNone(t) })
			port := uint16(testPort + 10 + i)
			c.Run(t, swim.Listen, netip.AddrPortFrom(loopback(100), port), netip.AddrPortFrom(loopback(101), port))
		})
	}
}

func TestListenConformsOnIPv6(t *testing.T) {
	for i, c := range netgossiptest.TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Cleanup(func() { goleak.VerifyNone(t) })
			// There is one IPv6 loopback address only, so the ports differ.
			port := uint16(20000 + os.Getpid()%1000*10)
			a, b := netip.AddrPortFrom(netip.IPv6Loopback(), port+uint16(i)), netip.AddrPortFrom(netip.IPv6Loopback(), port+uint16(i)+1)
			probe, err := swim.Listen(a)
			if err != nil {
				t.Skipf("needs IPv6 and free ports: %v", err)
			}
			probe.Shutdown()
			c.Run(t, swim.Listen, a, b)
		})
	}
}

// brisk makes an instance fast enough for a test in real time.
func brisk(c *swim.Config) {
	p := &c.Params
	p.GossipInterval, p.ProbeInterval, p.ProbeTimeout = 20*time.Millisecond, 100*time.Millisecond, 40*time.Millisecond
	p.SuspicionMaxTimeoutMult, p.AwarenessMaxMultiplier = 2, 2
	p.TCPTimeout, p.RejoinInterval = time.Second, 200*time.Millisecond
	p.EvidenceInterval, p.EvidenceTimeout, p.EvidenceMaxAge = 100*time.Millisecond, 40*time.Millisecond, time.Second
	p.GossipToTheDeadTime = time.Second
}

func TestOnRealSockets(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	c := &cluster{t: t}
	for i := range 3 {
		nd := configure(t, 3, i, loopback, swim.Listen, brisk)
		nd.cfg.Keyring = keyring(t, "k")
		nd.sink.hook = runtime.Gosched // gives a second call the chance to come in
		if i == 1 {
			nd.cfg.Transport = nil
		}
		nd.start(t)
		defer func() { nd.stop(t, i == 2) }()
		c.nodes = append(c.nodes, nd)
	}
	c.awaitComplete(patience)
	n1 := c.nodes[0]

	ended := clock()
	n1.stop(t, false)
	c.await(patience, "its end is noticed by both", func() bool { return !c.nodes[1].sink.isAlive(0) && !c.nodes[2].sink.isAlive(0) })
	if c.nodes[1].sink.anchor(0) > ended || c.nodes[2].sink.anchor(0) > ended {
		t.Error("evidence of one that has ended")
	}
	n1.restart(t)
	c.awaitComplete(patience)
	c.nodes[1].say(7)
	c.nodes[1].Nudge()
	c.await(patience, "the nudge is heard", func() bool { return n1.sink.latest(1).Token.Counter == 7 })
	for _, nd := range c.nodes {
		s := nd.Stats()
		if s.PacketsIn == 0 || s.PacketsOut == 0 || s.BytesIn < s.PacketsIn || s.BytesOut < s.PacketsOut || s.Answers > s.Probes {
			t.Errorf("stats %+v", s)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	a := configure(t, 1, 0, loopback, nil, nil)
	a.start(t)
	b := configure(t, 1, 0, loopback, nil, nil)
	_, err := swim.New(b.cfg)
	want := fmt.Sprintf("swim network mgmt: listen %s:%d: address already in use: another agent", a.addr, testPort)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	a.stop(t, false)
	b.start(t) // right after: an instance is replaced like this
	b.stop(t, false)

	elsewhere := configure(t, 1, 0, func(int) netip.Addr { return netip.MustParseAddr("198.51.100.1") }, nil, nil)
	if _, err := swim.New(elsewhere.cfg); err == nil || !strings.Contains(err.Error(), "the node does not have this address") {
		t.Errorf("error %v for a foreign address", err)
	}
}

func TestStopBreaksStreams(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	a := configure(t, 1, 0, loopback, nil, func(c *swim.Config) { c.Params.TCPTimeout, c.AnySource = time.Hour, true })
	a.start(t)
	c, err := net.Dial("tcp", netip.AddrPortFrom(a.addr, testPort).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{244}); err != nil { // only the beginning of a label
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	awaitStep(t, patience, time.Millisecond, "the stream is accepted", func() bool { return a.Stats().BytesIn > 0 })
	a.stop(t, false)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stream outlived the instance: %v", err)
	}
}

func TestNewWithoutStartHoldsTheAddress(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	a := configure(t, 1, 0, loopback, nil, nil)
	in, err := swim.New(a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.Instance = in
	if _, err := swim.New(a.cfg); err == nil {
		t.Error("New did not bind")
	}
	a.stop(t, false)
}

package netgossiptest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// patience bounds every wait of the suite; a case that needs it has failed.
const patience = 30 * time.Second

// TransportCase is one clause of the contract of a transport. a and b are unused addresses that the transport can
// listen on.
type TransportCase struct {
	Name string
	Run  func(t *testing.T, listen Listen, a, b netip.AddrPort)
}

// TransportCases returns the contract. It is a list because subtests cannot be started
// inside a synctest bubble, while each case can be run in one of its own.
func TransportCases() []TransportCase {
	return []TransportCase{
		{"packets arrive with their sender's address", testPackets},
		{"the sender may reuse its buffer", testBufferReuse},
		{"packets to nobody vanish", testPacketsToNobody},
		{"packets nobody reads do not block the sender", testOverflow},
		{"streams carry both directions", testStreams},
		{"dialing nobody fails", testDialNobody},
		{"an address is listened on once", testAddressInUse},
		{"shutdown does not wait for a reader", testShutdownUnread},
		{"after shutdown nothing is sent and the address is free", testAfterShutdown},
	}
}

// Loopback returns the i-th address of 127.0.0.0/8 that belongs to this process, so that test processes running side by
// side do not use the same one.
func Loopback(i int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(128 + pid>>8&0x7f), byte(pid), byte(i)})
}

func addrOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

func mustListen(t *testing.T, listen Listen, at netip.AddrPort) memberlist.NodeAwareTransport {
	t.Helper()
	tr, err := listen(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Shutdown() })
	return tr
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s arrived", what)
		panic("unreachable")
	}
}

func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s did not return", what)
	}
}

func testPackets(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta, tb := mustListen(t, listen, a), mustListen(t, listen, b)
	large := bytes.Repeat([]byte{7}, 1400)
	if _, err := ta.WriteTo(large, b.String()); err != nil {
		t.Fatal(err)
	}
	p := receive(t, tb.PacketCh(), "packet")
	if !bytes.Equal(p.Buf, large) || addrOf(p.From) != a.Addr() || p.Timestamp.IsZero() {
		t.Errorf("packet of %d bytes from %v at %v", len(p.Buf), p.From, p.Timestamp)
	}
	if _, err := tb.WriteToAddress([]byte("reply"), memberlist.Address{Addr: p.From.String(), Name: "somebody"}); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, ta.PacketCh(), "reply"); string(p.Buf) != "reply" || addrOf(p.From) != b.Addr() {
		t.Errorf("reply %q from %v", p.Buf, p.From)
	}
}

func testBufferReuse(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta, tb := mustListen(t, listen, a), mustListen(t, listen, b)
	buf := []byte("first")
	if _, err := ta.WriteTo(buf, b.String()); err != nil {
		t.Fatal(err)
	}
	copy(buf, "spoil")
	if p := receive(t, tb.PacketCh(), "packet"); string(p.Buf) != "first" {
		t.Errorf("received %q", p.Buf)
	}
}

func testPacketsToNobody(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta := mustListen(t, listen, a)
	within(t, "WriteTo", func() {
		for range 10 {
			if _, err := ta.WriteTo([]byte("hello?"), b.String()); err != nil {
				t.Error(err)
			}
		}
	})
}

func testOverflow(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta := mustListen(t, listen, a)
	mustListen(t, listen, b)
	within(t, "WriteTo", func() {
		for range 3 * queueSize {
			if _, err := ta.WriteTo([]byte("too much"), b.String()); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

func testStreams(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta, tb := mustListen(t, listen, a), mustListen(t, listen, b)
	out, err := ta.DialAddressTimeout(memberlist.Address{Addr: b.String(), Name: "b"}, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in := receive(t, tb.StreamCh(), "stream")
	defer in.Close()
	if got := addrOf(in.RemoteAddr()); got != a.Addr() {
		t.Errorf("stream comes from %v, want %v", got, a.Addr())
	}
	for _, way := range []struct{ from, to net.Conn }{{out, in}, {in, out}} {
		go way.from.Write([]byte("some state"))
		buf := make([]byte, len("some state"))
		way.to.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(way.to, buf); err != nil || string(buf) != "some state" {
			t.Fatalf("read %q, %v", buf, err)
		}
	}
	in.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	var timeout net.Error
	if _, err := in.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read past its deadline: %v", err)
	}
	out.Close()
	in.SetReadDeadline(time.Now().Add(patience))
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read from a closed stream: %v", err)
	}
}

func testDialNobody(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta := mustListen(t, listen, a)
	within(t, "DialTimeout", func() {
		if c, err := ta.DialTimeout(b.String(), patience/2); err == nil {
			c.Close()
			t.Error("dialing nobody succeeded")
		}
	})
}

func testAddressInUse(t *testing.T, listen Listen, a, _ netip.AddrPort) {
	mustListen(t, listen, a)
	tr, err := listen(a)
	if err == nil {
		tr.Shutdown()
		t.Fatal("the address was listened on twice")
	}
	// memberlist's transport formats the cause into text, so the text is the contract.
	if !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		t.Errorf("error %q does not say that the address is in use", err)
	}
}

func testShutdownUnread(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta, tb := mustListen(t, listen, a), mustListen(t, listen, b)
	for range 100 {
		if _, err := ta.WriteTo([]byte("unread"), b.String()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		c, err := ta.DialTimeout(b.String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	within(t, "Shutdown", func() { tb.Shutdown() })
	within(t, "second Shutdown", func() { tb.Shutdown() })
}

func testAfterShutdown(t *testing.T, listen Listen, a, b netip.AddrPort) {
	ta, tb := mustListen(t, listen, a), mustListen(t, listen, b)
	out, err := ta.DialTimeout(b.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in := receive(t, tb.StreamCh(), "stream")
	defer in.Close()
	if err := ta.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if _, err := ta.WriteTo([]byte("late"), b.String()); err == nil {
		t.Error("a packet was sent after shutdown")
	}
	if c, err := ta.DialTimeout(b.String(), patience); err == nil {
		c.Close()
		t.Error("a stream was opened after shutdown")
	}
	again := mustListen(t, listen, a)
	if _, err := tb.WriteTo([]byte("again"), a.String()); err != nil {
		t.Fatal(err)
	}
	receive(t, again.PacketCh(), "packet after reopening the address")
}

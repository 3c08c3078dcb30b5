package swim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

const transportPort = 17990

func testLedger(peers ...netip.Addr) *ledger {
	var targets []target
	for _, p := range peers {
		targets = append(targets, target{addr: memberlist.Address{Addr: netip.AddrPortFrom(p, transportPort).String()}})
	}
	return newLedger(NewMetrics(nil).network("mgmt"), boottime.Now, targets)
}

// listenHere opens sockets at the i-th loopback address of this process.
func listenHere(t *testing.T, i int, device string, l *ledger) *sockets {
	t.Helper()
	s, err := openSockets(netip.AddrPortFrom(netgossiptest.Loopback(i), transportPort), device, l, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown() })
	return s
}

func send(t *testing.T, from, to *sockets, b []byte) {
	t.Helper()
	if _, err := from.WriteTo(b, to.at.String()); err != nil {
		t.Fatal(err)
	}
}

func take[T any](t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing arrived")
	}
	return v
}

// until waits for a condition.
func until(t *testing.T, what string, within time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(time.Millisecond)
	}
}

func TestReceivedPacketsAreCopiesOfTheirSize(t *testing.T) {
	defer goleak.VerifyNone(t)
	a, b := listenHere(t, 200, "", testLedger()), listenHere(t, 201, "", testLedger())
	defer b.Shutdown()
	defer a.Shutdown()
	var got []*memberlist.Packet
	for i := range 10 {
		send(t, a, b, bytes.Repeat([]byte{byte(i)}, 100))
		got = append(got, take(t, b.PacketCh()))
	}
	for i, p := range got {
		if !bytes.Equal(p.Buf, bytes.Repeat([]byte{byte(i)}, 100)) {
			t.Errorf("packet %d was overwritten: %v", i, p.Buf)
		}
		if cap(p.Buf) > 128 {
			t.Errorf("packet %d holds %d bytes", i, cap(p.Buf))
		}
	}
	largest := make([]byte, 65507)
	send(t, a, b, largest)
	if p := take(t, b.PacketCh()); len(p.Buf) != len(largest) {
		t.Errorf("%d of %d bytes arrived", len(p.Buf), len(largest))
	}
}

func TestLedgerCountsBothDirections(t *testing.T) {
	defer goleak.VerifyNone(t)
	la, lb := testLedger(), testLedger(netgossiptest.Loopback(202))
	a, b, stranger := listenHere(t, 202, "", la), listenHere(t, 203, "", lb), listenHere(t, 204, "", testLedger())
	defer stranger.Shutdown()
	defer b.Shutdown()
	defer a.Shutdown()

	send(t, stranger, b, []byte("knock"))
	take(t, b.PacketCh())
	if lb.heard.Load() != 0 {
		t.Error("a stranger broke the silence")
	}
	send(t, a, b, nil) // memberlist would index into it
	until(t, "the empty packet is refused", 10*time.Second, func() bool { return lb.refused[refusedMalformed].n.Load() == 1 })
	before := boottime.Now()
	send(t, a, b, []byte("hello"))
	take(t, b.PacketCh())
	if at := boottime.Instant(lb.heard.Load()); at < before || at > boottime.Now() {
		t.Errorf("last packet at %v", at)
	}
	c, err := a.DialTimeout(b.at.String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	in := take(t, b.StreamCh())
	for _, s := range []net.Conn{c, in} {
		if s.(*stream).Conn.(*net.TCPConn).LocalAddr().(*net.TCPAddr).AddrPort().Addr() != addrOf(s.LocalAddr()) {
			t.Error("no TCP stream")
		}
		if mp, err := s.(*stream).Conn.(*net.TCPConn).MultipathTCP(); mp || err != nil {
			t.Errorf("multipath TCP %v, %v: it would leave the device", mp, err)
		}
	}
	if _, err := c.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(in, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(la.packetsOut.n.Load(), la.bytesOut.n.Load(), lb.packetsIn.n.Load(), lb.bytesIn.n.Load())
	if want := fmt.Sprintln(2, 5+5, 2, 5+5+5); got != want {
		t.Errorf("counts %swant %s", got, want)
	}
	c.Close()
	in.Close()
	for _, s := range []*sockets{a, b} {
		s.streams.mu.Lock()
		if n := len(s.streams.open); n != 0 {
			t.Errorf("%d closed streams are remembered", n)
		}
		s.streams.mu.Unlock()
	}
}

// The next packet that arrives carries the count of packets that the kernel dropped.
func TestKernelOverflowIsCounted(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := testLedger()
	a, b := listenHere(t, 205, "", testLedger()), listenHere(t, 206, "", l)
	defer b.Shutdown()
	defer a.Shutdown()
	if err := b.pair.Load().raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	}); err != nil {
		t.Fatal(err)
	}
	sent, received := 500, 0
	for range sent {
		send(t, a, b, []byte("too much"))
	}
	end := time.After(10 * time.Second)
	for received+int(l.droppedIn.n.Load()) < sent {
		select {
		case <-b.PacketCh():
			received++
		case <-time.After(50 * time.Millisecond):
			send(t, a, b, []byte("one more"))
			sent++
		case <-end:
			t.Fatalf("%d received and %d dropped of %d", received, l.droppedIn.n.Load(), sent)
		}
	}
	if got := received + int(l.droppedIn.n.Load()); got != sent || got == received {
		t.Errorf("%d received and %d dropped of %d", received, l.droppedIn.n.Load(), sent)
	}
}

func TestOverflowReadsForeignMessages(t *testing.T) {
	for _, b := range [][]byte{nil, {1}, make([]byte, 16), make([]byte, unix.CmsgSpace(4)), bytes.Repeat([]byte{0xff}, 64)} {
		if n, ok := overflow(b); ok {
			t.Errorf("overflow(%v) = %d", b, n)
		}
	}
}

// memberlist checks the type of an error, without unwrapping, to find out whether the peer is the cause. After any
// other error it does not suspect the peer.
func TestSendErrorsBlameThePeer(t *testing.T) {
	a := listenHere(t, 207, "", testLedger())
	check := func(name string, err error) {
		t.Helper()
		op, ok := err.(*net.OpError)
		if !ok || op.Op != "write" || op.Net != "udp" {
			t.Errorf("%s: error %T %v", name, err, err)
		}
	}
	_, err := a.WriteTo([]byte("x"), "198.51.100.1:7946") // has no route from 127.0.0.0/8
	check("no route", err)
	_, err = a.WriteTo([]byte("x"), "[2001:db8::1]:7946")
	check("another family", err)
	_, err = a.WriteTo([]byte("x"), "no address")
	check("no address", err)
	_, err = a.WriteTo(make([]byte, maxPacket), a.at.String())
	check("too large", err)
	if err := a.Shutdown(); err != nil {
		t.Fatal(err)
	}
	_, err = a.WriteTo([]byte("x"), a.at.String())
	check("closed", err)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v after Shutdown", err)
	}
	if got := a.ledger.packetsOut.n.Load() + a.ledger.droppedOut.n.Load(); got != 0 {
		t.Errorf("%d packets counted", got)
	}
}

// needPinning skips where sockets cannot be bound to a device.
func needPinning(t *testing.T) {
	t.Helper()
	s, err := ListenOn("lo")(netip.AddrPortFrom(netgossiptest.Loopback(208), transportPort))
	var pin *PinError
	if errors.As(err, &pin) && pin.Denied() {
		t.Skipf("needs Linux 5.7 or CAP_NET_RAW: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
}

func TestPinnedSocketsConform(t *testing.T) {
	needPinning(t)
	for i, c := range netgossiptest.TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Cleanup(func() { goleak.VerifyNone(t) })
			port := uint16(transportPort + 1 + i)
			c.Run(t, ListenOn("lo"), netip.AddrPortFrom(netgossiptest.Loopback(209), port), netip.AddrPortFrom(netgossiptest.Loopback(210), port))
		})
	}
}

// Every socket is bound, including those that dial and accept.
func TestPinningCoversEverySocket(t *testing.T) {
	needPinning(t)
	defer goleak.VerifyNone(t)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	a, b := listenHere(t, 211, "lo", testLedger()), listenHere(t, 212, "lo", testLedger())
	defer b.Shutdown()
	defer a.Shutdown()
	if got := a.pair.Load().index; got != lo.Index {
		t.Errorf("index %d, want %d", got, lo.Index)
	}
	out, err := a.DialTimeout(b.at.String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	in := take(t, b.StreamCh())
	for name, c := range map[string]syscall.Conn{
		"udp": a.pair.Load().udp, "tcp": a.pair.Load().tcp.(*net.TCPListener),
		"dialed": out.(*stream).Conn.(*net.TCPConn), "accepted": in.(*stream).Conn.(*net.TCPConn),
	} {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if index, err := pinnedIndex(raw); err != nil || index != lo.Index {
			t.Errorf("%s is bound to %d, %v", name, index, err)
		}
	}
	if moved, err := a.move("lo", lo.Index); moved || err != nil {
		t.Errorf("moved to where it is: %v, %v", moved, err)
	}
}

func TestPinErrors(t *testing.T) {
	at := netip.AddrPortFrom(netgossiptest.Loopback(213), transportPort)
	_, err := ListenOn("no-such-card")(at)
	var pin *PinError
	if !errors.As(err, &pin) || pin.Denied() {
		t.Fatalf("error %v", err)
	}
	if want := "bind sockets to device no-such-card: no such device"; listenError(at, err).Error() != want {
		t.Errorf("error %q, want %q", listenError(at, err), want)
	}
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOPROTOOPT} {
		if !(&PinError{Device: "eth0", Err: os.NewSyscallError("setsockopt", errno)}).Denied() {
			t.Errorf("%v is not taken for a denial", errno)
		}
	}
	s, err := Listen(at) // nothing was left open
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := s.(*sockets).move("no-such-card", 99); moved || err != nil {
		t.Errorf("sockets that were never pinned: %v, %v", moved, err)
	}
	s.Shutdown()
	if moved, err := s.(*sockets).move("lo", 1); moved || err != nil {
		t.Errorf("after Shutdown: %v, %v", moved, err)
	}
}

func TestPauseDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pause
		var took []time.Duration
		for range 10 {
			began := time.Now()
			if !p.wait(t.Context()) {
				t.Fatal("ended")
			}
			took = append(took, time.Since(began))
		}
		if took[0] != firstPause || took[1] != 2*firstPause || took[9] != lastPause {
			t.Errorf("pauses %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.wait(ctx) {
			t.Error("waited after the end")
		}
	})
}

// Real sockets also refuse foreign sources, unread.
func TestSocketsRefuseForeignSources(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := testLedger(netgossiptest.Loopback(214))
	refused := make(chan netip.Addr, 10)
	l.foreign = func(from netip.Addr) { refused <- from }
	peer, me, stranger := listenHere(t, 214, "", testLedger()), listenHere(t, 215, "", l), listenHere(t, 216, "", testLedger())
	defer stranger.Shutdown()
	defer me.Shutdown()
	defer peer.Shutdown()

	send(t, stranger, me, []byte("stranger"))
	if from := take(t, refused); from != stranger.at.Addr() {
		t.Errorf("refused %v", from)
	}
	send(t, peer, me, []byte("peer"))
	if p := take(t, me.PacketCh()); string(p.Buf) != "peer" {
		t.Errorf("received %q", p.Buf)
	}
	c, err := stranger.DialTimeout(me.at.String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger's stream stays open: %v", err)
	}
	take(t, refused)
	c.Close()
	if c, err = peer.DialTimeout(me.at.String(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	take(t, me.StreamCh()).Close()
	c.Close()
	if got := l.refused[refusedSource].n.Load(); got != 2 {
		t.Errorf("%d counted, want 2", got)
	}
}

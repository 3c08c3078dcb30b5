package swim

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// packetQueue is the number of packets that may wait for memberlist outside of the kernel.
	packetQueue = 64
	// firstPause and lastPause bound the pause after an error of a socket, which doubles each time. Without a pause, a
	// lasting error, such as too many open files, would cause a busy loop.
	firstPause, lastPause = 5 * time.Millisecond, time.Second
)

// sockets is the transport of an instance over UDP and TCP. If it is pinned to a device, nothing is sent or received
// through another one: when the device is down, the network is silent, even if there are routes through other devices.
//
// The transport reopens its sockets when the device has been replaced by another one of the same name; memberlist does
// not notice this.
type sockets struct {
	at      netip.AddrPort
	ledger  *ledger
	log     *log.Logger
	streams *streams
	packets chan *memberlist.Packet
	accepts chan net.Conn

	ctx    context.Context // ends dials and readers; memberlist's interface passes no context
	cancel context.CancelFunc
	pair   atomic.Pointer[pair] // never nil, but closed after Shutdown
	mu     sync.Mutex           // held by move and Shutdown throughout
	ended  bool                 // guarded by mu
	group  sync.WaitGroup       // the readers of all pairs
}

var _ memberlist.NodeAwareTransport = (*sockets)(nil)

func openSockets(at netip.AddrPort, device string, l *ledger, logger *log.Logger) (*sockets, error) {
	t := &sockets{
		at: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), ledger: l, log: logger, streams: newStreams(l),
		packets: make(chan *memberlist.Packet, packetQueue), accepts: make(chan net.Conn),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	p, err := openPair(t.ctx, t.at, device)
	if err != nil {
		t.cancel()
		return nil, err
	}
	t.install(p)
	return t, nil
}

func (t *sockets) install(p *pair) {
	t.pair.Store(p)
	t.group.Go(func() { t.receive(p) })
	t.group.Go(func() { t.accept(p) })
}

// move pins the transport to a device by opening new sockets there, unless it is the interface with the index that they
// are pinned to already. If it fails, the old sockets stay. Sockets that were never pinned also stay.
func (t *sockets) move(device string, index int) (moved bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.pair.Load()
	if t.ended || old.device == "" || old.index == index {
		return false, nil
	}
	// Sockets on different devices may have the same address and port. So no packet is lost that the old sockets would
	// have received.
	p, err := openPair(t.ctx, t.at, device)
	if err != nil {
		return false, err
	}
	t.install(p)
	_ = old.close() // the old sockets are not needed any more
	t.streams.cut(false)
	return true, nil
}

// device returns the device to which the transport is pinned; "": it is not pinned.
func (t *sockets) device() string { return t.pair.Load().device }

// receive passes on the packets of a UDP socket until the socket is closed.
func (t *sockets) receive(p *pair) {
	in := newInbox(p.udp)
	var pause pause
	for {
		n, from, dropped, err := in.read()
		at := time.Now()
		if dropped > 0 {
			t.ledger.droppedIn.add(dropped)
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !pause.wait(t.ctx) {
				return
			}
			t.log.Printf("[ERR] memberlist: receive on %s: %v", t.at, err)
			continue
		}
		pause = 0
		if n == 0 {
			t.ledger.refused[refusedMalformed].add(1) // memberlist expects at least one byte
			continue
		}
		t.ledger.received(n, from.Addr())
		if !t.ledger.admits(from.Addr()) || !t.ledger.opens(in.buf[:n], from.Addr()) {
			continue
		}
		select {
		case t.packets <- in.packet(n, from, at):
		case <-t.ctx.Done():
			return
		}
	}
}

// accept passes on the streams of a TCP socket until the socket is closed.
func (t *sockets) accept(p *pair) {
	var pause pause
	for {
		c, err := p.tcp.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !pause.wait(t.ctx) {
				return
			}
			t.log.Printf("[ERR] memberlist: accept on %s: %v", t.at, err)
			continue
		}
		pause = 0
		if !t.ledger.admits(addrOf(c.RemoteAddr())) {
			c.Close()
			continue
		}
		s, err := t.streams.accepted(c)
		if errors.Is(err, errCrowd) {
			continue
		} else if err != nil {
			return
		}
		select {
		case t.accepts <- s:
		case <-t.ctx.Done():
			s.Close()
			return
		}
	}
}

type pause time.Duration

// wait returns false if ctx ended first.
func (p *pause) wait(ctx context.Context) bool {
	*p = min(max(2*(*p), pause(firstPause)), pause(lastPause))
	timer := time.NewTimer(time.Duration(*p))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// FinalAdvertiseAddr returns this node's address and ignores its arguments: no other address is bound.
func (t *sockets) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.at.Addr().AsSlice(), int(t.at.Port()), nil
}

func (t *sockets) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *sockets) StreamCh() <-chan net.Conn { return t.accepts }

func (t *sockets) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet and never blocks. A packet that does not fit into the kernel's buffer is dropped and
// counted, as if the network had lost it.
//
// Errors are of type *net.OpError itself. memberlist v0.7.0 checks the type, without unwrapping, to distinguish an
// unreachable peer from a local error, after which it would not suspect the peer.
func (t *sockets) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return time.Time{}, &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	for {
		p := t.pair.Load()
		err = p.send(b, to)
		if !errors.Is(err, net.ErrClosed) || p == t.pair.Load() {
			break
		} // else the sockets were just replaced
	}
	switch {
	case err == nil:
		t.ledger.sent(len(b))
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOBUFS):
		t.ledger.droppedOut.add(1)
	default:
		return time.Time{}, &net.OpError{Op: "write", Net: "udp", Source: udpAddr(t.at), Addr: udpAddr(to), Err: err}
	}
	return time.Now(), nil
}

func udpAddr(at netip.AddrPort) net.Addr { return net.UDPAddrFromAddrPort(at) }

func (t *sockets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream from this node's address, through the device if pinned. The source address is
// needed even then: without it the kernel would use the device's first address.
func (t *sockets) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{
		Timeout: timeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(t.at.Addr(), 0)), Control: pinning(t.device()),
	}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(t.ctx, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	return t.streams.dialed(c)
}

// Shutdown closes the sockets, breaks the streams and waits for the readers, not for
// memberlist.
func (t *sockets) Shutdown() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	t.ended = true
	t.cancel()
	t.streams.cut(true)
	err := t.pair.Load().close()
	t.group.Wait()
	if err != nil {
		return fmt.Errorf("close sockets at %s: %w", t.at, err)
	}
	return nil
}

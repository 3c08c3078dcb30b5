package swim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Listener opens the packet and stream transport of one instance.
type Listener func(netip.AddrPort) (memberlist.NodeAwareTransport, error)

// Listen is the default [Listener]: a UDP and a TCP socket bound to the address, which
// streams are dialed from as well.
func Listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	return listen(at, log.New(io.Discard, "", 0))
}

func listen(at netip.AddrPort, logger *log.Logger) (memberlist.NodeAwareTransport, error) {
	inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().String()},
		BindPort:  int(at.Port()),
		Logger:    logger,
	})
	if err != nil {
		return nil, err
	}
	t := &sockets{NetTransport: inner, local: net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), 0))}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// listenError makes a user's error of what a Listener returned. memberlist formats the
// cause into text, so that only the text can be looked at.
func listenError(at netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE), strings.Contains(err.Error(), syscall.EADDRINUSE.Error()):
		return fmt.Errorf("listen %s: %w: another agent or a program with this port runs on the node; stop it or configure another port", at, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EADDRNOTAVAIL), strings.Contains(err.Error(), syscall.EADDRNOTAVAIL.Error()):
		return fmt.Errorf("listen %s: %w: the node does not have this address", at, syscall.EADDRNOTAVAIL)
	default:
		return fmt.Errorf("listen %s: %w", at, err)
	}
}

// sockets mends two things of memberlist's NetTransport: streams leave from the bound
// address instead of one that routing chooses, and Shutdown needs no reader.
type sockets struct {
	*memberlist.NetTransport
	local  *net.TCPAddr
	ctx    context.Context // ends the dials; the interface has no place for one
	cancel context.CancelFunc
	once   sync.Once
}

func (t *sockets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: t.local}
	return d.DialContext(t.ctx, "tcp", addr)
}

func (t *sockets) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// Shutdown throws away what the listeners hold in their hands: NetTransport would wait
// for somebody to take it.
func (t *sockets) Shutdown() error {
	var err error
	t.once.Do(func() {
		t.cancel()
		done := make(chan struct{})
		var discard sync.WaitGroup
		discard.Go(func() {
			for {
				select {
				case <-t.PacketCh():
				case c := <-t.StreamCh():
					c.Close()
				case <-done:
					return
				}
			}
		})
		err = t.NetTransport.Shutdown()
		close(done)
		discard.Wait()
	})
	return err
}

// meter counts what goes through a transport and closes its streams on Shutdown, so
// that nobody waits for their deadlines.
type meter struct {
	memberlist.NodeAwareTransport
	count   *counters
	packets chan *memberlist.Packet
	accepts chan net.Conn

	once    sync.Once
	closing chan struct{} // nobody listens any more: discard
	closed  chan struct{} // the transport below is shut
	pump    sync.WaitGroup

	mu      sync.Mutex
	streams map[*meteredStream]struct{} // nil after Shutdown
}

func newMeter(inner memberlist.NodeAwareTransport, count *counters) *meter {
	m := &meter{
		NodeAwareTransport: inner,
		count:              count,
		packets:            make(chan *memberlist.Packet, 64),
		accepts:            make(chan net.Conn),
		closing:            make(chan struct{}),
		closed:             make(chan struct{}),
		streams:            make(map[*meteredStream]struct{}),
	}
	m.pump.Go(m.run)
	return m
}

func (m *meter) run() {
	for {
		select {
		case p := <-m.NodeAwareTransport.PacketCh():
			m.count.packetsIn.add(1)
			m.count.bytesIn.add(len(p.Buf))
			select {
			case m.packets <- p:
			case <-m.closing:
			}
		case c := <-m.NodeAwareTransport.StreamCh():
			s, err := m.meter(c)
			if err != nil {
				continue
			}
			select {
			case m.accepts <- s:
			case <-m.closing:
				s.Close()
			}
		case <-m.closed:
			return
		}
	}
}

func (m *meter) meter(c net.Conn) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams == nil {
		c.Close()
		return nil, net.ErrClosed
	}
	s := &meteredStream{Conn: c, meter: m}
	m.streams[s] = struct{}{}
	return s, nil
}

func (m *meter) PacketCh() <-chan *memberlist.Packet { return m.packets }

func (m *meter) StreamCh() <-chan net.Conn { return m.accepts }

func (m *meter) WriteTo(b []byte, addr string) (time.Time, error) {
	return m.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (m *meter) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	at, err := m.NodeAwareTransport.WriteToAddress(b, a)
	if err == nil {
		m.count.packetsOut.add(1)
		m.count.bytesOut.add(len(b))
	}
	return at, err
}

func (m *meter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return m.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (m *meter) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := m.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return m.meter(c)
}

func (m *meter) Shutdown() error {
	var err error
	m.once.Do(func() {
		close(m.closing)
		m.mu.Lock()
		for s := range m.streams {
			s.Conn.Close()
		}
		m.streams = nil
		m.mu.Unlock()
		err = m.NodeAwareTransport.Shutdown()
		close(m.closed)
		m.pump.Wait()
	})
	return err
}

type meteredStream struct {
	net.Conn
	meter *meter
}

func (s *meteredStream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.meter.count.bytesIn.add(n)
	return n, err
}

func (s *meteredStream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.meter.count.bytesOut.add(n)
	return n, err
}

func (s *meteredStream) Close() error {
	s.meter.mu.Lock()
	delete(s.meter.streams, s)
	s.meter.mu.Unlock()
	return s.Conn.Close()
}

package netgossiptest

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Dropper cuts one node off from chosen peers above real sockets. One Dropper serves
// all transports of the node, since rules name the peers' addresses. The peer of a
// stream is told by its source address, so the transports below must dial from the
// address that they are bound to. The zero Dropper drops nothing.
type Dropper struct {
	mu       sync.Mutex
	to, from map[netip.Addr]bool
	streams  map[*droppedStream]struct{}
	dropped  uint64
}

// Over puts the Dropper on top of what listen opens.
func (d *Dropper) Over(listen Listen) Listen {
	return func(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
		inner, err := listen(at)
		if err != nil {
			return nil, err
		}
		return d.wrap(inner), nil
	}
}

// Cut drops what goes to and what comes from the peers.
func (d *Dropper) Cut(peers ...netip.Addr) { d.set(true, true, true, peers) }

// CutTo drops what goes to the peers. Streams need both directions: they are refused.
func (d *Dropper) CutTo(peers ...netip.Addr) { d.set(true, true, false, peers) }

// CutFrom drops what comes from the peers. Streams need both directions: they are refused.
func (d *Dropper) CutFrom(peers ...netip.Addr) { d.set(true, false, true, peers) }

// Heal lets everything to and from the peers pass again.
func (d *Dropper) Heal(peers ...netip.Addr) { d.set(false, true, true, peers) }

// HealAll lets everything pass again.
func (d *Dropper) HealAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.to)
	clear(d.from)
}

// Dropped counts the packets and streams that were refused so far.
func (d *Dropper) Dropped() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropped
}

func (d *Dropper) set(cut, to, from bool, peers []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.to == nil {
		d.to, d.from = make(map[netip.Addr]bool), make(map[netip.Addr]bool)
	}
	for _, p := range peers {
		if to {
			d.to[p] = cut
		}
		if from {
			d.from[p] = cut
		}
	}
	for s := range d.streams {
		if d.to[s.peer] || d.from[s.peer] {
			delete(d.streams, s)
			s.Conn.Close()
		}
	}
}

func (d *Dropper) dropsPacket(peer netip.Addr, outgoing bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	drop := d.from[peer]
	if outgoing {
		drop = d.to[peer]
	}
	if drop {
		d.dropped++
	}
	return drop
}

// admit registers a stream, or closes it and returns nil when its peer is cut off.
func (d *Dropper) admit(c net.Conn, peer netip.Addr) net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.to[peer] || d.from[peer] {
		d.dropped++
		c.Close()
		return nil
	}
	if d.streams == nil {
		d.streams = make(map[*droppedStream]struct{})
	}
	s := &droppedStream{Conn: c, dropper: d, peer: peer}
	d.streams[s] = struct{}{}
	return s
}

func (d *Dropper) wrap(inner memberlist.NodeAwareTransport) *droppingTransport {
	t := &droppingTransport{
		NodeAwareTransport: inner,
		dropper:            d,
		packets:            make(chan *memberlist.Packet),
		accepts:            make(chan net.Conn),
		closing:            make(chan struct{}),
		closed:             make(chan struct{}),
	}
	t.pump.Go(t.run)
	return t
}

// droppingTransport filters one transport.
type droppingTransport struct {
	memberlist.NodeAwareTransport
	dropper *Dropper
	packets chan *memberlist.Packet
	accepts chan net.Conn
	once    sync.Once
	closing chan struct{} // nobody listens any more: discard
	closed  chan struct{} // the transport below is shut
	pump    sync.WaitGroup
}

func (t *droppingTransport) run() {
	for {
		select {
		case p := <-t.NodeAwareTransport.PacketCh():
			if t.dropper.dropsPacket(addrOf(p.From), false) {
				continue
			}
			select {
			case t.packets <- p:
			case <-t.closing:
			}
		case c := <-t.NodeAwareTransport.StreamCh():
			s := t.dropper.admit(c, addrOf(c.RemoteAddr()))
			if s == nil {
				continue
			}
			select {
			case t.accepts <- s:
			case <-t.closing:
				s.Close()
			}
		case <-t.closed:
			return
		}
	}
}

func (t *droppingTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *droppingTransport) StreamCh() <-chan net.Conn { return t.accepts }

func (t *droppingTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *droppingTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if to, err := netip.ParseAddrPort(a.Addr); err == nil && t.dropper.dropsPacket(to.Addr(), true) {
		return time.Now(), nil
	}
	return t.NodeAwareTransport.WriteToAddress(b, a)
}

func (t *droppingTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (t *droppingTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return t.NodeAwareTransport.DialAddressTimeout(a, timeout)
	}
	if t.dropper.dropsPacket(to.Addr(), true) || t.dropper.dropsPacket(to.Addr(), false) {
		return nil, refused
	}
	c, err := t.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	if s := t.dropper.admit(c, to.Addr()); s != nil {
		return s, nil
	}
	return nil, refused
}

func (t *droppingTransport) Shutdown() error {
	var err error
	t.once.Do(func() {
		close(t.closing)
		err = t.NodeAwareTransport.Shutdown()
		close(t.closed)
		t.pump.Wait()
	})
	return err
}

type droppedStream struct {
	net.Conn
	dropper *Dropper
	peer    netip.Addr
}

func (s *droppedStream) Close() error {
	s.dropper.mu.Lock()
	delete(s.dropper.streams, s)
	s.dropper.mu.Unlock()
	return s.Conn.Close()
}

// addrOf returns the IP of an address, or the zero Addr, which no rule names.
func addrOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

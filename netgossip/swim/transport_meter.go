package swim

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// meter adds to the transport of a configured Listener what sockets do by themselves: it counts, and breaks the streams
// on Shutdown.
type meter struct {
	memberlist.NodeAwareTransport
	ledger  *ledger
	streams *streams
	packets chan *memberlist.Packet
	accepts chan net.Conn

	once    sync.Once
	closing chan struct{} // no reader any more: discard
	closed  chan struct{} // the transport below is closed
	pump    sync.WaitGroup
}

func newMeter(inner memberlist.NodeAwareTransport, l *ledger) *meter {
	m := &meter{
		NodeAwareTransport: inner,
		ledger:             l,
		streams:            newStreams(l),
		packets:            make(chan *memberlist.Packet, packetQueue),
		accepts:            make(chan net.Conn),
		closing:            make(chan struct{}),
		closed:             make(chan struct{}),
	}
	m.pump.Go(m.run)
	return m
}

func (m *meter) run() {
	for {
		select {
		case p := <-m.NodeAwareTransport.PacketCh():
			m.ledger.received(len(p.Buf), addrOf(p.From))
			if from := addrOf(p.From); !m.ledger.admits(from) || !m.ledger.opens(p.Buf, from) {
				continue
			}
			select {
			case m.packets <- p:
			case <-m.closing:
			}
		case c := <-m.NodeAwareTransport.StreamCh():
			if !m.ledger.admits(addrOf(c.RemoteAddr())) {
				c.Close()
				continue
			}
			s, err := m.streams.accepted(c)
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

func (m *meter) PacketCh() <-chan *memberlist.Packet { return m.packets }

func (m *meter) StreamCh() <-chan net.Conn { return m.accepts }

func (m *meter) WriteTo(b []byte, addr string) (time.Time, error) {
	return m.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (m *meter) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	at, err := m.NodeAwareTransport.WriteToAddress(b, a)
	if err == nil {
		m.ledger.sent(len(b))
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
	return m.streams.dialed(c)
}

func (m *meter) Shutdown() error {
	var err error
	m.once.Do(func() {
		close(m.closing)
		m.streams.cut(true)
		err = m.NodeAwareTransport.Shutdown()
		close(m.closed)
		m.pump.Wait()
	})
	return err
}

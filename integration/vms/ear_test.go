package vms

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
)

// ear makes this process a host on a network of the lab: it answers ARP requests for its address, and receives UDP at
// one port. Senders keep the addresses of their machines. It is a net.PacketConn that sends nothing.
type ear struct {
	*net.UnixConn
	port    *fabric.Port
	address netip.AddrPort

	mu    sync.Mutex
	heard []datagram // guarded by mu
}

// datagram is a datagram that was received.
type datagram struct {
	from netip.Addr
	at   time.Time
}

// newEar adds an ear to a lab.
func newEar(l *lab, network string, mac net.HardwareAddr, address netip.AddrPort) (*ear, error) {
	port, err := l.fabric.Connect(network, "ear", mac)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: port.Local, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &ear{UnixConn: conn, port: port, address: address}, nil
}

const (
	etherLength = 14
	arpLength   = 28
	ipLength    = 20
	udpLength   = 8
)

// ReadFrom implements net.PacketConn.
func (e *ear) ReadFrom(b []byte) (int, net.Addr, error) {
	frame := make([]byte, 1<<16)
	for {
		n, err := e.Read(frame)
		if err != nil {
			return 0, nil, err
		}
		if n < etherLength {
			continue
		}
		switch payload := frame[etherLength:n]; binary.BigEndian.Uint16(frame[12:]) {
		case 0x0806:
			if err := e.answer(payload); err != nil {
				return 0, nil, err
			}
		case 0x0800:
			if from, text, ok := e.udp(payload); ok {
				e.mu.Lock()
				e.heard = append(e.heard, datagram{from.Addr(), time.Now()})
				e.mu.Unlock()
				return copy(b, text), net.UDPAddrFromAddrPort(from), nil
			}
		}
	}
}

// answer replies to an ARP request for this address.
func (e *ear) answer(arp []byte) error {
	own := e.address.Addr().AsSlice()
	if len(arp) < arpLength || binary.BigEndian.Uint16(arp[6:]) != 1 || !slices.Equal(arp[24:28], own) {
		return nil
	}
	asker, askerIP := arp[8:14], arp[14:18]
	reply := slices.Concat(asker, e.port.MAC, []byte{8, 6}, arp[:6], []byte{0, 2}, e.port.MAC, own, asker, askerIP)
	_, err := e.WriteToUnix(reply, &net.UnixAddr{Name: e.port.Remote, Net: "unixgram"})
	return err
}

// udp extracts a datagram to this address from its packet.
func (e *ear) udp(p []byte) (from netip.AddrPort, text []byte, ok bool) {
	if len(p) < ipLength || p[0]>>4 != 4 || p[9] != 17 || !slices.Equal(p[16:20], e.address.Addr().AsSlice()) {
		return from, nil, false
	}
	header, length := int(p[0]&0xf)*4, int(binary.BigEndian.Uint16(p[2:]))
	if length > len(p) || length < header+udpLength || header < ipLength || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
		return from, nil, false
	}
	source, _ := netip.AddrFromSlice(p[12:16]) // four bytes always fit
	u := p[header:length]
	return netip.AddrPortFrom(source, binary.BigEndian.Uint16(u)), u[udpLength:], binary.BigEndian.Uint16(u[2:]) == e.address.Port()
}

// WriteTo implements net.PacketConn.
func (e *ear) WriteTo([]byte, net.Addr) (int, error) { return 0, errors.ErrUnsupported }

// LocalAddr implements net.PacketConn.
func (e *ear) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(e.address) }

// from returns the times at which datagrams came from an address.
func (e *ear) from(a netip.Addr) (at []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.heard {
		if d.from == a {
			at = append(at, d.at)
		}
	}
	return at
}

package swim

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sys/unix"
)

const (
	// maxPacket is the largest payload that UDP can carry, rounded up.
	maxPacket = 64 << 10
	// receiveBuffer is the number of bytes that the kernel may hold until the agent runs. The kernel counts about 1 KiB
	// for a small packet; in a group of 1000 nodes all may answer at once.
	receiveBuffer = 2 << 20
	// receiveShare is the minimum room for one peer: its probe, its answer and some gossip.
	receiveShare = 4 << 10
)

// pair is a UDP and a TCP socket at one address, pinned to one device or to none.
type pair struct {
	device string // "": not pinned
	index  int    // of the device; 0 if not pinned
	udp    *net.UDPConn
	raw    syscall.RawConn // of udp
	tcp    net.Listener
	buffer int // the size that the kernel granted, as the kernel counts it
}

func openPair(ctx context.Context, at netip.AddrPort, device string) (*pair, error) {
	p := &pair{device: device}
	if err := p.open(ctx, at); err != nil {
		p.close()
		var pin *PinError
		if errors.As(err, &pin) {
			return nil, pin // without the prefixes that the net package adds
		}
		return nil, err
	}
	return p, nil
}

func (p *pair) open(ctx context.Context, at netip.AddrPort) error {
	family := "4"
	if at.Addr().Is6() {
		family = "6"
	}
	config := net.ListenConfig{Control: pinning(p.device)}
	// The path manager of MPTCP may open subflows through any device.
	config.SetMultipathTCP(false)
	tcp, err := config.Listen(ctx, "tcp"+family, at.String())
	if err != nil {
		return err
	}
	p.tcp = tcp
	udp, err := config.ListenPacket(ctx, "udp"+family, at.String())
	if err != nil {
		return err
	}
	p.udp = udp.(*net.UDPConn)
	if p.raw, err = p.udp.SyscallConn(); err != nil {
		return err
	}
	if err := p.tune(); err != nil || p.device == "" {
		return err
	}
	return p.readIndex()
}

// pinning binds a socket to the device before the kernel binds it to an address. Without CAP_NET_RAW, since Linux 5.7,
// a socket may be bound to a device only if it is not bound to one yet.
func pinning(device string) func(network, address string, c syscall.RawConn) error {
	if device == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }); e != nil {
			return e
		}
		if err != nil {
			return &PinError{Device: device, Err: err}
		}
		return nil
	}
}

// tune makes the receive buffer large and asks the kernel to report dropped packets. If either fails, the sockets are
// used anyway.
func (p *pair) tune() error {
	return p.raw.Control(func(fd uintptr) {
		s := int(fd)
		// A size beyond net.core.rmem_max needs CAP_NET_ADMIN; without it the kernel silently uses that maximum.
		if unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		p.buffer, _ = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF)
		_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	})
}

// readIndex asks the kernel to which interface the sockets are pinned. If the two sockets have different ones, the
// device was replaced in between.
func (p *pair) readIndex() error {
	tcp, err := p.tcp.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	index, err := pinnedIndex(p.raw)
	other, otherErr := pinnedIndex(tcp)
	if err != nil || otherErr != nil { // before Linux 5.1
		i, err := net.InterfaceByName(p.device)
		if err != nil {
			return &PinError{Device: p.device, Err: err}
		}
		index, other = i.Index, i.Index
	}
	if index != other {
		return &PinError{Device: p.device, Err: errors.New("it was replaced meanwhile")}
	}
	p.index = index
	return nil
}

func pinnedIndex(c syscall.RawConn) (index int, err error) {
	if e := c.Control(func(fd uintptr) { index, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX) }); e != nil {
		return 0, e
	}
	return index, err
}

// send passes a packet to the kernel or fails at once. UDPConn's own methods would wait for room in the send buffer.
func (p *pair) send(b []byte, to netip.AddrPort) error {
	var sa unix.Sockaddr
	if to.Addr().Is4() {
		sa = &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	} else {
		sa = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	}
	var err error
	closed := p.raw.Write(func(fd uintptr) bool {
		for {
			if err = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, sa); err != unix.EINTR {
				return true
			}
		}
	})
	switch {
	case closed != nil:
		return net.ErrClosed
	case err != nil:
		return os.NewSyscallError("sendto", err)
	default:
		return nil
	}
}

func (p *pair) close() error {
	var errs []error
	if p.tcp != nil {
		errs = append(errs, p.tcp.Close())
	}
	if p.udp != nil {
		errs = append(errs, p.udp.Close())
	}
	return errors.Join(errs...)
}

// inbox reads packets from a UDP socket into one buffer. It returns a copy of exact size, which memberlist may keep:
// memberlist queues slices of it.
type inbox struct {
	udp     *net.UDPConn
	buf     []byte
	control []byte
	dropped uint32 // the kernel's latest count; it wraps
	senders map[netip.AddrPort]*net.UDPAddr
}

// maxSenders bounds the remembered addresses: any address may send.
const maxSenders = 4096

func newInbox(udp *net.UDPConn) *inbox {
	return &inbox{
		udp: udp, buf: make([]byte, maxPacket), control: make([]byte, unix.CmsgSpace(4)),
		senders: make(map[netip.AddrPort]*net.UDPAddr),
	}
}

// read waits for a packet. dropped is the number of packets that the kernel has dropped for lack of room since the last
// one.
func (in *inbox) read() (n int, from netip.AddrPort, dropped int, err error) {
	n, c, _, from, err := in.udp.ReadMsgUDPAddrPort(in.buf, in.control)
	if err != nil {
		return 0, from, 0, err
	}
	if total, ok := overflow(in.control[:c]); ok {
		dropped = int(total - in.dropped)
		in.dropped = total
	}
	return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), dropped, nil
}

// overflow finds the kernel's count of dropped packets, which the kernel adds to each packet after it has dropped any.
func overflow(control []byte) (uint32, bool) {
	header := unix.CmsgLen(0)
	if len(control) < header+4 {
		return 0, false
	}
	h, data, _, err := unix.ParseOneSocketControlMessage(control)
	if err != nil || h.Level != unix.SOL_SOCKET || h.Type != unix.SO_RXQ_OVFL || len(data) < 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(data), true
}

// packet copies the first n bytes of the buffer. All packets of a sender share its address, which is never changed.
func (in *inbox) packet(n int, from netip.AddrPort, at time.Time) *memberlist.Packet {
	sender := in.senders[from]
	if sender == nil {
		if len(in.senders) >= maxSenders {
			clear(in.senders)
		}
		sender = net.UDPAddrFromAddrPort(from)
		in.senders[from] = sender
	}
	return &memberlist.Packet{Buf: append([]byte(nil), in.buf[:n]...), From: sender, Timestamp: at}
}

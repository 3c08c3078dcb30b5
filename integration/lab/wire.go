package lab

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Wire gives access to all networks, like that of an attacker on every cable. It reads whole Ethernet frames as the
// nodes send them, and can deliver frames to any node. The frames that it sends pass every cut.
type Wire struct {
	lab   *Lab
	file  *os.File // a socket in the hub
	conn  unixConn
	ports map[int]place // by the hub's interface index; the entry of a removed link stays
	links map[place]int
}

// unixConn contains the methods of a socket that a Wire needs.
type unixConn interface {
	Read(f func(fd uintptr) bool) error
	Write(f func(fd uintptr) bool) error
}

type place struct{ network, node int }

// Wire opens the wire. Close it before the lab.
func (l *Lab) Wire() (*Wire, error) {
	w := &Wire{lab: l, ports: map[int]place{}, links: map[place]int{}}
	err := l.hub.do(func() error {
		const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // in network byte order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
		if err != nil {
			return fmt.Errorf("open packet socket: %w", err)
		}
		w.file = os.NewFile(uintptr(fd), "wire")
		w.conn, err = w.file.SyscallConn()
		return err
	})
	if err == nil {
		err = l.hub.links(w.find)
	}
	if err != nil {
		if w.file != nil {
			w.file.Close()
		}
		return nil, fmt.Errorf("lab: wire: %w", err)
	}
	return w, nil
}

func (w *Wire) find(h *netlink.Handle) error {
	for i := range w.lab.cfg.Networks {
		for j := range w.lab.cfg.Nodes {
			link, err := h.LinkByName(portName(i, j))
			if err != nil {
				return fmt.Errorf("find port: %w", err)
			}
			w.ports[link.Attrs().Index], w.links[place{i, j}] = place{i, j}, link.Attrs().Index
		}
	}
	return nil
}

// Read returns the next frame that a node sends, its length, its sender and its network, as indexes in Nodes and
// Networks. Checksums that a card would compute are missing. It returns [os.ErrClosed] after Close.
func (w *Wire) Read(b []byte) (n, node, network int, err error) {
	for {
		var from unix.Sockaddr
		readErr := w.conn.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(err, unix.EAGAIN)
		})
		if readErr != nil {
			return 0, 0, 0, os.ErrClosed
		}
		if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EINTR) {
			continue // a cable was pulled
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("lab: wire: %w", err)
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok || at.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if p, ok := w.ports[at.Ifindex]; ok {
			return n, p.node, p.network, nil
		}
	}
}

// Send delivers a frame to a node. The frame is lost if the node has no carrier there.
func (w *Wire) Send(frame []byte, node, network int) error {
	to := &unix.SockaddrLinklayer{Ifindex: w.links[place{network, node}], Halen: 6}
	copy(to.Addr[:], frame[:min(6, len(frame))])
	var err error
	writeErr := w.conn.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), frame, 0, to)
		return true
	})
	switch {
	case writeErr != nil:
		return os.ErrClosed
	case err == nil, errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
		return nil
	}
	return fmt.Errorf("lab: wire: %w", err)
}

// Hardware returns the hardware address of a node on a network.
func (w *Wire) Hardware(node, network int) (mac net.HardwareAddr, err error) {
	err = w.lab.nodes[w.lab.cfg.Nodes[node]].links(func(h *netlink.Handle) error {
		link, err := h.LinkByName(w.lab.cfg.Networks[network])
		if err == nil {
			mac = link.Attrs().HardwareAddr
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lab: hardware address of %s: %w", w.lab.cfg.Nodes[node], err)
	}
	return mac, nil
}

// Close closes the wire and makes Read return.
func (w *Wire) Close() error { return w.file.Close() }

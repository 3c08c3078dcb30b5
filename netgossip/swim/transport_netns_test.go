package swim

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var errSkip = errors.New("the kernel does not let us")

// inNamespace runs f on a separate thread in a new network namespace. The thread is discarded afterwards: it is never
// unlocked. Sockets that f opens belong to the namespace; other goroutines must not open them for f.
func inNamespace(t *testing.T, f func() error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			ns, err := netns.New()
			if err != nil {
				return fmt.Errorf("%w: %w", errSkip, err)
			}
			defer ns.Close()
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return err
			}
			return f()
		}()
	}()
	if err := <-done; errors.Is(err, errSkip) {
		t.Skip(err)
	} else if err != nil {
		t.Error(err)
	}
}

// cable creates a pair of connected interfaces, the first one with an address.
func cable(name, address string) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "-far"}); err != nil {
		return nil, fmt.Errorf("%w: veth: %w", errSkip, err)
	}
	near, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	far, err := netlink.LinkByName(name + "-far")
	if err != nil {
		return nil, err
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	return near, errors.Join(netlink.AddrAdd(near, addr), netlink.LinkSetUp(near), netlink.LinkSetUp(far))
}

var cableAt = netip.MustParseAddrPort("10.7.0.1:7946")

func openOn(device string) (*sockets, error) {
	return openSockets(cableAt, device, testLedger(), log.New(io.Discard, "", 0))
}

// talks checks that a packet to this node's address arrives, through the socket's device.
func talks(s *sockets) error {
	if _, err := s.WriteTo([]byte("self"), cableAt.String()); err != nil {
		return err
	}
	select {
	case <-s.PacketCh():
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("nothing arrived")
	}
}

func TestSocketsFollowTheirDevice(t *testing.T) {
	inNamespace(t, func() error {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		old, err := cable("a", "10.7.0.1/24")
		if err != nil {
			return err
		}
		s, err := openOn("a")
		if err != nil {
			return err
		}
		defer s.Shutdown()
		if err := talks(s); err != nil {
			return fmt.Errorf("at first: %w", err)
		}
		c, err := s.DialTimeout(cableAt.String(), 10*time.Second)
		if err != nil {
			return err
		}
		peer := <-s.StreamCh()

		if err := netlink.LinkDel(old); err != nil {
			return err
		}
		var pin *PinError
		if moved, err := s.move("a", 0); moved || !errors.As(err, &pin) || !errors.Is(err, syscall.ENODEV) {
			return fmt.Errorf("moved to a device that is gone: %v, %w", moved, err)
		}
		fresh, err := cable("a", "10.7.0.1/24")
		if err != nil {
			return err
		}
		if fresh.Attrs().Index == old.Attrs().Index {
			return errors.New("the new device has the old index: the test proves nothing")
		}
		if _, err := s.WriteTo([]byte("self"), cableAt.String()); err == nil {
			return errors.New("the old sockets still send: the test proves nothing")
		}
		if moved, err := s.move("a", fresh.Attrs().Index); !moved || err != nil {
			return fmt.Errorf("move: %v, %w", moved, err)
		}
		for _, half := range []net.Conn{c, peer} {
			if _, err := half.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("a stream outlived its device: %w", err)
			}
		}
		if err := talks(s); err != nil {
			return fmt.Errorf("after the move: %w", err)
		}
		if got := s.pair.Load().index; got != fresh.Attrs().Index {
			return fmt.Errorf("bound to %d, not to %d", got, fresh.Attrs().Index)
		}
		if moved, err := s.move("a", fresh.Attrs().Index); moved || err != nil {
			return fmt.Errorf("second move: %v, %w", moved, err)
		}
		return nil
	})
}

// The address may also move to a device of another name, which has the sockets' port free.
func TestSocketsFollowTheirAddress(t *testing.T) {
	inNamespace(t, func() error {
		from, err := cable("a", "10.7.0.1/24")
		if err != nil {
			return err
		}
		to, err := cable("b", "10.8.0.1/24")
		if err != nil {
			return err
		}
		s, err := openOn("a")
		if err != nil {
			return err
		}
		defer s.Shutdown()
		addr, err := netlink.ParseAddr("10.7.0.1/24")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.AddrDel(from, addr), netlink.AddrAdd(to, addr)); err != nil {
			return err
		}
		if moved, err := s.move("b", to.Attrs().Index); !moved || err != nil {
			return fmt.Errorf("move: %v, %w", moved, err)
		}
		if s.pair.Load().device != "b" {
			return fmt.Errorf("pinned to %q", s.pair.Load().device)
		}
		return talks(s)
	})
}

// Packets to a neighbour that does not answer wait in the kernel on the sender's account.
func TestWriteNeverBlocks(t *testing.T) {
	inNamespace(t, func() error {
		if _, err := cable("a", "10.7.0.1/24"); err != nil {
			return err
		}
		s, err := openOn("a")
		if err != nil {
			return err
		}
		defer s.Shutdown()
		if err := s.pair.Load().raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
		}); err != nil {
			return err
		}
		packet := make([]byte, 1000)
		began := time.Now()
		const sent = 50
		for range sent {
			if _, err := s.WriteTo(packet, "10.7.0.2:7946"); err != nil {
				return err
			}
		}
		took := time.Since(began)
		out, dropped := s.ledger.packetsOut.n.Load(), s.ledger.droppedOut.n.Load()
		if out+dropped != sent || dropped == 0 {
			return fmt.Errorf("%d sent and %d dropped of %d", out, dropped, sent)
		}
		// Waiting for room would have taken until the kernel gives the neighbour up.
		for s.ledger.packetsOut.n.Load() == out {
			if _, err := s.WriteTo(packet, "10.7.0.2:7946"); err != nil {
				return err
			}
			if time.Since(began) > time.Minute {
				return errors.New("there is never room again")
			}
			<-time.After(10 * time.Millisecond)
		}
		if wait := time.Since(began); took > wait*3/4 {
			return fmt.Errorf("sending took %v, there was room again after %v", took, wait)
		}
		return nil
	})
}

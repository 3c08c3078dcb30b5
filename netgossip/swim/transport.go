package swim

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/hashicorp/memberlist"
)

// Listener opens the packet and stream transport of one instance. An instance counts the traffic of the transport;
// pinning to a device is left to the Listener.
type Listener func(netip.AddrPort) (memberlist.NodeAwareTransport, error)

// PinError reports that sockets could not be bound to a device.
type PinError struct {
	Device string
	Err    error
}

// Error names the device and the cause.
func (e *PinError) Error() string {
	return fmt.Sprintf("bind sockets to device %s: %v", e.Device, e.Err)
}

// Unwrap returns the cause.
func (e *PinError) Unwrap() error { return e.Err }

// Denied reports whether this process is not allowed to pin sockets, or cannot do so on this system; the device itself
// is not the cause. Before Linux 5.7 pinning needs CAP_NET_RAW.
func (e *PinError) Denied() bool {
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOPROTOOPT, syscall.ENOSYS} {
		if errors.Is(e.Err, no) {
			return true
		}
	}
	return false
}

// listenError turns an error of a Listener into one for the user. A foreign Listener may have formatted the cause
// into text, as memberlist's own does.
func listenError(at netip.AddrPort, err error) error {
	is := func(cause error) bool { return errors.Is(err, cause) || strings.Contains(err.Error(), cause.Error()) }
	var pin *PinError
	switch {
	case errors.As(err, &pin):
		return pin
	case is(syscall.EADDRINUSE):
		return fmt.Errorf("listen %s: %w: another agent or a program with this port runs on the node; stop it or configure another port", at, syscall.EADDRINUSE)
	case is(syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen %s: %w: the node does not have this address", at, syscall.EADDRNOTAVAIL)
	default:
		return fmt.Errorf("listen %s: %w", at, err)
	}
}

// addrOf returns the IP of a transport's address, or the zero Addr.
func addrOf(a net.Addr) netip.Addr {
	if udp, ok := a.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap()
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

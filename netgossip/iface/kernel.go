package iface

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumpAttempts bounds the attempts at a dump that is interrupted by changes.
const dumpAttempts = 5

// readKernel takes a snapshot of the calling thread's network namespace.
func readKernel() (*snapshot, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	s := &snapshot{links: make(map[int]link, len(links))}
	for _, l := range links {
		a := l.Attrs()
		s.links[a.Index] = link{
			name:     a.Name,
			loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
			internal: a.RawFlags&unix.IFF_LOOPBACK != 0 || l.Type() == "dummy",
			up:       carries(a),
		}
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			ones, bits := a.Mask.Size()
			s.addresses = append(s.addresses, address{
				ip:        ip.Unmap(),
				link:      a.LinkIndex,
				tentative: a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0,
				secondary: a.Flags&(unix.IFA_F_SECONDARY|unix.IFA_F_DEPRECATED) != 0, // SECONDARY is TEMPORARY for IPv6
				single:    ones == bits,
			})
		}
	}
	return s, nil
}

// carries reports whether packets can leave a link. Many virtual devices do not know
// their operational state; loopback has no carrier to lose.
func carries(a *netlink.LinkAttrs) bool {
	if a.RawFlags&unix.IFF_UP == 0 {
		return false
	}
	if a.RawFlags&unix.IFF_LOOPBACK != 0 {
		return true
	}
	return a.RawFlags&unix.IFF_LOWER_UP != 0 && (a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown)
}

func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		out, err := list()
		if err == nil || attempt == dumpAttempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
}

// event names the link and the address that a netlink message is about; either may be unset.
type event struct {
	index int
	name  string
	ip    netip.Addr
}

// subscribeKernel delivers events until stop is closed or the kernel ends the subscription, which it does if the reader
// was too slow. Then the channel is closed.
func subscribeKernel(stop <-chan struct{}, log *slog.Logger) (<-chan event, error) {
	links := make(chan netlink.LinkUpdate, 16)
	addrs := make(chan netlink.AddrUpdate, 16)
	done := make(chan struct{})
	complain := func(err error) { log.Debug("netlink reported an error to its subscriber", "error", err) }
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: complain}); err != nil {
		close(done)
		return nil, fmt.Errorf("subscribe to interfaces: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: complain}); err != nil {
		close(done)
		drain(links)
		return nil, fmt.Errorf("subscribe to addresses: %w", err)
	}
	out := make(chan event)
	go func() {
		defer close(out)
		defer drain(addrs)
		defer drain(links)
		defer close(done) // runs first of the four: it makes the receivers close their channels
		for {
			var e event
			select {
			case u, ok := <-links:
				if !ok {
					return
				}
				e = event{index: u.Attrs().Index, name: u.Attrs().Name}
			case u, ok := <-addrs:
				if !ok {
					return
				}
				ip, _ := netip.AddrFromSlice(u.LinkAddress.IP)
				e = event{index: u.LinkIndex, ip: ip.Unmap()}
			case <-stop:
				return
			}
			select {
			case out <- e:
			case <-stop:
				return
			}
		}
	}()
	return out, nil
}

// drain frees the library's receiver, which blocks on its channel.
func drain[T any](ch <-chan T) {
	for range ch {
	}
}

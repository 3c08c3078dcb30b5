package iface

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"

	"github.com/fencing-agent/fencing-agent/boottime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without root: Watch runs on the real kernel, finds nothing to report and ends.
func TestWatchLoopback(t *testing.T) {
	l, err := Find(Query{Network: "mgmt", Address: ip("127.0.0.5")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = Watch(ctx, WatchConfig{
		Networks: []Local{l}, Clock: boottime.Now, Logger: slog.New(slog.DiscardHandler),
		Changed: func(Change) { t.Error("loopback changed") },
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Watch returned %v", err)
	}
}

// inNamespace runs f on a separate thread in a new network namespace. The thread is discarded afterwards: it is never
// unlocked.
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
			return f()
		}()
	}()
	if err := <-done; errors.Is(err, errSkip) {
		t.Skip(err)
	} else if err != nil {
		t.Error(err)
	}
}

var errSkip = errors.New("the kernel does not let us")

// cable creates a pair of connected interfaces, a with 10.7.0.1.
func cable() (a, b netlink.Link, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "a"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "b"}); err != nil {
		return nil, nil, fmt.Errorf("%w: veth: %w", errSkip, err)
	}
	if a, err = netlink.LinkByName("a"); err != nil {
		return nil, nil, err
	}
	if b, err = netlink.LinkByName("b"); err != nil {
		return nil, nil, err
	}
	addr, err := netlink.ParseAddr("10.7.0.1/24")
	if err != nil {
		return nil, nil, err
	}
	return a, b, errors.Join(netlink.AddrAdd(a, addr), netlink.LinkSetUp(a), netlink.LinkSetUp(b))
}

// The library's receivers block on their channels; the end of a subscription must free them even if nothing has been
// read for a while. TestMain checks for leaks.
func TestSubscriptionEndsUnread(t *testing.T) {
	inNamespace(t, func() error {
		a, _, err := cable()
		if err != nil {
			return err
		}
		stop := make(chan struct{})
		events, err := subscribeKernel(stop, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		for i := range 100 {
			addr, err := netlink.ParseAddr(fmt.Sprintf("10.8.0.%d/24", i+1))
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(a, addr); err != nil {
				return err
			}
		}
		<-events
		close(stop)
		for range events {
		}
		return nil
	})
}

// awaitCarrier waits until a link that was set up has carrier, which takes the kernel a moment.
func awaitCarrier(index int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		s, err := readKernel()
		if err != nil || s.links[index].up {
			return err
		}
		if time.Now().After(end) {
			return errors.New("a cable has no carrier after a minute")
		}
	}
}

// watchHere runs Watch in the calling thread's namespace until stop.
func watchHere(t *testing.T, l Local) (reports chan Change, stop func(), err error) {
	ns, err := netns.Get()
	if err != nil {
		return nil, nil, err
	}
	reports = make(chan Change, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer ns.Close()
		runtime.LockOSThread() // discarded, too
		if err := netns.Set(ns); err != nil {
			t.Error(err)
			return
		}
		Watch(ctx, WatchConfig{
			Networks: []Local{l}, Clock: boottime.Now, Logger: slog.New(slog.DiscardHandler),
			Changed: func(c Change) { reports <- c },
		})
	}()
	return reports, func() { cancel(); <-ended }, nil
}

func TestWatchRealInterfaces(t *testing.T) {
	inNamespace(t, func() error {
		a, b, err := cable()
		if err != nil {
			return err
		}
		local, err := Find(Query{Network: "data", Interface: "a"})
		if err != nil {
			return err
		}
		if local.Address != ip("10.7.0.1") {
			return fmt.Errorf("found %+v", local)
		}
		addr, err := netlink.ParseAddr("10.7.0.1/24")
		if err != nil {
			return err
		}
		if err := awaitCarrier(local.Index); err != nil {
			return err
		}
		reports, stop, err := watchHere(t, local)
		if err != nil {
			return err
		}
		defer stop()
		for _, step := range []struct {
			name string
			do   func() error
			up   bool
		}{
			{"cable pulled", func() error { return netlink.LinkSetDown(b) }, false},
			{"cable back", func() error { return netlink.LinkSetUp(b) }, true},
			{"set down", func() error { return netlink.LinkSetDown(a) }, false},
			{"set up", func() error { return netlink.LinkSetUp(a) }, true},
			{"address removed", func() error { return netlink.AddrDel(a, addr) }, false},
			{"address back", func() error { return netlink.AddrAdd(a, addr) }, true},
			{"device removed", func() error { return netlink.LinkDel(a) }, false},
			{"device made again", func() error { _, _, err := cable(); return err }, true},
		} {
			began := boottime.Now()
			if err := step.do(); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			var r Change
			for first := true; first || step.up && !r.Up; first = false { // down for another reason: address or carrier is missing for a moment
				select {
				case r = <-reports:
				case <-time.After(8 * time.Second): // less than pollInterval: netlink must report it
					return fmt.Errorf("%s: not reported", step.name)
				}
			}
			if r.Up != step.up {
				return fmt.Errorf("%s: reported up=%v", step.name, r.Up)
			}
			if moved := r.Local.Index != local.Index; moved != (step.name == "device made again") {
				return fmt.Errorf("%s: index %d, was %d", step.name, r.Local.Index, local.Index)
			}
			if up, err := Up(r.Local); err != nil || up != step.up {
				return fmt.Errorf("%s: up=%v by one look (%v)", step.name, up, err)
			}
			t.Logf("%s: reported after %v", step.name, r.At.Sub(began))
		}
		return nil
	})
}

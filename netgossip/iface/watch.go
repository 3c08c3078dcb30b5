package iface

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// pollInterval is the time between two snapshots that nothing asked for.
	pollInterval = 10 * time.Second
	// retryInterval is the pause before a failed subscription or snapshot is repeated.
	retryInterval = 500 * time.Millisecond
)

// WatchConfig says what to watch and whom to tell.
type WatchConfig struct {
	Networks []Local // as Find returned them; the position is the network's index
	Clock    boottime.Clock
	Logger   *slog.Logger
	// Changed is called when the own side of a network is lost and when it is back. At
	// the start every network counts as there. at is not later than the moment at which
	// the kernel was asked.
	Changed func(network int, up bool, at boottime.Instant)
}

// Watch reports changes until ctx ends and then returns its error.
func Watch(ctx context.Context, c WatchConfig) error {
	w := &watcher{WatchConfig: c, read: readKernel, subscribe: subscribeKernel}
	return w.run(ctx)
}

// watcher is a Watch in progress; read and subscribe are the kernel.
type watcher struct {
	WatchConfig
	read      func() (*snapshot, error)
	subscribe func(stop <-chan struct{}, log *slog.Logger) (<-chan event, error)

	down    []bool
	indexes map[int]bool // of the interfaces that had the addresses last
	trouble string       // that was logged last, so that it is logged once
}

func (w *watcher) run(ctx context.Context) error {
	w.down = make([]bool, len(w.Networks))
	for {
		w.session(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// session lasts as long as one subscription. It looks right after subscribing: what
// happened before is in the snapshot, what happens later is an event.
func (w *watcher) session(ctx context.Context) {
	stop := make(chan struct{})
	events, err := w.subscribe(stop, w.Logger)
	if err != nil {
		w.complain("netlink does not report changes; interfaces are polled", err)
		w.look()
		return
	}
	defer drain(events)
	defer close(stop)
	for {
		next := pollInterval
		if !w.look() {
			next = retryInterval
		}
		if !w.wait(ctx, events, next) {
			return
		}
	}
}

// wait returns true when it is time to look again and false when the subscription or
// the context has ended.
func (w *watcher) wait(ctx context.Context, events <-chan event, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case e, ok := <-events:
			if !ok {
				return false
			}
			if w.concerns(e) {
				return true
			}
		}
	}
}

// concerns sorts out the interfaces of pods, which come and go all the time.
func (w *watcher) concerns(e event) bool {
	if w.indexes[e.index] {
		return true
	}
	for _, l := range w.Networks {
		if (e.name != "" && e.name == l.Interface) || (e.ip != netip.Addr{} && e.ip == l.Address) {
			return true
		}
	}
	return false
}

// look takes a snapshot and reports the differences.
func (w *watcher) look() bool {
	at := w.Clock()
	s, err := w.read()
	if err != nil {
		w.complain("interfaces cannot be read; their last state is kept", err)
		return false
	}
	w.indexes = make(map[int]bool, len(w.Networks))
	for i, l := range w.Networks {
		if a, ok := s.holder(l.Address, ""); ok {
			w.indexes[a.link] = true
		}
		if down := !s.carries(l); down != w.down[i] {
			w.down[i] = down
			w.Logger.Warn("own side of a network changed", "network", l.Network, "interface", l.Interface, "address", l.Address, "up", !down)
			w.Changed(i, !down, at)
		}
	}
	return true
}

func (w *watcher) complain(msg string, err error) {
	if text := msg + err.Error(); text != w.trouble {
		w.trouble = text
		w.Logger.Warn(msg, "error", err)
	}
}

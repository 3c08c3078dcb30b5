package iface

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// pollInterval is the time between two snapshots without an event.
	pollInterval = 10 * time.Second
	// retryInterval is the pause before a failed subscription or snapshot is repeated.
	retryInterval = 500 * time.Millisecond
)

// WatchConfig defines the networks to watch and the callback.
type WatchConfig struct {
	Networks []Local // as Find returned them; the position is the network's index
	Clock    boottime.Clock
	Logger   *slog.Logger
	// Changed is called when this node's side of a network is lost, when it is back, when it changes to another
	// interface (including a new one of the same name), and when the reason of a loss changes. At the start every
	// network counts as working.
	Changed func(Change)
}

// Change is a report about this node's side of a network.
type Change struct {
	Network int // its position in WatchConfig.Networks
	Up      bool
	Gone    error // why the network would not work even with carrier: its interface or address is gone; nil: both exist
	// Local is this node's side of the network: the present one if it is up, otherwise the one before the loss.
	Local Local
	At    boottime.Instant // not later than the moment at which the kernel was asked
}

// Watch reports changes until ctx ends and then returns its error.
func Watch(ctx context.Context, c WatchConfig) error {
	w := &watcher{WatchConfig: c, read: readKernel, subscribe: subscribeKernel}
	return w.run(ctx)
}

// watcher is a Watch in progress; read and subscribe access the kernel.
type watcher struct {
	WatchConfig
	read      func() (*snapshot, error)
	subscribe func(stop <-chan struct{}, log *slog.Logger) (<-chan event, error)

	states  []state
	indexes map[int]bool // indexes of the interfaces that matter, as of the last snapshot
	trouble string       // the error that was last logged, so that each is logged once
}

// state is the last known state of a network.
type state struct {
	Local
	down bool
	gone string // why, as reported
}

func (w *watcher) run(ctx context.Context) error {
	w.states = make([]state, len(w.Networks))
	for i, l := range w.Networks {
		w.states[i].Local = l
	}
	for {
		w.session(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// session lasts as long as one subscription. It takes a snapshot right after subscribing: earlier changes are in the
// snapshot, later changes cause events.
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

// concerns filters out the interfaces of pods, which change all the time.
func (w *watcher) concerns(e event) bool {
	if w.indexes[e.index] {
		return true
	}
	for i := range w.states {
		l := &w.states[i]
		if e.name != "" && e.name == l.Interface {
			return true
		}
		if e.ip.IsValid() && (e.ip == l.Address || l.query.CIDR.Contains(e.ip)) {
			return true
		}
	}
	return false
}

func (w *watcher) look() bool {
	at := w.Clock()
	s, err := w.read()
	if err != nil {
		w.complain("interfaces cannot be read; their last state is kept", err)
		return false
	}
	w.indexes = make(map[int]bool, len(w.states))
	for i := range w.states {
		st := &w.states[i]
		if a, ok := s.holder(st.Address); ok {
			w.indexes[a.link] = true
		}
		if index := s.index(st.Interface); st.Pinned && index != 0 {
			w.indexes[index] = true // its address may be added later
		}
		w.compare(i, st, s, at)
	}
	return true
}

func (w *watcher) compare(i int, st *state, s *snapshot, at boottime.Instant) {
	index, gone := s.carrier(st.Local), ""
	err := s.gone(st.Local)
	if index != 0 {
		err = nil
	} else if err != nil {
		gone = err.Error()
	}
	same := index == 0 && st.down || index != 0 && !st.down && index == st.Index
	if same && gone == st.gone {
		return
	}
	st.down, st.gone = index == 0, gone
	if !st.down {
		st.Index, st.Interface, st.Internal = index, s.links[index].name, s.links[index].internal
	}
	if !same {
		w.Logger.Warn("this node's side of a network changed", "network", st.Network, "interface", st.Interface, "index", st.Index,
			"address", st.Address, "up", !st.down)
	}
	w.Changed(Change{Network: i, Up: !st.down, Gone: err, Local: st.Local, At: at})
}

func (w *watcher) complain(msg string, err error) {
	if text := msg + err.Error(); text != w.trouble {
		w.trouble = text
		w.Logger.Warn(msg, "error", err)
	}
}

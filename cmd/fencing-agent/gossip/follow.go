package gossip

import (
	"context"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// followPause is the time between replacing the instances of two networks, so that the first has evidence again
	// before the evidence of the next one stops.
	followPause = time.Second
	followRetry = time.Second // between two attempts to find a network that is away
)

// Follow makes the instances use another roster from now on, one after the other.
func (n *Networks) Follow(r *roster.Roster) {
	select {
	case <-n.follow:
	default:
	}
	n.follow <- r // has room: the only sender has just made room
}

// followRosters starts missing networks when they appear. When the roster has changed it replaces the networks'
// instances one after the other, without leaving. Peers notice nothing if that takes less time than a suspicion, and
// the earlier evidence stays valid for D_max. A network that cannot be opened does not delay the others.
func (n *Networks) followRosters(ctx context.Context) {
	defer func() {
		for _, w := range n.all {
			w.unwatch()
		}
	}()
	for i, w := range n.all {
		if w.now() != nil {
			n.watch(ctx, i)
		}
	}
	r := n.cfg.Roster
	retry := time.NewTimer(followRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r = <-n.follow:
		case <-retry.C:
		}
		for i, w := range n.all {
			in := w.now()
			if in != nil && in.roster == r && !n.astray(i, in) {
				continue
			}
			n.replace(ctx, i, r)
			if in != nil {
				boottime.Wait(ctx, followPause)
			}
		}
		retry.Reset(followRetry)
	}
}

// astray reports whether an instance uses another address than the listed one, although the node now has the listed
// address: at first it only had a virtual address.
func (n *Networks) astray(i int, in *instance) bool {
	want := listed(n.all[i].name, in.roster)
	if !want.IsValid() || want == in.local.Address {
		return false
	}
	found, err := n.cfg.Links.Local(&n.cfg.Config.SystemNetworks[i], want)
	return err == nil && found.Address == want
}

// replace creates the instance of one network again, unless everything has been stopped. If that fails, the network is
// missing until a later attempt.
func (n *Networks) replace(ctx context.Context, i int, r *roster.Roster) {
	if !n.following.TryLock() {
		return
	}
	defer n.following.Unlock()
	if ctx.Err() != nil {
		return
	}
	w := n.all[i]
	old := w.now()
	limit, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if old != nil {
		if err := old.swim.Stop(limit, false); err != nil {
			n.log.Warn("gossip did not stop in time for the changed list of members", "network", w.name, "error", err)
		}
	}
	in, err := n.open(i, r)
	if err == nil {
		if err = in.swim.Start(); err != nil {
			_ = in.swim.Stop(limit, false) // the error of the start matters more
		}
	}
	if err != nil {
		n.lose(i, err)
		return
	}
	if old == nil {
		n.warnUnpinned(w)
	}
	n.take(w, in)
	in.swim.Announce()
	n.showTuning(w.name, in.tuning)
	n.cfg.Away(w.name, nil)
	if old == nil || old.local.Address != in.local.Address || old.local.Interface != in.local.Interface {
		// The old watch must not report anything after this.
		w.unwatch()
		w.lost = false
		n.cfg.AddressChanged(w.name, in.local.Address)
		n.cfg.LinkChanged(i, true)
		n.watch(ctx, i)
	}
}

// lose reports that this node has no gossip on a network.
func (n *Networks) lose(i int, why error) {
	w := n.all[i]
	w.present.Store(nil)
	w.unwatch()
	w.unwatch = func() {}
	if !w.lost {
		n.cfg.LinkChanged(i, false)
	}
	w.lost = true
	n.cfg.Away(w.name, why)
}

// take makes an instance the current one of its network, and gives it the current demand. A demand that is set
// meanwhile reaches the instance, and is not overwritten by the earlier one.
func (n *Networks) take(w *network, in *instance) {
	n.demanding.Lock()
	defer n.demanding.Unlock()
	w.present.Store(in)
	if n.demand != (netgossip.Demand{}) {
		in.swim.SetDemand(n.demand)
	}
}

// watch follows carrier and address of a network until the network is lost.
func (n *Networks) watch(ctx context.Context, i int) {
	w := n.all[i]
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	w.unwatch = func() { cancel(); <-ended }
	up := true
	c := iface.WatchConfig{Networks: []iface.Local{w.now().local}, Clock: n.cfg.Clock, Logger: n.log, Changed: func(change iface.Change) {
		if in := w.now(); change.Up && in != nil {
			in.swim.Rebind(change.Local.Interface, change.Local.Index)
			n.cfg.AddressChanged(w.name, change.Local.Address)
		}
		n.cfg.Away(w.name, change.Gone)
		if change.Up || up {
			n.cfg.LinkChanged(i, change.Up)
		}
		up = change.Up
	}}
	go func() {
		defer close(ended)
		if err := n.cfg.Links.Watch(ctx, c); ctx.Err() == nil {
			n.log.Error("a network's interface is not watched any more", "network", w.name, "error", err)
		}
	}()
}

package gossip

import (
	"context"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// followPause lies between the instances of two networks, so that the evidence of one
	// is there again before that of the next one stops.
	followPause = time.Second
	followRetry = time.Second // after one could not be replaced
)

// Follow has the instances count by another roster from now on, one after the other.
func (n *Networks) Follow(r *roster.Roster) {
	select {
	case <-n.follow:
	default:
	}
	n.follow <- r // has room: the only sender has just made it
}

// followRosters replaces the instance of one network after the other when the roster has
// changed, without leaving. Peers notice nothing, if it takes less than a suspicion, and the
// evidence from before stays valid for D_max.
func (n *Networks) followRosters(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-n.follow:
			for i := range n.all {
				if !n.replacePatiently(ctx, i, r) {
					return
				}
				boottime.Wait(ctx, followPause)
			}
		}
	}
}

// replacePatiently replaces the instance of a network, however often it has to try. It reports whether it
// could before ctx ended.
func (n *Networks) replacePatiently(ctx context.Context, i int, r *roster.Roster) bool {
	said := ""
	for {
		err := n.replace(ctx, i, r)
		if err == nil {
			return true
		}
		if said != err.Error() {
			said = err.Error()
			n.log.Error("the gossip of a network cannot follow the list of members, and is silent until it can",
				"network", n.all[i].name, "error", err, "retry", followRetry)
		}
		if boottime.Wait(ctx, followRetry); ctx.Err() != nil {
			return false
		}
	}
}

// replace makes the instance of one network again, unless everything has been stopped.
func (n *Networks) replace(ctx context.Context, i int, r *roster.Roster) error {
	if !n.following.TryLock() {
		return nil
	}
	defer n.following.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	w := n.all[i]
	limit, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := w.now().swim.Stop(limit, false); err != nil {
		n.log.Warn("gossip did not stop in time for the changed list of members", "network", w.name, "error", err)
	}
	in, err := n.open(i, r)
	if err == nil {
		if err = in.swim.Start(); err != nil {
			_ = in.swim.Stop(limit, false) // the error of the start is the one that counts
		}
	}
	if err != nil {
		return err
	}
	n.take(w, in)
	in.swim.Announce()
	n.showTuning(w.name, in.tuning)
	return nil
}

// take makes an instance that of its network, and tells it what the one before was told. A demand that comes
// meanwhile reaches it, and is not overtaken by the one before.
func (n *Networks) take(w *network, in *instance) {
	n.demanding.Lock()
	defer n.demanding.Unlock()
	w.present.Store(in)
	if n.demand != (netgossip.Demand{}) {
		in.swim.SetDemand(n.demand)
	}
}

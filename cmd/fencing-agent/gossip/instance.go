package gossip

import (
	"fmt"
	"log/slog"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// instance is one life of a network's gossip.
type instance struct {
	local  iface.Local
	swim   *swim.Instance
	tuning Tuning
	// unpinned says that the sockets are not bound to the device although they should be.
	unpinned bool
}

// Tuning is the parameters that the gossip on a network runs with, and the roster size
// they were made for.
type Tuning struct {
	Params netgossip.Params
	Size   int
}

// open opens the gossip of a network by a roster.
func (n *Networks) open(i int, r *roster.Roster) (*instance, error) {
	settings := n.cfg.Config
	sn := settings.SystemNetworks[i]
	found, err := n.cfg.Links.Local(&sn)
	if err != nil {
		return nil, err
	}
	if err := n.checkAddress(sn.Name, found, r); err != nil {
		return nil, err
	}
	t := Tuning{settings.ParamsFor(r.Size()), r.Size()}
	in, unpinned, err := openInstance(sn, swim.Config{
		Network: i, Name: sn.Name, Label: settings.GossipLabel(sn.Name), Roster: r,
		BindAddr: found.Address, Port: sn.Port, Params: t.Params, Keyring: n.keys, AnySource: settings.Gossip.Sources == config.SourcesAny,
		Transport: n.cfg.Listen, Device: n.pinTo(sn, found), Clock: n.cfg.Clock,
		Statement: n.statement, Relay: n.relay, Sees: n.sees, HandsOver: n.cfg.HandsOver, Handed: n.cfg.Handed, Doubts: n.doubts,
		Sink: crossing{Reports: n.cfg.Reports(r), roster: r, networks: n}, Logger: n.log, Metrics: n.metrics.swim,
	})
	if err != nil {
		return nil, err
	}
	return &instance{local: found, swim: in, tuning: t, unpinned: unpinned}, nil
}

// checkAddress compares the address that was found with that of the list of members.
func (n *Networks) checkAddress(network string, found iface.Local, r *roster.Roster) error {
	self := &r.Members[r.Self]
	switch want := self.Addresses[network]; {
	case want == found.Address.String():
	case n.cfg.AddressesFollow:
		// It moved. Its Node says so from now on, and the others hear it there.
		n.log.Warn("this node's address is not that of the list of members; it is heard again when the list has changed",
			"network", network, "address", found.Address, "listed", want)
	case want == "":
		return notListed(network, self.Name)
	default:
		return fmt.Errorf("network %s: this node's address is %v (%s), but the list of members has %s for %q; correct the list, nodeName or the network, or two nodes will run under one name",
			network, found.Address, found.Interface, want, self.Name)
	}
	return nil
}

// notListed explains that a node cannot take part under its present list.
func notListed(network, node string) error {
	return fmt.Errorf("network %s: the list of members does not have %q: if it was removed from the group, stop the agent; else list it", network, node)
}

// showTuning puts the parameters of a network into the metrics and the log. It is called
// whenever its gossip starts with others.
func (n *Networks) showTuning(network string, t Tuning) {
	attrs := []any{"network", network, "profile", string(n.cfg.Config.Gossip.Profile), "tuned_for", t.Size}
	for _, p := range append(t.Params.List(), t.Params.Consequences(t.Size)...) {
		n.metrics.parameters.WithLabelValues(network, p.Name).Set(p.Number())
		attrs = append(attrs, slog.Any(p.Name, p.Value()))
	}
	n.log.Info("gossip parameters", attrs...)
}

package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"syscall"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/procfs"
)

// instance is a network's gossip from its start to its stop.
type instance struct {
	local  iface.Local
	roster *roster.Roster // whose indices it uses
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

// wrongError is an error of the start that waiting cannot repair: the configuration of this node or of another one is
// wrong.
type wrongError struct{ error }

func (e *wrongError) Unwrap() error { return e.error }

// listed is the address that a list of members has for this node on a network, the zero Addr if it has none.
func listed(network string, r *roster.Roster) netip.Addr {
	a, _ := netip.ParseAddr(r.Members[r.Self].Addresses[network]) // checked with the list
	return a
}

// open opens the gossip of a network by a roster.
func (n *Networks) open(i int, r *roster.Roster) (*instance, error) {
	settings := n.cfg.Config
	sn := settings.SystemNetworks[i]
	self := &r.Members[r.Self]
	if len(self.Addresses) == 0 {
		return nil, &wrongError{fmt.Errorf("network %s: the list of members does not have %q: if that node was removed from the group, stop the agent; otherwise add it to the list", sn.Name, self.Name)}
	}
	found, err := n.cfg.Links.Local(&sn, listed(sn.Name, r))
	if err != nil {
		return nil, err
	}
	if err := n.checkAddress(&sn, found, r); err != nil {
		return nil, err
	}
	t := Tuning{settings.ParamsFor(r.Size()), r.Size()}
	in, unpinned, err := openInstance(sn, swim.Config{
		Network: i, Name: sn.Name, Label: settings.GossipLabel(sn.Name), Roster: r,
		BindAddr: found.Address, Port: sn.Port, Params: t.Params, Keyring: n.keys, AnySource: settings.Experimental.Sources == config.SourcesAny,
		Transport: n.cfg.Listen, Device: n.pinTo(sn, found), Clock: n.cfg.Clock,
		Statement: n.statement, Relay: n.relay, Sees: n.sees, HandsOver: n.cfg.HandsOver, Handed: n.cfg.Handed, Doubts: n.doubts,
		Sink: crossing{Reports: n.cfg.Reports(r), roster: r, networks: n}, Logger: n.log, Metrics: n.metrics.swim,
	})
	if err != nil {
		return nil, n.explainTaken(netip.AddrPortFrom(found.Address, uint16(sn.Port)), err)
	}
	return &instance{local: found, roster: r, swim: in, tuning: t, unpinned: unpinned}, nil
}

// explainTaken says who has the port of a network, if it is taken. Another program may release the port.
//
// Invariant: a port that another agent has is not waited for: that may be a second agent of this node, with its own
// socket and files. If the agent was killed and hangs, its port is waited for: it no longer speaks, and this agent
// waits for the lock of the running agent until the killed one is gone.
func (n *Networks) explainTaken(at netip.AddrPort, err error) error {
	if n.cfg.Listen != nil || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return takenBy("/proc", at, err)
}

func takenBy(proc string, at netip.AddrPort, err error) error {
	who, ok := procfs.Binds(proc, at)
	if !ok {
		return err
	}
	err = fmt.Errorf("%w; %v has it", err, who)
	switch {
	case who.Name != agentProgram || who.PID == os.Getpid():
		return err
	case procfs.Killed(proc, who.PID):
		return fmt.Errorf("%w, which was killed and cannot exit: one of its threads hangs in the kernel", err)
	}
	return &wrongError{err}
}

// agentProgram is the name under which the kernel knows an agent.
const agentProgram = "fencing-agent"

// checkAddress compares the address that was found with the listed one. Another node's address ends the start. With
// any other address the network waits for the listed one: the node may only have a virtual address so far. If lists
// follow the addresses, a remembered list may be out of date, and only the starting node knows its present address.
func (n *Networks) checkAddress(sn *config.SystemNetwork, found iface.Local, r *roster.Roster) error {
	self, at := &r.Members[r.Self], found.Address.String()
	want := self.Addresses[sn.Name]
	if want == at {
		return n.checkApart(sn, found)
	}
	for i := range r.Members {
		if m := &r.Members[i]; i != r.Self && m.Addresses[sn.Name] == at && !n.cfg.AddressesFollow {
			return &wrongError{fmt.Errorf("network %s: this node's address is %s (%s), which the list of members has for %q, and nodeName is %q; correct the list, nodeName or the network, or two nodes will run under one name",
				sn.Name, at, found.Interface, m.Name, self.Name)}
		}
	}
	switch {
	case n.cfg.AddressesFollow:
		// The address has changed. The Node shows the new one from now on, and the others use it.
		n.log.Warn("this node's address is not the one in the list of members; the others hear this node again once the list has its new address",
			"network", sn.Name, "address", at, "listed", want)
		return n.checkApart(sn, found)
	case want == "":
		return fmt.Errorf("network %s: the list of members has no address for %q on it: add %s there, or take the network out of systemNetworks", sn.Name, self.Name, at)
	}
	err := fmt.Errorf("network %s: this node's address is %s (%s), but the list of members has %s for %q; correct the list, nodeName or the network, or give the node that address",
		sn.Name, at, found.Interface, want, self.Name)
	if sn.At.Address.IsValid() {
		return &wrongError{err} // both addresses are configured
	}
	return err
}

// checkApart refuses the address and port of another network of this node, whose sockets are there already.
func (n *Networks) checkApart(sn *config.SystemNetwork, found iface.Local) error {
	for i, w := range n.all {
		other := &n.cfg.Config.SystemNetworks[i]
		if in := w.now(); in != nil && other.Name != sn.Name && other.Port == sn.Port && in.local.Address == found.Address {
			return fmt.Errorf("network %s: it would use %v (%s), which network %s uses already, and two networks cannot share an address and port; correct systemNetworks[].at of one of them",
				sn.Name, found.Address, found.Interface, other.Name)
		}
	}
	return nil
}

// showTuning puts the parameters of a network into the metrics and the log. It is called whenever the gossip starts
// with other parameters.
func (n *Networks) showTuning(network string, t Tuning) {
	attrs := []any{"network", network, "timing", string(n.cfg.Config.Timing), "tuned_for", t.Size}
	for _, p := range append(t.Params.List(), t.Params.Consequences(t.Size)...) {
		n.metrics.parameters.WithLabelValues(network, p.Name).Set(p.Number())
		attrs = append(attrs, slog.Any(p.Name, p.Value()))
	}
	n.log.Info("gossip runs with these parameters", attrs...)
}

package gossip

import (
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// pinTo is the device that the sockets of a network are to be pinned to, "" for none.
//
// Only packets from the host itself can arrive on a loopback or a dummy interface. An address there is for a
// laboratory, or is announced to routers and reached through any interface.
func (n *Networks) pinTo(sn config.SystemNetwork, found iface.Local) string {
	switch {
	case n.cfg.Listen != nil || sn.BindToDevice == config.BindOff:
		return ""
	case sn.BindToDevice == config.BindOn:
		return found.Interface
	case !found.Internal:
		return found.Interface
	case !found.Address.IsLoopback():
		n.log.Warn("the address is on an interface that receives no packets: sockets are not bound to that interface, and routing decides which interface this network uses",
			"network", sn.Name, "interface", found.Interface, "address", found.Address)
	}
	return ""
}

// openInstance makes the instance of a network, pinned to c.Device if there is one. If bindToDevice is auto, a
// network that cannot be pinned is not an error.
func openInstance(sn config.SystemNetwork, c swim.Config) (in *swim.Instance, unpinned bool, err error) {
	in, err = swim.New(c)
	var pin *swim.PinError
	switch {
	case err == nil:
		return in, false, nil
	case !errors.As(err, &pin):
		return nil, false, err
	case !pin.Denied():
		return nil, false, fmt.Errorf("network %s: %w", sn.Name, pin)
	case sn.BindToDevice == config.BindOn:
		return nil, false, &wrongError{fmt.Errorf("network %s: %w: give the process CAP_NET_RAW or set bindToDevice: auto", sn.Name, pin)}
	}
	c.Device = ""
	in, err = swim.New(c)
	return in, true, err
}

// warnUnpinned logs, once for several networks, what it means that they are not pinned.
func (n *Networks) warnUnpinned(all ...*network) {
	var names []string
	for _, w := range all {
		if in := w.now(); in != nil && in.unpinned {
			names = append(names, w.name)
		}
	}
	if len(names) > 0 {
		n.log.Warn("sockets cannot be bound to the devices of the networks: routing may let one network answer for another; "+
			"give the process CAP_NET_RAW, or keep the networks apart by source-based routing or a firewall and set bindToDevice: false",
			"networks", names)
	}
}

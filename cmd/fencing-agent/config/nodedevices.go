package config

import "fmt"

// checkNodeDevices checks the list of nodes that have devices of their own. A node with more or fewer
// devices of the LUN than the others would break ties in another way.
func checkNodeDevices(c *Config, r *report) {
	const list = "nodeDevices"
	names := make([]string, len(c.NodeDevices))
	for i := range c.NodeDevices {
		d, at := &c.NodeDevices[i], element(list, i)
		names[i] = d.Node
		switch {
		case d.Node == "" && r.intact(child(at, "node")):
			r.problem(child(at, "node"), "is empty", nil, "the name of the node that has these devices")
		case d.Watchdog == "" && len(d.LUN) == 0 && r.intact(at):
			r.problem(at, "says nothing", nil, "watchdog, lun, or both")
		}
		if n := len(d.LUN); n > 0 && n != c.commonDevices && r.intact("lun.devices", child(at, "lun")) {
			r.problem(child(at, "lun"), "does not have as many devices as lun.devices", fmt.Sprintf("%d devices", n),
				"%d, in the order of lun.devices: the same LUN under other names", c.commonDevices)
		}
		if len(c.Members.Static) > 0 && d.Node != "" && !c.Members.lists(d.Node) && r.intact("members.static") {
			r.warn(child(at, "node"), "is not a member", d.Node)
		}
	}
	repeated(names, func(i, _ int) {
		if names[i] != "" {
			r.problem(child(element(list, i), "node"), "is listed twice", names[i], "each node once")
		}
	})
}

// applyNodeDevices replaces the devices of the group by those that nodeDevices sets for this node.
func (c *Config) applyNodeDevices() {
	c.commonDevices = len(c.LUN.Devices)
	for _, d := range c.NodeDevices {
		if d.Node != c.NodeName || d.Node == "" {
			continue
		}
		if d.Watchdog != "" {
			c.Watchdog.Device = d.Watchdog
		}
		if len(d.LUN) > 0 {
			c.LUN.Devices = d.LUN
		}
	}
}

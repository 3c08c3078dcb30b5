package fenceconfig

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Device is a device that fences nodes, with a method to check whether it answers.
type Device struct {
	Name   string // for people: its agent and its address
	Node   string // a node that it fences
	Method Method
}

// Devices returns all devices that the configuration names, each once, in the order of their names. A method that works
// on devices of its own machine has no device that another machine can ask.
func (c *Config) Devices() []Device {
	found := map[string]Device{}
	for _, node := range slices.Sorted(maps.Keys(c.Nodes)) {
		n := c.Nodes[node]
		if n.Broken {
			continue
		}
		for _, m := range slices.Concat(n.Isolation, n.Power, n.Recovery) {
			at := strings.Trim(m.address()+":"+m.option("ipport"), ":")
			name := m.Agent + " " + cmp.Or(at, m.Template)
			if _, ok := found[name]; !ok && !m.HostDevices {
				found[name] = Device{name, node, m}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
}

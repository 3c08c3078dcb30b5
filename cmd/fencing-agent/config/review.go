package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
)

// Reviewed is a file that is checked before it is rolled out, not necessarily on a node.
type Reviewed struct {
	Config *Config
	// Nodes are the members for which the file was checked, if it names no node and this machine
	// is none of them; Config.NodeName is empty then.
	Nodes    []string
	Warnings []Problem // as the agent logs them
	Advice   []Problem // what is valid, but has a price that the file does not show
}

// Review is like Parse, for the check of a file. If nothing tells for which node the file is, and the host's name is
// not a member's, the file is checked for all members. For a refused file Review returns only the warnings.
func Review(name string, data []byte, env func(string) string) (*Reviewed, error) {
	return newReport().review(name, data, env)
}

func (r *report) review(name string, data []byte, env func(string) string) (*Reviewed, error) {
	r.everyNode = true
	c, warnings, err := r.parse(name, data, env)
	if err != nil {
		return &Reviewed{Warnings: warnings}, err
	}
	out := &Reviewed{Config: c, Warnings: warnings}
	if c.NodeName == "" {
		for _, i := range bound(c) {
			out.Nodes = append(out.Nodes, c.Members.Static[i].Name)
		}
	}
	before := len(r.warnings)
	advise(c, r)
	out.Advice = sorted(slices.Clone(r.warnings[before:]))
	return out, nil
}

// lists reports whether the static list has the name.
func (m *Members) lists(name string) bool {
	return slices.ContainsFunc(m.Static, func(x Member) bool { return x.Name == name })
}

// bound returns the members for which the file can be: all members or, if systemNetworks[].at is an address, those that
// have this address.
func bound(c *Config) []int {
	var all, some []int
	for i, m := range c.Members.Static {
		all = append(all, i)
		if !slices.ContainsFunc(c.SystemNetworks, func(n SystemNetwork) bool {
			return n.At.Address != (netip.Addr{}) && n.At.Address != m.Addresses[n.Name]
		}) {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// unstable matches device names that the kernel gives in the order of discovery.
var unstable = regexp.MustCompile(`^(sd[a-z]+|vd[a-z]+|xvd[a-z]+|dm-[0-9]+|nvme[0-9]+n[0-9]+)$`)

// advise adds the advice that an agent does not log at each start.
func advise(c *Config, r *report) {
	if c.Gossip.KeyFile == "" {
		r.warn("gossip.keyFile", "is not given: anybody who can send from a member's address can speak for it", nil)
	}
	if c.Members.Source == SourceController && len(c.Members.Controller.Founders) == 0 {
		r.warn("members.controller.founders", "is not given: this node founds no group, and waits for an existing one; at the first start of a group name its nodes, the same on all of them", nil)
	}
	if len(c.SystemNetworks) == 1 {
		r.warn("systemNetworks", "is a single network: a node that loses this network loses its quorum; configure two that share no switch and no card", nil)
	}
	if v := c.LUNEvidence(len(c.Members.Static)); v > 0 {
		r.warn("lun.mode", fmt.Sprintf("has a price: a node that loses its networks and not the LUN lives on with its volumes, and nothing fails over, "+
			"until a person acts; a dead node is FENCED some %v later than with tiebreaker; and each node writes one more block and reads one "+
			"of each slot, of 4 KiB each, with every lun.heartbeatInterval", 2*(v-c.EvidenceMaxAge()-c.SamplingDelay(len(c.Members.Static)))), c.LUN.Mode)
	}
	for i, path := range c.LUN.Devices {
		if unstable.MatchString(filepath.Base(path)) {
			r.warn(element("lun.devices", i), "may name another device after a reboot; give a path below /dev/disk/by-id or /dev/mapper", path)
		}
	}
}

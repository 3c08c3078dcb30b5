package ownnode

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/fencing-agent/fencing-agent/k8s/client"
)

// RemovalTaint is the taint that the cluster autoscaler sets before it removes a Node.
const RemovalTaint = "ToBeDeletedByClusterAutoscaler"

// State is what is known about this node's Node. Its maps must not be changed.
type State struct {
	Known       bool              `json:"known"`  // the API server has shown the Node once
	Exists      bool              `json:"exists"` // if Known and false: the Node was there and has been deleted
	UID         string            `json:"uid,omitempty"`
	Version     uint64            `json:"version,omitempty"` // of the state that the controller has shown; Equal ignores it
	Deleting    bool              `json:"deleting,omitempty"`
	Taints      []string          `json:"taints,omitempty"` // keys
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Addresses   []netip.Addr      `json:"-"` // the internal addresses
	NotReady    bool              `json:"-"` // its condition Ready is not True
}

// StateOf returns the part of a Node that the agent needs.
func StateOf(n *client.Node) State {
	s := State{
		Known: true, Exists: true, UID: string(n.UID), Deleting: n.DeletionTimestamp != nil,
		Annotations: n.Annotations, Labels: n.Labels, Addresses: InternalAddresses(n),
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == "Ready" {
			s.NotReady = c.Status != "True"
		}
	}
	for i := range n.Spec.Taints {
		s.Taints = append(s.Taints, n.Spec.Taints[i].Key)
	}
	return s
}

// InternalAddresses returns the addresses of a Node inside the cluster, in its order. Invalid addresses are left out.
func InternalAddresses(n *client.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == "InternalIP" {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// Rules configure what disarms.
type Rules struct {
	Disable []string // each of these annotations means maintenance
	Off     bool     // an annotation with the value "off" means that there is no maintenance
}

// Signals are the reasons to disarm. The zero value means that there is none.
type Signals struct {
	Maintenance string // the annotations that are present, separated by commas
	None        string // those that mean that there is no maintenance
	Removal     string // why the Node counts as leaving for good
	Unknown     bool   // nothing is known about the Node
}

// Judge derives the signals.
func (r Rules) Judge(s State) Signals {
	var g Signals
	if !s.Known {
		g.Unknown = true
		return g
	}
	for _, key := range r.Disable {
		if v, present := s.Annotations[key]; present && s.Exists {
			to := &g.Maintenance
			if r.Off && v == "off" {
				to = &g.None
			}
			if *to != "" {
				*to += ","
			}
			*to += key
		}
	}
	switch {
	case !s.Exists:
		g.Removal = "the Node was deleted"
	case s.Deleting:
		g.Removal = "the Node is being deleted"
	case slices.Contains(s.Taints, RemovalTaint):
		g.Removal = "taint " + RemovalTaint
	}
	return g
}

// Memory returns the part of a State on which the signals depend, to be stored over a restart.
func (r Rules) Memory(s State) State {
	m := State{Known: s.Known, Exists: s.Exists, UID: s.UID, Version: s.Version, Deleting: s.Deleting}
	if slices.Contains(s.Taints, RemovalTaint) {
		m.Taints = []string{RemovalTaint}
	}
	for _, key := range r.Disable {
		if v, present := s.Annotations[key]; present {
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			m.Annotations[key] = v
		}
	}
	return m
}

// Equal reports whether two states mean the same to all their users.
func (s State) Equal(o State) bool {
	return s.Known == o.Known && s.Exists == o.Exists && s.UID == o.UID && s.Deleting == o.Deleting &&
		slices.Equal(s.Taints, o.Taints) && maps.Equal(s.Annotations, o.Annotations) && maps.Equal(s.Labels, o.Labels) &&
		slices.Equal(s.Addresses, o.Addresses) && s.NotReady == o.NotReady
}

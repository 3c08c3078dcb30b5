package members

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	firstListPause   = 2 * time.Second
	firstListLongest = 30 * time.Second
)

// nodeSource is the list of members in the API server: the Nodes with the group's label. It comes without a number:
// the nodes number it.
type nodeSource struct {
	cfg      *config.Config
	log      *slog.Logger
	clock    boottime.Clock
	kube     *client.Client
	networks []nodelist.Network
	// local finds this node's address on a network (Config.Local).
	local func(*config.SystemNetwork, netip.Addr) (netip.Addr, error)
	// waiting answers probes of the agent's health until it is stopped.
	waiting func(problem *atomic.Pointer[string]) (stop func())
	present atomic.Pointer[roster.Roster] // the newest that the agent uses; nil: none yet
}

var _ Source = (*nodeSource)(nil)

func newNodeSource(c *Config) *nodeSource {
	return &nodeSource{cfg: c.Config, log: c.Logger, clock: c.Clock, kube: c.Kube, networks: networksOf(c.Config), waiting: c.Waiting, local: c.Local}
}

// networksOf returns the networks in the form that the rules for the nodes' addresses need.
func networksOf(c *config.Config) []nodelist.Network {
	var out []nodelist.Network
	for _, n := range c.SystemNetworks {
		out = append(out, nodelist.Network{Name: n.Name, CIDR: n.At.CIDR, Port: n.Port})
	}
	return out
}

// found finds this node's addresses, by network.
func (k *nodeSource) found() (map[string]netip.Addr, error) {
	return addressesBy(k.cfg, k.local, k.present.Load())
}

// said returns the addresses of a Node that the Node itself shows.
func (k *nodeSource) said(n *nodelist.Node) func(network string) netip.Addr {
	return func(network string) (a netip.Addr) {
		i := slices.IndexFunc(k.networks, func(net nodelist.Network) bool { return net.Name == network })
		if at, err := nodelist.Addresses(n, k.networks[i:i+1]); err == nil {
			a, _ = netip.ParseAddr(at[network])
		}
		return a
	}
}

func (k *nodeSource) source(found func(List)) (*nodelist.Source, error) {
	core, err := k.kube.For(client.Core)
	if err != nil {
		return nil, err
	}
	return nodelist.New(nodelist.Config{
		Client: core, Label: k.cfg.Kubernetes.GroupLabel, Group: k.cfg.NodeGroup, Networks: k.networks,
		Interval: k.cfg.Experimental.CheckInterval, Logger: k.log, Clock: k.clock,
		Present: func() []roster.Member {
			if r := k.present.Load(); r != nil {
				return r.Members
			}
			return nil
		},
		OnList: func(members []roster.Member, readAt boottime.Instant) {
			found(List{Members: members, ReadAt: readAt})
		},
	})
}

// First implements Source: without memory it waits for a list with this node on it, at
// the addresses that the node has. It writes those on the Node that no other node can find out.
func (k *nodeSource) First(ctx context.Context, remembered bool) (List, error) {
	if remembered {
		return List{}, nil
	}
	s, err := k.source(func(List) {})
	if err != nil {
		return List{}, err
	}
	var problem atomic.Pointer[string] // why it waits
	defer k.waiting(&problem)()
	backoff := client.Backoff{First: firstListPause, Most: firstListLongest}
	said := ""
	for {
		list, lacks, err := k.try(ctx, s)
		if err == nil && lacks == "" {
			return list, nil
		}
		if err != nil {
			lacks = err.Error()
		}
		if lacks != said {
			said = lacks
			problem.Store(&lacks)
			k.log.Warn("waiting for the first list of members from the API server; the watchdog is not armed", "server", k.kube.Host(), "problem", lacks)
		}
		if boottime.Wait(ctx, backoff.Next(err)); ctx.Err() != nil {
			return List{}, fmt.Errorf("stopped while waiting for the first list from the API server: %s", lacks)
		}
	}
}

// try reads the list once. If there is no error, lacks says why the list cannot be used.
func (k *nodeSource) try(ctx context.Context, s *nodelist.Source) (list List, lacks string, err error) {
	readAt := k.clock()
	nodes, err := s.Read(ctx, false)
	if err != nil {
		return list, "", err
	}
	i := slices.IndexFunc(nodes, func(n nodelist.Node) bool { return n.Name == k.cfg.NodeName })
	if i < 0 {
		return list, fmt.Sprintf("no Node named %s has the label %s=%s: check nodeName, nodeGroup and the label", k.cfg.NodeName, k.cfg.Kubernetes.GroupLabel, k.cfg.NodeGroup), nil
	}
	own, err := addressesOf(k.cfg, k.local, k.said(&nodes[i]))
	if err != nil {
		return list, "", err
	}
	if write := nodelist.Missing(&nodes[i], k.networks, own); len(write) > 0 {
		core, err := k.kube.For(client.Core)
		if err != nil {
			return list, "", err
		}
		if _, err := marks.Patch(ctx, core, k.cfg.NodeName, nil, wishes(write)); err != nil {
			return list, "", fmt.Errorf("tell this node's addresses: %w", err)
		}
		k.log.Info("wrote this node's addresses on its Node", "annotations", write)
		if nodes[i].Annotations == nil {
			nodes[i].Annotations = map[string]string{}
		}
		maps.Copy(nodes[i].Annotations, write)
	}
	members, _, err := nodelist.Members(nodes, k.networks, nil)
	if err != nil {
		return list, err.Error(), nil
	}
	return List{Members: members, ReadAt: readAt}, "", nil
}

func (k *nodeSource) Follow(ctx context.Context, again <-chan struct{}, found func(List)) {
	s, err := k.source(found)
	if err != nil {
		k.log.Error("the API server is not asked for the list of members", "error", err) // First has tried the same
		return
	}
	s.Run(ctx, again)
}

package gossipsim

import (
	"fmt"
	"io"
	"log"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Method names the way in which a simulated node finds out which nodes it reaches.
type Method string

const (
	// Evidence runs this project's swim.Instance and netgossip.Merger.
	Evidence Method = "evidence"
	// Counting runs memberlist alone and counts its members, as NumMembers does.
	Counting Method = "counting"
)

// Set is a named set of parameters.
type Set struct {
	Name   string
	Method Method
	What   string // a short description for readers
	Params func(nodes int) netgossip.Params
	// Undoubted turns LEFT by doubt off, as in agents from before it existed.
	Undoubted bool
}

// Sets lists all parameter sets, beginning with those that a comparison shows.
func Sets() []Set {
	return []Set{
		{Name: "auto", Method: Evidence, What: "the agent's profile auto, its default", Params: netgossip.ProfileAuto.Params},
		{Name: "lan", Method: Counting, What: "memberlist.DefaultLANConfig", Params: func(int) netgossip.Params { return lanParams() }},
		{Name: "adr-raw", Method: Counting, What: "the ADR's table, the rest as lan", Params: adrRaw},
		{Name: "deckhouse-critical", Method: Counting, What: "Deckhouse's SLA profile critical", Params: deckhouse(
			100*time.Millisecond, 35*time.Millisecond, 100*time.Millisecond, 2, 4, 2*time.Second, time.Second)},
		{Name: "deckhouse-medium", Method: Counting, What: "Deckhouse's SLA profile medium", Params: deckhouse(
			300*time.Millisecond, 120*time.Millisecond, 200*time.Millisecond, 3, 3, 5*time.Second, 2*time.Second)},
		{Name: "adr", Method: Evidence, What: "the agent's profile adr", Params: netgossip.ProfileADR.Params},
		{Name: "fast", Method: Evidence, What: "the agent's profile fast", Params: netgossip.ProfileFast.Params},
		{Name: "calm", Method: Evidence, What: "the agent's profile calm", Params: netgossip.ProfileCalm.Params},
		{Name: "auto-undoubted", Method: Evidence, What: "auto without LEFT by doubt, as in older agents", Params: netgossip.ProfileAuto.Params, Undoubted: true},
		{Name: "auto-counting", Method: Counting, What: "auto's memberlist parameters without its evidence", Params: netgossip.ProfileAuto.Params},
	}
}

// Compared is the number of the Sets that a comparison shows.
const Compared = 5

// SetNames lists the names of all sets.
func SetNames() []string {
	var names []string
	for _, s := range Sets() {
		names = append(names, s.Name)
	}
	return names
}

// FindSet returns the set with the name.
func FindSet(name string) (Set, error) {
	sets := Sets()
	if i := slices.IndexFunc(sets, func(s Set) bool { return s.Name == name }); i >= 0 {
		return sets[i], nil
	}
	return Set{}, fmt.Errorf("the parameter set is %q, but must be one of %s", name, strings.Join(SetNames(), ", "))
}

// lanParams are memberlist's own defaults. The agent's additional parameters have no effect in a set that only counts,
// but must be valid.
func lanParams() netgossip.Params {
	m := memberlist.DefaultLANConfig()
	p := netgossip.Tune(3)
	p.GossipInterval, p.GossipNodes, p.GossipPacketSize = m.GossipInterval, m.GossipNodes, m.UDPBufferSize
	p.ProbeInterval, p.ProbeTimeout = m.ProbeInterval, m.ProbeTimeout
	p.IndirectChecks, p.RetransmitMult = m.IndirectChecks, m.RetransmitMult
	p.PushPullInterval, p.TCPTimeout = m.PushPullInterval, m.TCPTimeout
	p.SuspicionMult, p.SuspicionMaxTimeoutMult = m.SuspicionMult, m.SuspicionMaxTimeoutMult
	p.AwarenessMaxMultiplier = m.AwarenessMaxMultiplier
	p.GossipToTheDeadTime, p.DeadNodeReclaimTime = m.GossipToTheDeadTime, m.DeadNodeReclaimTime
	return p
}

// adrRaw is the ADR's table without additions. The table contains no probe timeout. memberlist's 500 ms would leave the
// helpers no time in an interval of 500 ms, so the timeout is half of the interval.
func adrRaw(nodes int) netgossip.Params {
	p := lanParams()
	p.GossipInterval, p.ProbeInterval = netgossip.ADRIntervals(nodes)
	p.ProbeTimeout = min(p.ProbeTimeout, p.ProbeInterval/2)
	return p
}

// deckhouse returns an SLA profile of Deckhouse's fencing-agent, including derived parameters.
func deckhouse(probe, timeout, gossip time.Duration, suspicion, helpers int, dead, tcp time.Duration) func(int) netgossip.Params {
	return func(int) netgossip.Params {
		p := lanParams()
		p.ProbeInterval, p.ProbeTimeout, p.GossipInterval = probe, timeout, gossip
		p.SuspicionMult, p.IndirectChecks = suspicion, helpers
		p.GossipToTheDeadTime, p.DeadNodeReclaimTime = dead, dead
		p.TCPTimeout, p.PushPullInterval = tcp, max(dead, 2*tcp)
		return p
	}
}

// Override changes one parameter. The key is the parameter's name in the agent's
// configuration; the value is a number or a duration.
func Override(p *netgossip.Params, assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("override %q: want KEY=VALUE", assignment)
	}
	var names []string
	for _, q := range p.List() {
		if q.Name == key {
			return assign(q, assignment, value)
		}
		names = append(names, q.Name)
	}
	return fmt.Errorf("override %q: no parameter has this name, only %s", assignment, strings.Join(names, ", "))
}

func assign(q netgossip.Parameter, assignment, value string) error {
	if q.Duration != nil {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("override %q: want a positive duration such as 500ms", assignment)
		}
		*q.Duration = d
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return fmt.Errorf("override %q: want a number", assignment)
	}
	*q.Count = n
	return nil
}

// memberlistConfig returns the configuration of a memberlist whose members are counted.
func memberlistConfig(p netgossip.Params, name string, network, node int, transport memberlist.NodeAwareTransport) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	at := addrOf(network, node).String()
	m.Name, m.Label, m.Transport = name, labelOf(network), transport
	m.Logger = log.New(io.Discard, "", 0)
	m.BindAddr, m.BindPort, m.AdvertiseAddr, m.AdvertisePort = at, port, at, port
	// This is as in the agent. Probes and acknowledgements would not become smaller anyway.
	m.EnableCompression = false
	m.GossipInterval, m.GossipNodes, m.UDPBufferSize = p.GossipInterval, p.GossipNodes, p.GossipPacketSize
	m.ProbeInterval, m.ProbeTimeout = p.ProbeInterval, p.ProbeTimeout
	m.IndirectChecks, m.RetransmitMult = p.IndirectChecks, p.RetransmitMult
	m.PushPullInterval, m.TCPTimeout = p.PushPullInterval, p.TCPTimeout
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = p.SuspicionMult, p.SuspicionMaxTimeoutMult
	m.AwarenessMaxMultiplier = p.AwarenessMaxMultiplier
	m.GossipToTheDeadTime, m.DeadNodeReclaimTime = p.GossipToTheDeadTime, p.DeadNodeReclaimTime
	return m
}

// labelOf separates the networks, as the agent's labels do.
func labelOf(network int) string { return "sim/group/" + networkName(network) }

func networkName(network int) string { return "net" + strconv.Itoa(network) }

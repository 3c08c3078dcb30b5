package config

import (
	"fmt"
	"strconv"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// MemberSource is the source of the list of expected nodes.
type MemberSource string

// The sources of the member list.
const (
	SourceStatic     MemberSource = "static"
	SourceKubernetes MemberSource = "kubernetes"
	SourceController MemberSource = "controller"
)

// BindToDevice tells whether gossip sockets are bound to the network's device.
type BindToDevice string

// The settings of bindToDevice.
const (
	BindAuto BindToDevice = "auto"
	BindOn   BindToDevice = "true"
	BindOff  BindToDevice = "false"
)

// Sources lists the addresses from which gossip is read.
type Sources string

// The sources of gossip.
const (
	SourcesMembers Sources = "members" // the addresses of the other members on the network
	SourcesAny     Sources = "any"
)

// OnQuorumLoss is what a node without quorum does.
type OnQuorumLoss string

// The policies for the loss of quorum.
const (
	LossFence   OnQuorumLoss = "fence"   // stop feeding
	LossExclude OnQuorumLoss = "exclude" // go on, but LEFT for subscribers
	LossWait    OnQuorumLoss = "wait"    // go on
)

// LUNMode is when the LUN is used.
type LUNMode string

// The modes of the LUN.
const (
	LUNTieBreaker LUNMode = "tiebreaker" // at an equal split only
	LUNOr         LUNMode = "or"         // network or LUN
	LUNAnd        LUNMode = "and"        // network and LUN
)

// Driver tells whether there is a watchdog.
type Driver string

// The watchdog drivers.
const (
	DriverDevice Driver = "device"
	DriverTested Driver = "tested" // as device, once the watchdog was seen to reset this machine
	DriverNone   Driver = "none"   // decide and report, never arm
)

// OnFence is what a node does when it must stop.
type OnFence string

// The ways to stop a node.
const (
	OnFenceExpire OnFence = "expire" // stop feeding
	OnFenceReboot OnFence = "reboot" // reset at once, without shutting down
	OnFenceCrash  OnFence = "crash"  // sysrq-c, for kdump
)

// Commands lists who may report deaths and give orders.
type Commands string

// Who may command.
const (
	CommandsNone     Commands = "none"     // nobody: no reported death is believed, no order is given or obeyed
	CommandsRoot     Commands = "root"     // root in the agent's own PID namespace: on the machine, or in its pod
	CommandsAnywhere Commands = "anywhere" // root in any container that has the socket, too
)

// SelfFence is the loss for which a node fences itself, and announces it.
type SelfFence string

// The losses for which a node fences itself.
const (
	SelfFenceNone   SelfFence = "none"
	SelfFenceQuorum SelfFence = "quorum"        // loss of the quorum, while a LUN shows that others live
	SelfFenceLUN    SelfFence = "quorum-or-lun" // and loss of the LUN by this node alone, in lun.mode and
)

// Page is who may see the status page.
type Page string

// Who may see the page.
const (
	PageLoopback Page = "loopback" // clients on this node, and connections forwarded to it
	PageAny      Page = "any"      // all that reach http.address
	PageNone     Page = "none"     // nobody
)

// DisableSource is a source of a maintenance.
type DisableSource string

// The sources of a maintenance.
const (
	DisableAny  DisableSource = "any"  // none outweighs the others: each of them disarms
	DisableFile DisableSource = "file" // watchdog.disableFile
	DisableNode DisableSource = "node" // kubernetes.disableAnnotations, as the controller or the API server shows them
)

// DisableOrder ranks the sources of a maintenance: the first with an answer decides; empty: each source disarms.
func (w *Watchdog) DisableOrder() []DisableSource {
	switch w.DisableFirst {
	case DisableFile:
		return []DisableSource{DisableFile, DisableNode}
	case DisableNode:
		return []DisableSource{DisableNode, DisableFile}
	}
	return nil
}

// NodeUse is what the agent does with this node's Node. Each value includes the previous ones.
type NodeUse string

// What the agent does with the Node.
const (
	NodeIgnore NodeUse = "ignore" // nothing: the node may not be in this cluster
	NodeFollow NodeUse = "follow" // its annotations, and its removal
	NodeReport NodeUse = "report" // Events about it; on it, which nodes are fenced
	NodeLabel  NodeUse = "label"  // Deckhouse's labels on it
)

// Follows reports whether this node's Node is followed. If there is an API server to ask, the watchdog is then armed
// only after the Node has been seen.
func (k *Kubernetes) Follows() bool { return k.Node != NodeIgnore }

// Reports reports whether Events are created, and deaths are written.
func (k *Kubernetes) Reports() bool { return k.Node == NodeReport || k.Node == NodeLabel }

// Labels reports whether Deckhouse's labels are kept.
func (k *Kubernetes) Labels() bool { return k.Node == NodeLabel }

// An enum lists its values; the decoder accepts no others.
type enum interface{ values() []string }

func (MemberSource) values() []string  { return []string{"static", "kubernetes", "controller"} }
func (DisableSource) values() []string { return []string{"any", "file", "node"} }
func (NodeUse) values() []string       { return []string{"ignore", "follow", "report", "label"} }
func (Commands) values() []string      { return []string{"none", "root", "anywhere"} }
func (BindToDevice) values() []string  { return []string{"auto", "true", "false"} }
func (Sources) values() []string       { return []string{"members", "any"} }
func (OnQuorumLoss) values() []string  { return []string{"fence", "exclude", "wait"} }
func (LUNMode) values() []string       { return []string{"tiebreaker", "or", "and"} }
func (Driver) values() []string        { return []string{"device", "tested", "none"} }
func (OnFence) values() []string       { return []string{"expire", "reboot", "crash"} }
func (SelfFence) values() []string     { return []string{"none", "quorum", "quorum-or-lun"} }
func (Page) values() []string          { return []string{"loopback", "any", "none"} }

// MarshalYAML prints true and false as YAML does.
func (b BindToDevice) MarshalYAML() (any, error) {
	if v, err := strconv.ParseBool(string(b)); err == nil {
		return v, nil
	}
	return string(b), nil
}

// Size is a number of nodes; zero means floor(N/2)+1.
type Size int

// MarshalYAML prints zero as auto.
func (s Size) MarshalYAML() (any, error) {
	if s == 0 {
		return "auto", nil
	}
	return int(s), nil
}

// The values of reachability; the third choice is a number of networks.
const (
	ReachableAny = "any"
	ReachableAll = "all"
)

// Reachability is the number of networks on which a peer must answer.
type Reachability struct {
	Networks string // ReachableAny or ReachableAll; empty: AtLeast counts
	AtLeast  int
}

// Policy is the setting in the form that the merger of views takes.
func (r Reachability) Policy() netgossip.Policy {
	switch r.Networks {
	case ReachableAny:
		return netgossip.Any()
	case ReachableAll:
		return netgossip.All()
	default:
		return netgossip.AtLeast(r.AtLeast)
	}
}

// String prints the setting as the file spells it.
func (r Reachability) String() string {
	if r.Networks != "" {
		return r.Networks
	}
	return fmt.Sprintf("{atLeast: %d}", r.AtLeast)
}

// MarshalYAML prints the setting as the file spells it.
func (r Reachability) MarshalYAML() (any, error) {
	if r.Networks != "" {
		return r.Networks, nil
	}
	return map[string]int{"atLeast": r.AtLeast}, nil
}

// MarshalYAML prints the place as the file spells it.
func (p Place) MarshalYAML() (any, error) { return p.text(), nil }

// text is the place as the file spells it; empty: there is none.
func (p Place) text() string {
	switch {
	case p.CIDR.IsValid():
		return p.CIDR.String()
	case p.Address.IsValid():
		return p.Address.String()
	}
	return p.Interface
}

// Where says in words where the network is.
func (p Place) Where() string {
	switch {
	case p.Interface != "":
		return "interface " + p.Interface
	case p.CIDR.IsValid():
		return "cidr " + p.CIDR.String()
	case p.Address.IsValid():
		return "address " + p.Address.String()
	default:
		return ""
	}
}

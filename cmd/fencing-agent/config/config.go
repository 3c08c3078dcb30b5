package config

import (
	"net/netip"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Config is the whole configuration of one agent.
type Config struct {
	Cluster        string          `yaml:"cluster" form:"label value"`            // in the gossip label and the LUN's superblock
	NodeName       string          `yaml:"nodeName" form:"node name or empty"`    // $NODE_NAME, then the hostname
	NodeGroup      string          `yaml:"nodeGroup" form:"label value or empty"` // $NODE_GROUP
	Members        Members         `yaml:"members"`
	Kubernetes     Kubernetes      `yaml:"kubernetes"`
	SystemNetworks []SystemNetwork `yaml:"systemNetworks"`
	Reachability   Reachability    `yaml:"reachability"`
	Gossip         Gossip          `yaml:"gossip"`
	Quorum         Quorum          `yaml:"quorum"`
	OnQuorumLoss   OnQuorumLoss    `yaml:"onQuorumLoss"`
	RestartGrace   time.Duration   `yaml:"restartGrace" range:"0s..10m"` // 0: none
	Timing         Timing          `yaml:"timing"`
	LUN            LUN             `yaml:"lun"`
	Watchdog       Watchdog        `yaml:"watchdog"`
	NodeDevices    []NodeDevices   `yaml:"nodeDevices"`
	API            API             `yaml:"api"`
	HTTP           HTTP            `yaml:"http"`
	Experimental   Experimental    `yaml:"experimental"`

	// InCluster says that the environment offers the in-cluster Kubernetes API.
	InCluster bool `yaml:"-"`
	// WatchdogDriver is what is known of the watchdog's driver, if somebody has looked.
	WatchdogDriver watchdog.Driver `yaml:"-"`

	commonDevices int // of lun.devices in the file
}

// Members configures the source of the list of expected nodes.
type Members struct {
	Source     MemberSource `yaml:"source"`
	Epoch      int          `yaml:"epoch" range:"0..1000000000000000"` // to be raised with each change of the list
	Static     []Member     `yaml:"static"`
	CacheFile  string       `yaml:"cacheFile" form:"absolute path"`
	Controller Controller   `yaml:"controller"`
}

// Controller is where fencing-controller serves lists, with source controller.
type Controller struct {
	Address     string   `yaml:"address" form:"host:port or empty"`
	ServerName  string   `yaml:"serverName" form:"node name or empty"` // the name in the server's certificate; empty: the host of Address
	Credentials string   `yaml:"credentials" form:"absolute path"`     // the folder with the CA of the server's certificate and the token for the server
	Founders    []string `yaml:"founders" form:"node name"`            // no group is founded without them; empty: this node founds none
}

// Member is one expected node of a static list.
type Member struct {
	Name      string                `yaml:"name" form:"node name"`
	Addresses map[string]netip.Addr `yaml:"addresses"` // by the name of the system network
}

// NodeDevices are the devices of one node, if they have other names on it than on the rest of the group.
type NodeDevices struct {
	Node     string   `yaml:"node" form:"node name"`
	Watchdog string   `yaml:"watchdog" form:"watchdog device or empty"` // empty: as watchdog.device
	LUN      []string `yaml:"lun" form:"LUN device"`                    // none: as lun.devices
}

// Kubernetes is what the agent needs to know about the cluster's API.
type Kubernetes struct {
	Names              Names    `yaml:"names"`                                    // defaults for GroupLabel and DisableAnnotations
	Kubeconfig         string   `yaml:"kubeconfig" form:"absolute path or empty"` // empty: in-cluster
	GroupLabel         string   `yaml:"groupLabel" form:"label key"`
	DisableAnnotations []string `yaml:"disableAnnotations" form:"label key"`
	Node               NodeUse  `yaml:"node"` // of this node's Node
}

// SystemNetwork is one network that carries a gossip instance of its own.
type SystemNetwork struct {
	Name         string       `yaml:"name" form:"network name"`
	At           Place        `yaml:"at"`
	Port         int          `yaml:"port" range:"1..65535"`
	BindToDevice BindToDevice `yaml:"bindToDevice"`
}

// Place is where a network is on this node: at one of these.
type Place struct {
	Interface string
	CIDR      netip.Prefix
	Address   netip.Addr
}

// Gossip tunes the membership protocol and its encryption.
type Gossip struct {
	KeyFile string `yaml:"keyFile" form:"absolute path or empty"`

	Profile netgossip.Profile `yaml:"-"` // as the timing has it
}

// Quorum says how many nodes are enough, and what decides when exactly half are left.
type Quorum struct {
	Size     Size     `yaml:"size"`
	TieBreak TieBreak `yaml:"tieBreak"`
}

// LUN is the shared storage that arbitrates equal splits.
type LUN struct {
	Devices           []string      `yaml:"devices" form:"LUN device"`
	Mode              LUNMode       `yaml:"mode"`
	Hold              bool          `yaml:"hold"`
	HeartbeatInterval time.Duration `yaml:"heartbeatInterval" range:"100ms..10s"`
	IOTimeout         time.Duration `yaml:"ioTimeout" range:"200ms..30s"`
}

// Watchdog is the device that resets the node and the way it is used.
type Watchdog struct {
	Driver  Driver        `yaml:"driver"`
	Device  string        `yaml:"device" form:"watchdog device"`
	Timeout time.Duration `yaml:"timeout" range:"2s..1h"` // whole seconds; the driver may change it, and its answer counts
	OnFence OnFence       `yaml:"onFence"`
	// SelfFence says on which loss a node condemns itself and tells the others when it will be dead.
	SelfFence   SelfFence `yaml:"selfFence"`
	DisableFile string    `yaml:"disableFile" form:"absolute path"`
	// DisableFirst says which source of a maintenance outweighs the others.
	DisableFirst DisableSource `yaml:"disableFirst"`

	// FeedInterval and SentenceAfter follow from the timing, unless experimental sets them. SentenceAfter is how long a
	// node must have lost for certain before it condemns itself; zero: it never does.
	FeedInterval  time.Duration `yaml:"-"`
	SentenceAfter time.Duration `yaml:"-"`
}

// Experimental holds the keys that only a measurement or a laboratory sets. A key that is nil follows from other keys.
type Experimental struct {
	Gossip           Overrides      `yaml:",inline"`
	Lifeguard        bool           `yaml:"lifeguard"`   // false: a slow node neither slows down nor is given more time
	LeftByDoubt      bool           `yaml:"leftByDoubt"` // a peer that several members miss is LEFT before the evidence of it expires
	Sources          Sources        `yaml:"gossipSources"`
	CheckInterval    time.Duration  `yaml:"checkInterval" range:"0s..24h"`              // between two looks at the Nodes; 0: only when peers have seen a change
	HistoryMegabytes int            `yaml:"historyMegabytes" range:"0..64"`             // of the file; 0: none
	FeedInterval     *time.Duration `yaml:"feedInterval,omitempty" range:"100ms..30m"`  // of the watchdog
	SelfFenceAfter   *time.Duration `yaml:"selfFenceAfter,omitempty" range:"500ms..1h"` // for how long the loss must be certain
}

// API is the gRPC sockets.
type API struct {
	Socket      string   `yaml:"socket" form:"socket path"`
	MoreSockets []string `yaml:"moreSockets" form:"socket path"`    // the same API, mode and group at other paths
	SocketGroup string   `yaml:"socketGroup" form:"group or empty"` // empty: the agent's own group
	// Commands says who may report another node as dead or order it to fence itself, and whether this node believes
	// and obeys.
	Commands Commands `yaml:"commands"`
}

// HTTP is the listener for metrics, health and the status page.
type HTTP struct {
	Address string `yaml:"address" form:"host:port or empty"` // empty: off
	Page    Page   `yaml:"page"`                              // who is shown the status page
}

// DefaultPort is the gossip port of a system network that names none.
const DefaultPort = 7946

// Default returns the configuration of an empty file. It lacks what has no default: the node group, the system
// networks and the members.
func Default() *Config {
	return &Config{
		Cluster: "default",
		Members: Members{
			Source:     SourceStatic,
			CacheFile:  "/var/lib/fencing-agent/members.json",
			Controller: Controller{Credentials: "/var/run/secrets/fencing-controller"},
		},
		Kubernetes: Kubernetes{
			Names:              NamesDeckhouse,
			GroupLabel:         NamesDeckhouse.groupLabel(),
			DisableAnnotations: NamesDeckhouse.disableAnnotations(),
			Node:               NodeReport,
		},
		Reachability: Reachability{Networks: ReachableAny},
		Gossip:       Gossip{Profile: netgossip.ProfileAuto},
		Experimental: Experimental{Lifeguard: true, LeftByDoubt: true, Sources: SourcesMembers, CheckInterval: 5 * time.Minute, HistoryMegabytes: 4},
		Quorum:       Quorum{TieBreak: TieBreakAuto},
		OnQuorumLoss: LossFence,
		RestartGrace: 30 * time.Second,
		Timing:       TimingDefault,
		LUN: LUN{
			Mode:              LUNTieBreaker,
			Hold:              true,
			HeartbeatInterval: time.Second,
			IOTimeout:         2 * time.Second,
		},
		Watchdog: Watchdog{
			Driver:        DriverDevice,
			Device:        "/dev/watchdog",
			Timeout:       30 * time.Second,
			FeedInterval:  5 * time.Second,
			OnFence:       OnFenceExpire,
			SelfFence:     SelfFenceQuorum,
			SentenceAfter: 5200 * time.Millisecond,
			DisableFirst:  DisableAny,
			DisableFile:   "/var/run/fencing-agent/disable",
		},
		API:  API{Socket: "/var/run/fencing-agent.sock", Commands: CommandsRoot},
		HTTP: HTTP{Address: "127.0.0.1:9110", Page: PageLoopback},
	}
}

// setDefaults fills a new element of systemNetworks before its keys are read.
func (n *SystemNetwork) setDefaults() {
	n.Port = DefaultPort
	n.BindToDevice = BindAuto
}

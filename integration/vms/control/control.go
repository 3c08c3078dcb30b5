package control

import "time"

// Port is the name of the virtio port in the guest.
const Port = "ctl"

// Kinds of messages from a guest.
const (
	Hello = "hello" // the guest has booted; Text is the kernel's boot_id
	Log   = "log"   // Text is a line of the program Source
	// Feed reports a call that the kernel's watchdog core saw. Source is start, ping or stop, or, for a driver that does
	// not use the core, ioctl: a call that feeds.
	Feed  = "feed"
	Reply = "reply" // the answer to the request ID
)

// Sources of log lines.
const (
	SourceAgent = "agent"
	SourceGuest = "guest"
)

// Message is a line from a guest.
type Message struct {
	Kind   string `json:"kind"`
	ID     uint64 `json:"id,omitempty"`
	Source string `json:"source,omitempty"`
	Text   string `json:"text,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Operations that a guest carries out.
const (
	OpExec    = "exec"    // Args[0] is a script for sh; the reply's Text is its output
	OpGet     = "get"     // Args[0] is an HTTP URL; the reply's Text is its body
	OpService = "service" // Args[0] is start, stop, restart, or norestart: an agent that ends is not restarted
)

// Request is a line to a guest.
type Request struct {
	ID   uint64   `json:"id"`
	Op   string   `json:"op"`
	Args []string `json:"args,omitempty"`
}

// Interface is a network card, by its MAC address.
type Interface struct {
	MAC     string `json:"mac"`
	Name    string `json:"name"`
	Address string `json:"address"` // with the length of the prefix
}

// Module is a kernel module in the image.
type Module struct {
	Path    string `json:"path"`
	Options string `json:"options,omitempty"`
}

// Initiator describes how a node reaches its LUN.
type Initiator struct {
	Name   string `json:"name"`   // of this node
	Target string `json:"target"` // of the LUN
	Portal string `json:"portal"`
}

// Target is a LUN that a storage machine offers.
type Target struct {
	Name       string   `json:"name"`
	Portal     string   `json:"portal"`
	Device     string   `json:"device"`
	Serial     string   `json:"serial"`
	Initiators []string `json:"initiators"`
}

// Boot describes what one machine does when it boots. Files are written first.
type Boot struct {
	Name       string            `json:"name"`
	Modules    []Module          `json:"modules"` // in the order in which they are loaded
	Disk       string            `json:"disk,omitempty"`
	Interfaces []Interface       `json:"interfaces"`
	Files      map[string]string `json:"files,omitempty"`
	Initiator  *Initiator        `json:"initiator,omitempty"`
	Target     *Target           `json:"target,omitempty"`
	Service    []string          `json:"service,omitempty"` // the command line of the agent
	Env        []string          `json:"env,omitempty"`     // environment of the agent
	Later      bool              `json:"later,omitempty"`   // the agent starts only on request
	Crash      string            `json:"crash,omitempty"`   // a script for sh: all that a crash kernel does with its networks up
}

// Condemned is the state of the watchdog of a condemned boot.
type Condemned struct {
	Told  time.Duration // the time that peers are told; 0: they are told nothing
	Bound time.Duration // the time after which peers report FENCED
	Why   string        // why peers are told nothing
}

// CondemnedWord is the beginning of the line on the console that contains a Condemned.
const CondemnedWord = "condemned: "

// BootFile is the path of a machine's Boot in the image; the kernel's command line says vm=NAME.
func BootFile(name string) string { return "/etc/vm/" + name + ".json" }

// DiskMount is the mount point of the disk that a machine keeps across a reset.
const DiskMount = "/disk"

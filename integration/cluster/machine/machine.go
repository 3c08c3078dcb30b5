package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Spec is what a node gets at its boot.
type Spec struct {
	Name    string
	Dir     string            // folder of the node on the host: configuration, logs, what outlives a boot
	Boot    string            // what the kernel calls this boot, where the node does not have a kernel of its own
	Ports   []Port            // its networks
	Gateway string            // address of the harness on the first of them
	Pods    string            // network of its pods, such as 10.244.1.0/24
	Routes  map[string]string // networks of the pods of other nodes, and their addresses
	Server  string            // URL of the API server
	CAFile  string            // what identifies the server, and who may talk to the kubelet
	Token   string            // of the kubelet
	Kubelet string            // the program that is a kubelet, called by that name
	Tools   string            // folder with fencectl, for commands in the node
	Runtime string            // folder with containerd, runc, ctr, CNI plugins
	Guest   string            // the program that runs in the node, for hooks
	Images  []string          // archives that its containerd imports at the first boot
	Sandbox string            // image that holds the namespaces of a pod
	LUN     Device
	Modules string // folder with the modules of the node's kernel, where it has one of its own
	LUNPath string // of the LUN in the node

	LeaseSeconds int // for which the kubelet's Lease lasts; it is renewed after a quarter of that

	Watchdog string // path in the node of the socket that is its watchdog; "": it has none
	CSI      string // the program that mounts volumes; "": there is no storage
	Volumes  string // folder of the host with a folder for each volume
}

// Port is one interface of a node.
type Port struct {
	Name     string // of the interface in the node, and of the network
	Address  string // with the length of its prefix
	Hardware net.HardwareAddr
}

// Device is a block device of the host.
type Device struct {
	Path         string // of the device, or of the file where nodes have a kernel of their own
	Major, Minor uint32
}

// Softdog is the watchdog of a kernel of a node's own. The first name belongs to another driver there.
const Softdog = "/dev/watchdog1"

// Persistent are the folders that outlive a boot.
var Persistent = []string{"/var/lib", "/var/log", "/opt"}

// AgentFolder is where the agent of a node keeps its files: on a small disk of its own in nodes of namespaces, on the
// node's disk in others.
const AgentFolder = "/var/lib/fencing-agent"

// Kind is what nodes are made of.
type Kind interface {
	// Name is for people.
	Name() string
	// Missing returns what this host lacks to run that many nodes.
	Missing(nodes int) error
	// OwnKernel reports whether each node has a kernel of its own. Then it has a watchdog, [Softdog], which resets it,
	// and its guest has the LUN's file as a device, and can lose it.
	OwnKernel() bool
	// Boot starts a node and returns when its containerd answers and its kubelet was
	// started. It connects the node by ports, one of whose methods it calls once.
	Boot(ctx context.Context, s Spec, ports Ports) (Machine, error)
}

// Ports connects a node that boots to the networks, in the order of [Spec.Ports].
type Ports interface {
	// Enter creates the interfaces in the network namespace of a process, with the names that they have in the node.
	Enter(pid int) error
	// Taps makes taps in the namespace of the harness, and returns their names.
	Taps() ([]string, error)
}

// Machine is a node from its boot to its end.
type Machine interface {
	// Do makes the guest do something; see package guest for the requests.
	Do(ctx context.Context, q Request) (Answer, error)
	// Kill is like a loss of power: nobody is notified, and nothing is written. It returns when nothing of the node
	// runs any more.
	Kill() error
	// Freeze stops all that runs in the node, as a hypervisor or a broken bus does, until Thaw.
	Freeze() error
	Thaw() error
	// Done is closed when the node has ended, for whatever reason.
	Done() <-chan struct{}
}

// The requests that a guest answers.
const (
	Lose    = "lose"    // the LUN, by an error for each I/O; only where nodes have a kernel of their own
	Restore = "restore" // the LUN

	Kill = "kill" // a program of the node, with SIGKILL: it is started again a second later
	Hold = "hold" // a program of the node, which is not started again until it is released
	Free = "free" // a program that was held
	Run  = "run"  // a command in the node
)

// Request asks a guest for something.
type Request struct {
	ID      int
	Do      string
	Program string   // kubelet or containerd
	Args    []string // of Run
}

// Answer is the result of a request.
type Answer struct {
	ID     int
	Output []byte // both outputs of Run
	Code   int    // exit code of Run
	Error  string
}

// write leaves the spec where the guest reads it.
func (s *Spec) write() (path string, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	path = filepath.Join(s.Dir, "spec.json")
	return path, errors.Join(os.MkdirAll(s.Dir, 0o755), os.WriteFile(path, text, 0o600))
}

// ready waits until a node has booted, and kills it if it has not.
func (s *Spec) ready(m Machine, err error) (Machine, error) {
	if err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w; see %s", s.Name, err, filepath.Join(s.Dir, "node.log")), m.Kill())
	}
	return m, nil
}

// node is what both kinds have.
type node struct {
	*Process
	line *Line
}

// Do asks the guest.
func (n *node) Do(ctx context.Context, q Request) (Answer, error) { return n.line.Do(ctx, q) }

// Kill ends process 1, and with it all that runs in the node.
func (n *node) Kill() error {
	err := n.Process.Kill()
	n.gone()
	return err
}

// gone waits until a node that was killed has ended.
func (n *node) gone() {
	<-n.Done()
	_ = n.Conn.Close() // it is of no use any more
}

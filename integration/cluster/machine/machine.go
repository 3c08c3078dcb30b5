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

// Spec contains what a node gets at its boot.
type Spec struct {
	Name    string
	Dir     string            // folder of the node on the host: configuration, logs, and what survives a boot
	Boot    string            // the kernel's identifier of this boot, if the node does not have its own kernel
	Ports   []Port            // its networks
	Gateway string            // address of the harness on the first network
	Pods    string            // network of its pods, such as 10.244.1.0/24
	Routes  map[string]string // networks of the pods of other nodes, with the nodes' addresses
	Server  string            // URL of the API server
	CAFile  string            // certificate authority that identifies the server and the kubelet's clients
	Token   string            // token of the kubelet
	Kubelet string            // program that acts as a kubelet if it is called by that name
	Tools   string            // folder with fencectl, for commands in the node
	Runtime string            // folder with containerd, runc, ctr, CNI plugins
	Guest   string            // the program that runs in the node, for hooks
	Images  []string          // archives that its containerd imports at the first boot
	Sandbox string            // image of the container that holds the namespaces of a pod
	LUN     Device
	Modules string // folder with the modules of the node's kernel, if it has its own
	LUNPath string // path of the LUN in the node

	LeaseSeconds int // lifetime of the kubelet's Lease, which it renews after a quarter of that

	Watchdog string // path in the node of its watchdog's socket; "": it has none
	CSI      string // program that mounts volumes; "": there is no storage
	Volumes  string // folder of the host with a folder for each volume
}

// Port is one interface of a node.
type Port struct {
	Name     string // name of the interface in the node, and of the network
	Address  string // with the length of its prefix
	Hardware net.HardwareAddr
}

// Device is a block device of the host.
type Device struct {
	Path         string // path of the device, or of the file if nodes have their own kernels
	Major, Minor uint32
}

// Softdog is the watchdog of a node that has its own kernel. The first device name belongs to another driver there.
const Softdog = "/dev/watchdog1"

// Persistent lists the folders that survive a boot.
var Persistent = []string{"/var/lib", "/var/log", "/opt"}

// AgentFolder is where the agent of a node keeps its files. In nodes of namespaces it is a separate small disk, and in
// others it is on the node's disk.
const AgentFolder = "/var/lib/fencing-agent"

// Kind is a kind of nodes.
type Kind interface {
	// Name is the kind's name in messages.
	Name() string
	// Missing returns what this host lacks to run that many nodes.
	Missing(nodes int) error
	// OwnKernel reports whether each node has its own kernel. It then has a watchdog, [Softdog], which resets it, and
	// its guest uses the LUN's file as a device, which it can lose.
	OwnKernel() bool
	// Boot starts a node and returns when its containerd answers and its kubelet was started. It connects the node with
	// ports, and calls one method of ports once.
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
	// Kill is like a loss of power: nobody is notified, and nothing is written. It returns when nothing in the node
	// runs any more.
	Kill() error
	// Freeze stops everything that runs in the node until Thaw, as a hypervisor or a broken bus does.
	Freeze() error
	Thaw() error
	// Done is closed when the node has ended, for whatever reason.
	Done() <-chan struct{}
}

// The requests that a guest answers.
const (
	Lose    = "lose"    // makes each I/O on the LUN fail; only if nodes have their own kernels
	Restore = "restore" // ends Lose

	Kill = "kill" // ends a program with SIGKILL, which is started again a second later
	Hold = "hold" // ends a program, which is not started again until it is released
	Free = "free" // releases a program that was held
	Run  = "run"  // runs a command in the node
)

// Request asks a guest for something.
type Request struct {
	ID      int
	Do      string
	Program string   // kubelet or containerd
	Args    []string // for Run
}

// Answer is the result of a request.
type Answer struct {
	ID     int
	Output []byte // both outputs of Run
	Code   int    // exit code of Run
	Error  string
}

// write writes the spec to the file from which the guest reads it.
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

// node is the part that both kinds have.
type node struct {
	*Process
	line *Line
}

// Do sends a request to the guest and returns its answer.
func (n *node) Do(ctx context.Context, q Request) (Answer, error) { return n.line.Do(ctx, q) }

// Kill ends process 1, and with it everything that runs in the node.
func (n *node) Kill() error {
	err := n.Process.Kill()
	n.gone()
	return err
}

// gone waits until a node that was killed has ended.
func (n *node) gone() {
	<-n.Done()
	_ = n.Conn.Close() // it is no longer of use
}

package vms

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

const (
	storage    = "storage"
	san        = "san" // the network of the LUN
	targetName = "iqn.2024-01.test.lab:lun"
	portal     = "10.88.3.100:3260"

	nodeMegabytes    = 256
	storageMegabytes = 192
	diskMegabytes    = 128
	lunBytes         = 16 << 20

	// watchdogTimeout is long enough for an agent on an emulated, shared processor to start again, and short enough for
	// a run with many resets.
	watchdogTimeout = 20 * time.Second
	feedInterval    = 2 * time.Second
	sentenceTimeout = time.Second // the default, for a boot that has been condemned
)

var (
	nodes    = nodesNamed(4)            // of a lab whose crew does not name any
	networks = []string{"mgmt", "data"} // those of the agents
)

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func nodesNamed(count int) (names []string) {
	for i := range count {
		names = append(names, nodeName(i))
	}
	return names
}

// crew is what runs on the nodes of a lab.
type crew struct {
	nodes     []string                           // none: the default nodes
	megabytes int                                // memory of a node
	lun       func(path string) error            // writes the first content of the LUN; nil: zeros
	disk      func(root string) error            // fills the disk of a node
	diskSize  int                                // in megabytes; 0: diskMegabytes
	node      func(i int) (image.Machine, error) // returns the machine of nodes[i]
	kernel    string                             // added to the command line of the machines' kernels
	storage   func() image.Machine               // nil: storageMachine
	luns      int                                // number of LUNs, all alike, as disks of the storage; 0: one
	extra     []image.Extra                      // more programs for all machines
	board     string                             // board of the machines; empty: pc
	qemu      []string                           // more of QEMU's arguments
	once      bool                               // a reset ends a machine
	boot      func(l *lab) error                 // starts the machines in place of all of the above; may be nil
}

// agentsOn returns the crew of the scenarios: the agent, with additions to its configuration.
func agentsOn(nodes []string, config map[string]any) crew {
	return crew{
		nodes: nodes, megabytes: nodeMegabytes, disk: agentDisk,
		lun:  func(path string) error { return initLUN(path, len(nodes)) },
		node: func(i int) (image.Machine, error) { return agentMachine(nodes, i, config) },
	}
}

// lab is a number of nodes and their storage.
type lab struct {
	crew     crew
	nodes    []string
	dir      string // logs, disks, LUN
	sockets  string // the path must be short
	fabric   *fabric.Fabric
	machines map[string]*machine.Machine
}

// newLab boots all machines, and does not wait until they are up.
func newLab(t *testing.T, c crew) (*lab, error) {
	interrupted.Lock()
	defer interrupted.Unlock()
	l := &lab{crew: c, nodes: c.nodes, machines: map[string]*machine.Machine{}}
	if len(l.nodes) == 0 {
		l.nodes = nodes
	}
	var err error
	if l.dir, err = os.MkdirTemp("", "fencing-lab-"); err != nil {
		return nil, err
	}
	if l.sockets, err = os.MkdirTemp("", "vm"); err != nil {
		return nil, err
	}
	l.fabric = fabric.New(l.sockets)
	if interrupted.labs == nil {
		interrupted.labs = map[*lab]bool{}
	}
	interrupted.labs[l] = true
	boot := l.crew.boot
	if boot == nil {
		boot = func(l *lab) error { return l.boot(t.Context()) }
	}
	if err := boot(l); err != nil {
		delete(interrupted.labs, l)
		l.end()
		l.removeFiles()
		return nil, err
	}
	return l, nil
}

func (l *lab) boot(ctx context.Context) error {
	var luns []string
	for i := range max(1, l.crew.luns) {
		lun := filepath.Join(l.dir, fmt.Sprintf("lun%d.img", i))
		if err := os.WriteFile(lun, nil, 0o644); err != nil {
			return err
		}
		if err := os.Truncate(lun, lunBytes); err != nil {
			return err
		}
		if l.crew.lun != nil {
			if err := l.crew.lun(lun); err != nil {
				return err
			}
		}
		luns = append(luns, lun)
	}
	machines := []image.Machine{storageMachine(l.nodes)}
	if l.crew.storage != nil {
		machines[0] = l.crew.storage()
	}
	for i := range l.nodes {
		m, err := l.crew.node(i)
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	img, err := image.Build(built.tree, l.dir, built.guest, machines, l.crew.extra...)
	if err != nil {
		return err
	}
	if err := l.start(ctx, img, storage, luns, storageMegabytes, machines[0].Boot.Interfaces); err != nil {
		return err
	}
	root := filepath.Join(l.dir, "disk")
	if err := l.crew.disk(root); err != nil {
		return err
	}
	for i, node := range l.nodes {
		disk := filepath.Join(l.dir, node+".img")
		if err := image.Disk(ctx, disk, root, cmp.Or(l.crew.diskSize, diskMegabytes)); err != nil {
			return err
		}
		if err := l.start(ctx, img, node, []string{disk}, l.crew.megabytes, machines[i+1].Boot.Interfaces); err != nil {
			return err
		}
	}
	return nil
}

// current is a link to the folder of the agent that a node runs: first or next.
const current = control.DiskMount + "/current"

func initLUN(path string, slots int) error {
	out, err := exec.Command(filepath.Join(built.programs, "fencectl"), "lun", "init", path, "--cluster", "lab", "--node-group", "worker", "--slots", strconv.Itoa(slots)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fencectl lun init: %w\n%s", err, out)
	}
	return nil
}

// agentDisk fills the disk with the programs. A node keeps its list of members there across a reset.
func agentDisk(root string) error {
	for name, at := range map[string]string{"fencing-agent": "first/fencing-agent", "fencing-agent.next": "next/fencing-agent", "fencectl": "bin/fencectl"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(at)), 0o755); err != nil {
			return err
		}
		if err := os.Link(filepath.Join(built.programs, name), filepath.Join(root, at)); err != nil {
			return err
		}
	}
	if err := os.Symlink("first", filepath.Join(root, filepath.Base(current))); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(root, "lib"), 0o755)
}

func (l *lab) start(ctx context.Context, img *image.Image, name string, disks []string, megabytes int, cards []control.Interface) error {
	c := machine.Config{Name: name, Kernel: img.Kernel, Initrd: img.Initrd, Disks: disks, Megabytes: megabytes, SocketDir: l.sockets, LogDir: l.dir, TSCKilohertz: built.tsc, Append: l.crew.kernel,
		Board: l.crew.board, Args: l.crew.qemu, Once: l.crew.once}
	for _, card := range cards {
		mac, err := net.ParseMAC(card.MAC)
		if err != nil {
			return err
		}
		port, err := l.fabric.Connect(card.Name, name, mac)
		if err != nil {
			return err
		}
		c.Ports = append(c.Ports, port)
	}
	m, err := machine.Start(ctx, c)
	if err != nil {
		return err
	}
	l.machines[name] = m
	return nil
}

// end kills the machines.
func (l *lab) end() {
	for _, m := range l.machines {
		m.Close()
	}
	l.fabric.Close()
}

func (l *lab) removeFiles() {
	os.RemoveAll(l.dir)
	os.RemoveAll(l.sockets)
}

// close ends the lab of a test. If the test failed, it logs which files are left.
func (l *lab) close(t *testing.T) {
	interrupted.Lock()
	defer interrupted.Unlock()
	delete(interrupted.labs, l)
	l.end()
	// The output of a mutant's test already contains all that matters.
	if !t.Failed() || os.Getenv(mutantEnv) != "" {
		l.removeFiles()
		return
	}
	os.RemoveAll(l.sockets)
	for _, pattern := range []string{"*.img", "initrd", "disk"} {
		names, _ := filepath.Glob(filepath.Join(l.dir, pattern)) // the pattern is valid
		for _, name := range names {
			os.RemoveAll(name)
		}
	}
	t.Logf("the logs of the machines are kept in %s", l.dir)
}

func address(network, host int) string { return fmt.Sprintf("10.88.%d.%d", network, host) }

func card(network, host int, name string) control.Interface {
	return control.Interface{
		MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", network, host), Name: name, Address: address(network, host) + "/24",
	}
}

func initiator(node string) string { return "iqn.2024-01.test.lab:" + node }

func named(names ...string) (modules []control.Module) {
	for _, name := range names {
		modules = append(modules, control.Module{Path: name})
	}
	return modules
}

// common returns the modules of every machine.
func common() []control.Module {
	return named("virtio_pci", "virtio_console", "virtio_net", "virtio_blk", "ext4", "crc32c_generic", "crc32c_intel")
}

func storageMachine(nodes []string) image.Machine {
	target := &control.Target{Name: targetName, Portal: portal, Device: "/dev/vda", Serial: "fencing-lab-lun"}
	for _, node := range nodes {
		target.Initiators = append(target.Initiators, initiator(node))
	}
	return image.Machine{
		Boot:    control.Boot{Name: storage, Interfaces: []control.Interface{card(3, 100, san)}, Target: target},
		Modules: slices.Concat(common(), named("configfs", "target_core_mod", "target_core_iblock", "iscsi_target_mod")),
	}
}

// nodeMachine returns a node with three networks, the LUN and a watchdog.
func nodeMachine(i int) image.Machine {
	name := nodeName(i)
	return image.Machine{
		Boot: control.Boot{
			Name: name, Disk: "/dev/vda",
			Interfaces: []control.Interface{card(1, i+1, networks[0]), card(2, i+1, networks[1]), card(3, i+1, san)},
			Files:      map[string]string{"/etc/iscsi/iscsid.conf": iscsidConf},
			Initiator:  &control.Initiator{Name: initiator(name), Target: targetName, Portal: portal},
			Env:        []string{"NODE_NAME=" + name},
		},
		Modules: slices.Concat(common(), named("sd_mod", "iscsi_tcp"), []control.Module{
			// This follows deploy/node/modprobe.d.
			{Path: "watchdog", Options: "stop_on_reboot=0"},
			{Path: "softdog", Options: "nowayout=0 soft_panic=0"},
		}),
	}
}

func agentMachine(nodes []string, i int, extra map[string]any) (image.Machine, error) {
	config := agentConfig(nodes, nodes[i])
	maps.Copy(config, extra)
	text, err := yaml.Marshal(config)
	if err != nil {
		return image.Machine{}, err
	}
	m := nodeMachine(i)
	m.Boot.Files["/etc/fencing-agent/agent.yaml"] = string(text)
	m.Boot.Service = []string{current + "/fencing-agent", "--config", "/etc/fencing-agent/agent.yaml", "--log-format", "json"}
	m.Boot.Env = append(m.Boot.Env, "NODE_GROUP=worker")
	return m, nil
}

// iscsidConf has longer times than docs/operations.md advises: the figures of many scenarios were measured with them.
const iscsidConf = `node.startup = manual
node.leading_login = No
node.session.timeo.replacement_timeout = 5
node.conn[0].timeo.login_timeout = 5
node.conn[0].timeo.noop_out_interval = 5
node.conn[0].timeo.noop_out_timeout = 5
node.session.initial_login_retry_max = 2
node.session.scan = auto
`

// scenarioConfig suits many resets in a short time, on an emulation that shares its processors.
func scenarioConfig() map[string]any {
	watchdog := map[string]any{
		"device": "/dev/watchdog", "timeout": watchdogTimeout.String(),
		"disableFile": "/run/fencing-agent/disable",
	}
	if os.Getenv(mutantEnv) != "" {
		// Otherwise a condemned boot would be reset even if the agent lacks another guard.
		watchdog["selfFence"] = "none"
	}
	return map[string]any{"timing": "careful", "watchdog": watchdog, "experimental": map[string]any{"feedInterval": feedInterval.String()}}
}

func agentConfig(nodes []string, node string) map[string]any {
	var members []map[string]any
	for i, n := range nodes {
		members = append(members, map[string]any{
			"name": n, "addresses": map[string]string{networks[0]: address(1, i+1), networks[1]: address(2, i+1)},
		})
	}
	return map[string]any{
		"cluster": "lab", "nodeName": node, "nodeGroup": "worker",
		"members":        map[string]any{"source": "static", "static": members, "cacheFile": control.DiskMount + "/lib/members.json"},
		"systemNetworks": []map[string]any{{"name": networks[0], "at": networks[0]}, {"name": networks[1], "at": networks[1]}},
		"reachability":   "any",
		"quorum":         map[string]any{"tieBreak": "lun"},
		"lun":            map[string]any{"devices": []string{"/dev/sda"}},
		"api":            map[string]any{"socket": "/run/fencing-agent.sock"},
		"http":           map[string]any{"address": "127.0.0.1:9110"},
	}
}

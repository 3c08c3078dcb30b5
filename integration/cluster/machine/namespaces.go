package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
)

// Namespaces makes nodes of namespaces.
type Namespaces struct{ Groups *cgroups.Set }

var _ Kind = (*Namespaces)(nil)

// Name implements Kind.
func (*Namespaces) Name() string { return "namespaces" }

// Missing returns what this host lacks.
func (*Namespaces) Missing(nodes int) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes of namespaces need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("nodes of namespaces need loop devices for the LUN: %w", err)
	}
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return nil // the kernel has no inotify; its kubelets will report that
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("nodes of namespaces: fs.inotify.max_user_instances: %w", err)
	}
	return fits(nodes, limit)
}

// These are numbers of inotify instances: six for a kubelet, two for a containerd, and the rest for everything else
// that root runs.
const (
	instances      = 8
	otherInstances = 8
)

// fits fails if the kubelets that start last could not watch their files.
func fits(nodes, limit int) error {
	need := nodes*instances + otherInstances
	if need <= limit {
		return nil
	}
	return fmt.Errorf("%d nodes of namespaces need %d instances of inotify, and root has %d: sysctl -w fs.inotify.max_user_instances=%d, or at most %d nodes",
		nodes, need, limit, need, max(0, limit-otherInstances)/instances)
}

// Hidden reports whether a path of the host has another content in the nodes.
func Hidden(path string) bool {
	for _, top := range append([]string{"/run", "/dev", "/proc", "/sys"}, Persistent...) {
		if path == top || strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return false
}

// OwnKernel returns false: the nodes use the host's kernel.
func (*Namespaces) OwnKernel() bool { return false }

// Boot starts a node.
func (k *Namespaces) Boot(ctx context.Context, s Spec, ports Ports) (Machine, error) {
	s.Boot = newBoot()
	for _, path := range []string{s.Dir, s.Guest, s.Runtime, s.Kubelet} {
		if Hidden(path) {
			return nil, fmt.Errorf("node %s: %s: a node has folders of its own there; have TMPDIR and the repository elsewhere", s.Name, path)
		}
	}
	file, err := s.write()
	if err != nil {
		return nil, err
	}
	if err := makeDisk(filepath.Join(s.Dir, "lib", filepath.Base(AgentFolder))); err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	if err := errors.Join(k.Groups.Clear(s.Name), k.Groups.Make(s.Name)); err != nil {
		return nil, err
	}
	const own = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	first, err := Launch(s.Dir, exec.Command(s.Guest, append([]string{"init", file}, k.Groups.Dirs(s.Name)...)...), own)
	if err != nil {
		return nil, err
	}
	n := &groupNode{node: node{Process: first}, name: s.Name, groups: k.Groups}
	return s.ready(n, n.begin(ctx, ports))
}

// diskSize has room for a history of 4 MiB, and for small files.
const diskSize = "8m"

// makeDisk creates the file system for the agent's files, which can be filled and survives the node's boots. It belongs
// to the harness, and ends with it.
func makeDisk(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	var in, at unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Dir(path), &in), unix.Stat(path, &at)); err != nil || in.Dev != at.Dev {
		return err // it was created at an earlier boot
	}
	if err := unix.Mount("agent", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size="+diskSize); err != nil {
		return fmt.Errorf("mount a disk for the agent: %w", err)
	}
	return nil
}

func newBoot() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails (crypto/rand)
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// groupNode is one boot of a node of namespaces. It has a line when its process 1 has begun.
type groupNode struct {
	node
	name   string
	groups *cgroups.Set
}

// begin lets process 1 continue, and waits for its first answer.
func (n *groupNode) begin(ctx context.Context, ports Ports) error {
	if err := ports.Enter(n.Pid()); err != nil {
		return err
	}
	if _, err := n.Conn.Write([]byte{'g'}); err != nil {
		return err
	}
	n.line = NewLine(n.name, n.Conn, n.Done())
	return n.line.Ready(ctx)
}

// Kill ends all that runs in the node.
func (n *groupNode) Kill() error {
	err := n.Process.Kill()
	_ = n.groups.Freeze(n.name, false) // frozen processes cannot end; the groups may be gone
	n.gone()
	return errors.Join(err, n.groups.Clear(n.name))
}

// Freeze stops all processes of the node.
func (n *groupNode) Freeze() error { return n.groups.Freeze(n.name, true) }

// Thaw resumes them.
func (n *groupNode) Thaw() error { return n.groups.Freeze(n.name, false) }

package namespaces

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
	"github.com/fencing-agent/fencing-agent/integration/cluster/guest"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

// Kind makes nodes of namespaces.
type Kind struct{ Groups *cgroups.Set }

var _ machine.Kind = (*Kind)(nil)

// Name is for people.
func (*Kind) Name() string { return "namespaces" }

// Missing says what this host lacks.
func (*Kind) Missing(nodes int) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes of namespaces need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("nodes of namespaces need loop devices for the LUN: %w", err)
	}
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return nil // a kernel without inotify: its kubelets say so
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("nodes of namespaces: fs.inotify.max_user_instances: %w", err)
	}
	return fits(nodes, limit)
}

// Instances of inotify: six of a kubelet and two of a containerd, and those of all that root runs beside the nodes.
const (
	instances      = 8
	otherInstances = 8
)

// fits fails where the kubelets that come last could not watch their files.
func fits(nodes, limit int) error {
	need := nodes*instances + otherInstances
	if need <= limit {
		return nil
	}
	return fmt.Errorf("%d nodes of namespaces need %d instances of inotify, and root has %d: sysctl -w fs.inotify.max_user_instances=%d, or at most %d nodes",
		nodes, need, limit, need, max(0, limit-otherInstances)/instances)
}

// Hidden says of a path of the host whether nodes see something else there.
func Hidden(path string) bool {
	for _, top := range append([]string{"/run", "/dev", "/proc", "/sys"}, guest.Persistent...) {
		if path == top || strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return false
}

// OwnKernel is false: the kernel is the host's.
func (*Kind) OwnKernel() bool { return false }

// Boot starts a node.
func (k *Kind) Boot(ctx context.Context, s machine.Spec, ports machine.Ports) (machine.Machine, error) {
	s.Boot = newBoot()
	for _, path := range []string{s.Dir, s.Guest, s.Runtime, s.Kubelet} {
		if Hidden(path) {
			return nil, fmt.Errorf("node %s: %s: a node has folders of its own there; have TMPDIR and the repository elsewhere", s.Name, path)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "spec.json")
	if err := errors.Join(os.MkdirAll(s.Dir, 0o755), os.WriteFile(file, text, 0o600)); err != nil {
		return nil, err
	}
	if err := makeDisk(filepath.Join(s.Dir, "lib", filepath.Base(machine.AgentFolder))); err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	if err := errors.Join(k.Groups.Clear(s.Name), k.Groups.Make(s.Name)); err != nil {
		return nil, err
	}
	const own = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	first, err := machine.Launch(s.Dir, exec.Command(s.Guest, append([]string{"init", file}, k.Groups.Dirs(s.Name)...)...), own)
	if err != nil {
		return nil, err
	}
	n := &node{Process: first, name: s.Name, groups: k.Groups}
	if err := n.begin(ctx, ports); err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w; see %s", s.Name, err, filepath.Join(s.Dir, "node.log")), n.Kill())
	}
	return n, nil
}

// diskSize is room for a history of 4 MiB, and for small files.
const diskSize = "8m"

// makeDisk makes the file system of the agent's files, which can be filled and outlives the node's boots. It is the
// harness's, and goes with it.
func makeDisk(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	var in, at unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Dir(path), &in), unix.Stat(path, &at)); err != nil || in.Dev != at.Dev {
		return err // it was made at an earlier boot
	}
	if err := unix.Mount("agent", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size="+diskSize); err != nil {
		return fmt.Errorf("mount a disk for the agent: %w", err)
	}
	return nil
}

func newBoot() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// node is one boot.
type node struct {
	*machine.Process
	name   string
	groups *cgroups.Set
	line   *machine.Line // by the connection of process 1, when that has begun
}

// begin lets process 1 go on, and waits for its first answer.
func (n *node) begin(ctx context.Context, ports machine.Ports) error {
	if err := ports.Enter(n.Pid()); err != nil {
		return err
	}
	if _, err := n.Conn.Write([]byte{'g'}); err != nil {
		return err
	}
	n.line = machine.NewLine(n.name, n.Conn, n.Done())
	return n.line.Ready(ctx)
}

// Do asks the guest.
func (n *node) Do(ctx context.Context, q machine.Request) (machine.Answer, error) {
	return n.line.Do(ctx, q)
}

// Kill ends all that runs in the node.
func (n *node) Kill() error {
	err := n.Process.Kill()
	_ = n.groups.Freeze(n.name, false) // what is frozen does not end; the groups may be gone
	<-n.Done()
	_ = n.Conn.Close() // it is of no use any more
	return errors.Join(err, n.groups.Clear(n.name))
}

// Freeze stops all processes of the node.
func (n *node) Freeze() error { return n.groups.Freeze(n.name, true) }

// Thaw has them go on.
func (n *node) Thaw() error { return n.groups.Freeze(n.name, false) }

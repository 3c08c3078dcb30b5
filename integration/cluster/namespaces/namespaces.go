package namespaces

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

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
func (*Kind) Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("nodes of namespaces need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("nodes of namespaces need loop devices for the LUN: %w", err)
	}
	return nil
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
	if err := errors.Join(k.Groups.Clear(s.Name), k.Groups.Make(s.Name)); err != nil {
		return nil, err
	}
	n := &node{name: s.Name, groups: k.Groups, done: make(chan struct{})}
	if err := n.start(&s, file); err != nil {
		return nil, err
	}
	if err := n.begin(ctx, ports); err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w; see %s", s.Name, err, filepath.Join(s.Dir, "node.log")), n.Kill())
	}
	return n, nil
}

func newBoot() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// node is one boot.
type node struct {
	name   string
	groups *cgroups.Set
	cmd    *exec.Cmd
	done   chan struct{} // closed when process 1 has ended
	conn   net.Conn      // to process 1
	line   *machine.Line // the same, when process 1 has begun
}

// start starts process 1, which waits for its networks.
func (n *node) start(s *machine.Spec, file string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	if n.conn, err = net.FileConn(ours); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(s.Guest, append([]string{"init", file}, n.groups.Dirs(s.Name)...)...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.ExtraFiles = []*os.File{theirs}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for the parent-death signal
		defer runtime.UnlockOSThread()
		err := n.cmd.Start()
		started <- err
		if err == nil {
			_ = n.cmd.Wait() // however it ended
		}
		close(n.done)
	}()
	return <-started
}

// begin lets process 1 go on, and waits for its first answer.
func (n *node) begin(ctx context.Context, ports machine.Ports) error {
	if err := ports.Enter(n.cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := n.conn.Write([]byte{'g'}); err != nil {
		return err
	}
	n.line = machine.NewLine(n.name, n.conn, n.done)
	return n.line.Ready(ctx)
}

// Do asks the guest.
func (n *node) Do(ctx context.Context, q machine.Request) (machine.Answer, error) {
	return n.line.Do(ctx, q)
}

// Kill ends all that runs in the node.
func (n *node) Kill() error {
	err := n.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = n.groups.Freeze(n.name, false) // what is frozen does not end; the groups may be gone
	<-n.done
	_ = n.conn.Close() // it is of no use any more
	return errors.Join(err, n.groups.Clear(n.name))
}

// Freeze stops all processes of the node.
func (n *node) Freeze() error { return n.groups.Freeze(n.name, true) }

// Thaw has them go on.
func (n *node) Thaw() error { return n.groups.Freeze(n.name, false) }

// Done is closed at the end.
func (n *node) Done() <-chan struct{} { return n.done }

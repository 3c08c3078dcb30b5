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
	"sync"
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

// Boot starts a node.
func (k *Kind) Boot(ctx context.Context, s machine.Spec, attach func(pid int) error) (machine.Machine, error) {
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
	n := &node{name: s.Name, groups: k.Groups, done: make(chan struct{}), waiting: map[int]chan machine.Answer{}}
	if err := n.start(&s, file); err != nil {
		return nil, err
	}
	if err := n.begin(ctx, attach); err != nil {
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
	name    string
	groups  *cgroups.Set
	cmd     *exec.Cmd
	done    chan struct{} // closed when process 1 has ended
	control net.Conn

	mu      sync.Mutex // guards the rest, and writes
	last    int
	waiting map[int]chan machine.Answer
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
	if n.control, err = net.FileConn(ours); err != nil {
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
func (n *node) begin(ctx context.Context, attach func(pid int) error) error {
	if err := attach(n.cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := n.control.Write([]byte{'g'}); err != nil {
		return err
	}
	ready := make(chan machine.Answer, 1)
	n.waiting[0] = ready
	go n.read()
	select {
	case <-ready:
		return nil
	case <-n.done:
		return errors.New("it ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *node) read() {
	in := json.NewDecoder(n.control)
	for {
		var a machine.Answer
		if in.Decode(&a) != nil {
			return // it has ended, which done tells
		}
		n.mu.Lock()
		c := n.waiting[a.ID]
		delete(n.waiting, a.ID)
		n.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
}

// Do asks the guest.
func (n *node) Do(ctx context.Context, q machine.Request) (machine.Answer, error) {
	c := make(chan machine.Answer, 1)
	n.mu.Lock()
	n.last++
	q.ID = n.last
	n.waiting[q.ID] = c
	err := json.NewEncoder(n.control).Encode(q)
	n.mu.Unlock()
	if err != nil {
		return machine.Answer{}, fmt.Errorf("node %s: %w", n.name, err)
	}
	select {
	case a := <-c:
		if a.Error != "" {
			return a, fmt.Errorf("node %s: %s", n.name, a.Error)
		}
		return a, nil
	case <-n.done:
		return machine.Answer{}, fmt.Errorf("node %s has no power", n.name)
	case <-ctx.Done():
		return machine.Answer{}, fmt.Errorf("node %s: %w", n.name, context.Cause(ctx))
	}
}

// Kill ends all that runs in the node.
func (n *node) Kill() error {
	err := n.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-n.done
	_ = n.control.Close() // it is of no use any more
	return errors.Join(err, n.groups.Clear(n.name))
}

// Done is closed at the end.
func (n *node) Done() <-chan struct{} { return n.done }

package uml

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

const (
	memory    = "1G"    // of a node; the host gives what is used
	diskSize  = 8 << 30 // of a sparse file
	packages  = "apt-get install user-mode-linux e2fsprogs"
	modules   = "/usr/lib/uml/modules"
	serialEnd = 3 // descriptor of the serial line in the kernel
)

// Kind makes nodes of User-mode Linux.
type Kind struct {
	Preload string // library that the kernel is started with: preload/xstate.c, compiled
}

var _ machine.Kind = Kind{}

// Name is for people.
func (Kind) Name() string { return "User-mode Linux" }

// OwnKernel is true.
func (Kind) OwnKernel() bool { return true }

// Missing says what this host lacks.
func (Kind) Missing(int) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes of User-mode Linux need root, for taps")
	}
	for _, program := range []string{"linux.uml", "mkfs.ext4"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("nodes of User-mode Linux: %w: %s", err, packages)
		}
	}
	if _, err := os.Stat(modules); err != nil {
		return fmt.Errorf("nodes of User-mode Linux: %w: %s", err, packages)
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("nodes of User-mode Linux: there is none for %s", runtime.GOARCH)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("nodes of User-mode Linux need taps: %w: modprobe tun", err)
	}
	return nil
}

// Boot starts a node.
func (k Kind) Boot(ctx context.Context, s machine.Spec, ports machine.Ports) (machine.Machine, error) {
	s.Modules = modules
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "spec.json")
	if err := errors.Join(os.MkdirAll(filepath.Join(s.Dir, "disk"), 0o755), os.WriteFile(file, text, 0o600)); err != nil {
		return nil, err
	}
	disk := filepath.Join(s.Dir, "disk.img")
	if err := makeDisk(ctx, disk); err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	taps, err := ports.Taps()
	if err != nil {
		return nil, err
	}
	n, err := start(&s, k.Preload, arguments(&s, file, disk, taps))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	if err := n.line.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w; see %s", s.Name, err, filepath.Join(s.Dir, "node.log")), n.Kill())
	}
	return n, nil
}

// makeDisk makes the disk of a node that has none.
func makeDisk(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", path).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("mkfs.ext4: %w\n%s", err, out), os.Remove(path))
	}
	return nil
}

// arguments of the kernel; those behind the dashes are for its process 1.
func arguments(s *machine.Spec, file, disk string, taps []string) []string {
	args := []string{
		"mem=" + memory, "rootfstype=hostfs", "rootflags=/", "ro", "panic=1",
		"con=null", "con0=null,fd:1", "ssl=null", fmt.Sprintf("ssl0=fd:%d", serialEnd),
		"umid=" + s.Name, "uml_dir=" + filepath.Join(s.Dir, "uml"),
		"ubd0=" + disk,
	}
	if s.LUN.Path != "" {
		args = append(args, "ubd1sc="+s.LUN.Path) // synchronous, and shared with others
	}
	for i, tap := range taps {
		args = append(args, fmt.Sprintf("vec%d:transport=tap,ifname=%s,depth=128", i, tap))
	}
	return append(args, "init="+s.Guest, "--", "kernel", file)
}

// node is one boot.
type node struct {
	*machine.Process
	line *machine.Line
}

// start starts the kernel.
func start(s *machine.Spec, preload string, args []string) (*node, error) {
	if err := os.RemoveAll(filepath.Join(s.Dir, "uml")); err != nil { // of the last boot
		return nil, err
	}
	cmd := exec.Command(s.Guest, append([]string{"power", "linux.uml"}, args...)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload) // of no use to the guest program, which does not link the C library
	first, err := machine.Launch(s.Dir, cmd, unix.CLONE_NEWPID)
	if err != nil {
		return nil, err
	}
	return &node{Process: first, line: machine.NewLine(s.Name, first.Conn, first.Done())}, nil
}

// Do asks the guest.
func (n *node) Do(ctx context.Context, q machine.Request) (machine.Answer, error) {
	return n.line.Do(ctx, q)
}

// Kill ends the kernel, and with it all that runs in the node.
func (n *node) Kill() error {
	err := n.Process.Kill()
	<-n.Done()
	_ = n.line.Close() // it is of no use any more
	return err
}

// Freeze stops the kernel: its processes stop with their next system call.
func (n *node) Freeze() error { return n.signal(unix.SIGSTOP) }

// Thaw has it go on. Its clocks have gone on meanwhile.
func (n *node) Thaw() error { return n.signal(unix.SIGCONT) }

// signal sends one to the kernel, which is the only child of process 1, of whichever thread of it.
func (n *node) signal(what unix.Signal) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.Pid()))
	if err != nil {
		return err
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if pid, err := strconv.Atoi(first); err == nil {
			return unix.Kill(pid, what)
		}
	}
	return errors.New("the node has ended")
}

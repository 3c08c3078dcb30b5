package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	memory    = "1G"    // memory of a node; the host provides only what is used
	imageSize = 8 << 30 // size of a sparse file
	packages  = "apt-get install user-mode-linux e2fsprogs"
	modules   = "/usr/lib/uml/modules"
	serialEnd = 3 // descriptor of the serial line in the kernel
)

// UML makes nodes of User-mode Linux.
type UML struct {
	Preload string // library with which the kernel is started: preload/xstate.c, compiled
}

var _ Kind = UML{}

// Name implements Kind.
func (UML) Name() string { return "User-mode Linux" }

// OwnKernel returns true.
func (UML) OwnKernel() bool { return true }

// Missing returns what this host lacks.
func (UML) Missing(int) error {
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
		return fmt.Errorf("nodes of User-mode Linux: User-mode Linux does not exist for %s", runtime.GOARCH)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("nodes of User-mode Linux need taps: %w: modprobe tun", err)
	}
	return nil
}

// Boot starts a node.
func (k UML) Boot(ctx context.Context, s Spec, ports Ports) (Machine, error) {
	s.Modules = modules
	file, err := s.write()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "disk"), 0o755); err != nil {
		return nil, err
	}
	disk := filepath.Join(s.Dir, "disk.img")
	if err := makeImage(ctx, disk); err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	taps, err := ports.Taps()
	if err != nil {
		return nil, err
	}
	first, err := startKernel(&s, k.Preload, arguments(&s, file, disk, taps))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	n := &kernelNode{node{Process: first, line: NewLine(s.Name, first.Conn, first.Done())}}
	return s.ready(n, n.line.Ready(ctx))
}

// makeImage creates the disk of a node that has none.
func makeImage(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(imageSize), file.Close()); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", path).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("mkfs.ext4: %w\n%s", err, out), os.Remove(path))
	}
	return nil
}

// arguments returns the kernel's arguments. Those after the dashes are for its process 1.
func arguments(s *Spec, file, disk string, taps []string) []string {
	args := []string{
		"mem=" + memory, "rootfstype=hostfs", "rootflags=/", "ro", "panic=1",
		"con=null", "con0=null,fd:1", "ssl=null", fmt.Sprintf("ssl0=fd:%d", serialEnd),
		"umid=" + s.Name, "uml_dir=" + filepath.Join(s.Dir, "uml"),
		"ubd0=" + disk,
	}
	if s.LUN.Path != "" {
		args = append(args, "ubd1sc="+s.LUN.Path) // synchronous, and shared with other nodes
	}
	for i, tap := range taps {
		args = append(args, fmt.Sprintf("vec%d:transport=tap,ifname=%s,depth=128", i, tap))
	}
	return append(args, "init="+s.Guest, "--", "kernel", file)
}

// kernelNode is one boot of a node with a kernel of its own.
type kernelNode struct{ node }

// startKernel starts the kernel.
func startKernel(s *Spec, preload string, args []string) (*Process, error) {
	if err := os.RemoveAll(filepath.Join(s.Dir, "uml")); err != nil { // the folder of the last boot
		return nil, err
	}
	cmd := exec.Command(s.Guest, append([]string{"power", "linux.uml"}, args...)...)
	// The guest program does not link the C library, and so is not affected.
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
	return Launch(s.Dir, cmd, unix.CLONE_NEWPID)
}

// Freeze stops the kernel: its processes stop at their next system call.
func (n *kernelNode) Freeze() error { return n.signal(unix.SIGSTOP) }

// Thaw resumes the kernel. Its clocks have continued meanwhile.
func (n *kernelNode) Thaw() error { return n.signal(unix.SIGCONT) }

// signal sends a signal to the kernel, which is the only child of any thread of process 1.
func (n *kernelNode) signal(what unix.Signal) error {
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

package machine

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is process 1 of a process namespace in which a node runs. Its descriptor 3 is the other end of Conn.
type Process struct {
	Conn net.Conn

	cmd  *exec.Cmd
	done chan struct{}
}

// Launch starts the command as process 1 of new namespaces, those of the flags. What it prints goes to node.log in the
// folder of the node. It ends with this process.
func Launch(dir string, cmd *exec.Cmd, flags uintptr) (*Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	log, err := os.OpenFile(filepath.Join(dir, "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	p := &Process{Conn: conn, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for the parent-death signal
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // however it ended
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

// Pid is its number for the harness.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when it has ended, and with it all that runs in its process namespace.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends it; Done tells when it has. It is not an error if it has already ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

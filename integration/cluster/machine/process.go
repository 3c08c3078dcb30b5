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

// Launch starts the command as process 1 of new namespaces, which the flags select. Its output goes to node.log in the
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
		runtime.LockOSThread() // because the parent-death signal depends on the thread
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

// Pid returns the number of the process in the harness's namespace.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, and with it everything in its process namespace.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process; Done reports when it has ended. It is not an error if it has already ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

package room

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
)

const (
	insideEnv = "FENCING_CLUSTER_ROOM"
	prefix    = "fencing-cluster-" // prefix of folders and control groups; the process id follows
	patience  = 30 * time.Second   // time that the room has to clean up after a signal
)

// Room contains what a program that was run again can use.
type Room struct {
	Dir    string       // a folder for everything; it is removed at the end
	Groups *cgroups.Set // control groups for everything
	Front  net.Listener // on the loopback of the host, outside the room
}

// Enter returns inside the room. Outside it does not return.
func Enter() (*Room, error) {
	if dir := os.Getenv(insideEnv); dir != "" {
		return inside(dir)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("room: needs root")
	}
	code, err := outside()
	if err != nil {
		return nil, err
	}
	os.Exit(code)
	return nil, nil
}

func outside() (code int, err error) {
	sweep()
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	groups, err := cgroups.Create(filepath.Base(dir))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, groups.Remove()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	front, err := listener.(*net.TCPListener).File()
	if err != nil {
		return 0, err
	}
	defer front.Close()

	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	cmd.ExtraFiles = []*os.File{front}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGHUP)
	runtime.LockOSThread() // because the parent-death signal depends on the thread
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("room: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return follow(cmd, ended, signals)
}

// follow waits for the room, and passes signals on. After the first signal it waits only for a limited time.
func follow(cmd *exec.Cmd, ended <-chan error, signals <-chan os.Signal) (int, error) {
	var limit <-chan time.Time
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code, nil
			}
			return 130, nil // a signal ended it
		case s := <-signals:
			if limit == nil {
				limit = time.After(patience)
			}
			// The terminal has sent this signal to the room as well. To send it twice does no harm.
			if s != os.Interrupt {
				s = syscall.SIGTERM
			}
			_ = cmd.Process.Signal(s) // it may already have ended
		case <-limit:
			_ = cmd.Process.Kill()
		}
	}
}

// sweep removes what is left of earlier rooms whose outer process was killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || unix.Kill(n, 0) == nil {
			continue
		}
		groups := cgroups.Find(filepath.Base(dir))
		if groups.Remove() == nil {
			_ = os.RemoveAll(dir) // the next run tries again
		}
	}
}

func inside(dir string) (*Room, error) {
	front := os.NewFile(3, "front")
	listener, err := net.FileListener(front)
	if err != nil {
		return nil, fmt.Errorf("room: %w", err)
	}
	_ = front.Close() // the listener has a copy
	if err := os.Unsetenv(insideEnv); err != nil {
		return nil, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("room: make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("room: mount proc: %w", err)
	}
	return &Room{Dir: dir, Groups: cgroups.Find(filepath.Base(dir)), Front: listener}, nil
}

// Relay passes each connection of the listener on to the address, until the listener is closed.
func Relay(l net.Listener, address string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			to, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer to.Close()
			done := make(chan struct{}, 2)
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // only its end matters
				if half, ok := to.(*net.TCPConn); ok {
					_ = half.CloseWrite()
				}
				done <- struct{}{}
			}
			go pass(to, c)
			go pass(c, to)
			<-done
			<-done
		}()
	}
}

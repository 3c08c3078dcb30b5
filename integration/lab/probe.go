package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Mode says by what right a lab can run here.
type Mode int

const (
	// None: neither root nor user namespaces; the reason says what was refused.
	None Mode = iota + 1
	// Root: New works in this process as it is.
	Root
	// UserNamespace: New works in a process started by Reexec.
	UserNamespace
)

// String names the mode as printed to people.
func (m Mode) String() string {
	switch m {
	case Root:
		return "root"
	case UserNamespace:
		return "unprivileged user namespace"
	default:
		return "none"
	}
}

const (
	// reexecEnv marks the process that Reexec started, so that it can never do so again.
	reexecEnv = "FENCING_LAB_IN_USER_NAMESPACE"
	// probeWord is what the probing child says on success: exit status 0 alone could
	// come from a program that did not understand its arguments.
	probeWord = "lab: namespaces work"

	probeTimeout = 20 * time.Second
)

// InUserNamespace reports whether this process was started by Reexec.
func InUserNamespace() bool { return os.Getenv(reexecEnv) != "" }

// Supported tries out what is possible here and, for None, says what was refused.
// probeArgs are arguments with which this executable calls ProbeMain and nothing
// else: a process with several threads, as every Go program is, cannot enter a new
// user namespace itself.
func Supported(ctx context.Context, probeArgs ...string) (Mode, string) {
	direct := Probe()
	if direct == nil {
		return Root, ""
	}
	if InUserNamespace() {
		return None, fmt.Sprintf("inside the new user namespace: %v", direct)
	}
	if err := probeChild(ctx, probeArgs); err != nil {
		return None, fmt.Sprintf("as the present user: %v; in a new user namespace: %v", direct, err)
	}
	return UserNamespace, ""
}

// ProbeMain is the whole program of the probing child: on success it says so to out,
// on failure the child has to print the error to stderr and exit with another status than 0.
func ProbeMain(out io.Writer) error {
	if err := Probe(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, probeWord)
	return err
}

// Probe builds a lab of two nodes, cuts it and takes it down.
func Probe() (err error) {
	dir, err := os.MkdirTemp("", "fencing-lab-probe-")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	l, err := New(Config{Nodes: []string{"a", "b"}, Networks: []string{"net"}, Dir: dir})
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := l.Cut([]string{"a"}); err != nil {
		return err
	}
	_, err = l.Loss("net", 50)
	return err
}

func probeChild(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.SysProcAttr = userNamespace()
	cmd.Env = append(os.Environ(), reexecEnv+"=1")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	runtime.LockOSThread() // the parent-death signal is tied to this thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out.String(), probeWord):
		return nil
	case errors.As(err, &exit) && complaint.Len() > 0:
		return errors.New(strings.TrimSpace(complaint.String()))
	case err != nil:
		return fmt.Errorf("start probe: %w", err)
	default:
		return errors.New("the probe said nothing: this program does not call lab.ProbeMain")
	}
}

// userNamespace makes a child root of new user and network namespaces, with only
// the present user behind it.
func userNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// Reexec runs this executable again with the arguments (without the program's name)
// in a new user namespace, where Supported will say Root, on the same standard streams.
// Signals are passed on; the result is the exit code to end with (128+n after signal n).
// The new process dies with this one. Reexec blocks until it has ended.
func Reexec(args []string) (exitCode int, err error) {
	if InUserNamespace() {
		return 0, errors.New("lab: already inside a user namespace of its own")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), reexecEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = userNamespace()
	// A process group of its own, or Ctrl-C would arrive twice: from the terminal and from here.
	cmd.SysProcAttr.Setpgid = true

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)

	runtime.LockOSThread() // the parent-death signal is tied to this thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("lab: start in a new user namespace: %w", err)
	}
	ended := make(chan struct{})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // it may just have ended
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-forwarded
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("lab: wait for the process in the user namespace: %w", err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

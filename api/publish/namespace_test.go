package publish

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Guard: root in another container is refused, and so is every caller that RootOnly refuses.
func TestRootHere(t *testing.T) {
	with := func(p process) context.Context { return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: p}) }
	for name, c := range map[string]struct {
		ctx  context.Context
		want codes.Code
	}{
		"root here":      {with(process{known: true, pid: 7, here: true}), codes.OK},
		"root elsewhere": {with(process{known: true, pid: 7}), codes.PermissionDenied},
		"root outside":   {with(process{known: true}), codes.PermissionDenied},
		"a user here":    {with(process{known: true, pid: 7, uid: 1000, here: true}), codes.PermissionDenied},
		"nobody knows":   {with(process{here: true}), codes.PermissionDenied},
		"no peer":        {t.Context(), codes.PermissionDenied},
	} {
		if err := RootHere(c.ctx); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Guard: a process does not belong to this namespace if its number here is another one, if it also has a number in a
// nested namespace, or if the kernel gives no number.
func TestOwnNamespace(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nNSpid:\t42\nNSpgid:\t42\n": true, "NSpid:\t42\t1\n": false, "NSpid:\t43\n": false, "Name:\tx\n": false, "": false,
	} {
		if got := ownNamespace([]byte(text), 42); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if isHere(0, 0) {
		t.Error("a process without a number is here")
	}
}

// The kernel reports that this process is in this namespace.
func TestProcessIsHere(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if p := processOf(s); !p.known || !p.here || int(p.pid) != os.Getpid() {
		t.Errorf("%+v", p)
	}
}

// Guard: only a kernel without pidfds of peers justifies using the number alone. For a process that has ended, a kernel
// before Linux 6.16 returns EINVAL, and its number may belong to another process.
func TestKernelDoesNotTell(t *testing.T) {
	for err, want := range map[error]bool{unix.ENOPROTOOPT: true, unix.EINVAL: false, unix.ESRCH: false, unix.ENODATA: false} {
		if untold(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// callerEnv makes this program connect to a socket, report that with a byte, and run until its input ends.
const callerEnv = "FENCING_TEST_CALLER"

// call runs that program.
func call(path string) int {
	c, err := net.Dial("unix", path)
	if err == nil {
		_, err = c.Write([]byte{1})
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Guard: root in a PID namespace below this one is refused, because the kernel reports it. Root in this namespace is
// accepted.
func TestRootInAnotherNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes a PID namespace")
	}
	for name, c := range map[string]struct {
		flags uintptr
		want  codes.Code
	}{
		"here":      {0, codes.OK},
		"elsewhere": {syscall.CLONE_NEWPID, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			p := calledBy(t, &syscall.SysProcAttr{Cloneflags: c.flags})
			if !p.known || p.pid <= 0 || p.uid != 0 {
				t.Fatalf("%+v", p)
			}
			ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: p})
			if err := RootHere(ctx); status.Code(err) != c.want {
				t.Errorf("of here: %v, %+v", err, p)
			}
			if err := RootOnly(ctx); err != nil {
				t.Errorf("of anywhere: %v", err)
			}
		})
	}
}

// Guard: the number of a process that has ended may already belong to another process.
func TestProcessThatHasEndedIsNotHere(t *testing.T) {
	l := listenHere(t)
	cmd, input := callerOf(t, l, nil)
	s := accepted(t, l)
	if _, err := s.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if p := processOf(s); !p.here {
		t.Errorf("while it runs: %+v", p)
	}
	_ = input.Close() // this ends the process
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if p := processOf(s); p.here {
		t.Errorf("when it has ended: %+v", p)
	}
}

// calledBy starts a process with these attributes that connects, and returns what the kernel reports about it.
func calledBy(t *testing.T, attr *syscall.SysProcAttr) process {
	t.Helper()
	l := listenHere(t)
	cmd, input := callerOf(t, l, attr)
	s := accepted(t, l)
	p := processOf(s)
	_ = input.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return p
}

func listenHere(t *testing.T) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func callerOf(t *testing.T, l net.Listener, attr *syscall.SysProcAttr) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr, cmd.Stderr = append(os.Environ(), callerEnv+"="+l.Addr().String()), attr, os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, input
}

func accepted(t *testing.T, l *net.UnixListener) net.Conn {
	t.Helper()
	if err := l.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

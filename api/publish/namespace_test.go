package publish

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Guard: root in another container is refused, and everybody whom RootOnly refuses.
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

// Guard: a process with a number in a namespace below is not here, nor one of which the kernel tells none.
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

// The kernel says of this process that it is here.
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

// Guard: only a kernel that knows no pidfds of peers is a reason to go by the number alone. One that has ended is EINVAL before
// Linux 6.16, and its number may be another's.
func TestKernelDoesNotTell(t *testing.T) {
	for err, want := range map[error]bool{unix.ENOPROTOOPT: true, unix.EINVAL: false, unix.ESRCH: false, unix.ENODATA: false} {
		if untold(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// Guard: a process that connected and has ended is not here, even if its number is another one's by now.
func TestProcessThatHasEnded(t *testing.T) {
	if path := os.Getenv("CONNECT_AND_END"); path != "" {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
		if err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcessThatHasEnded$")
	cmd.Env = append(os.Environ(), "CONNECT_AND_END="+path)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	raw, err := s.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, 77)
		if err == unix.ENOPROTOOPT {
			t.Skip("this kernel does not tell")
		}
		cred, _ := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if stillRuns(fd) || isHere(fd, int32(os.Getpid())) { // as if the number were this process's now
			t.Errorf("process %d is taken for one that runs (%v)", cred.Pid, err)
		}
	})
}

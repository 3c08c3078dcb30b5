package publish

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

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

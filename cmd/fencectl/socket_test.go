package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/fencing-agent/fencing-agent/api/publish"
)

// listenAt creates a socket that does not belong to an agent; serve gets each connection.
func listenAt(t *testing.T, serve func(net.Conn)) (path string) {
	t.Helper()
	path = filepath.Join(socketFolder(t), "other.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return path
}

// TestWhatIsNoAgent runs the commands on sockets where no agent answers.
func TestWhatIsNoAgent(t *testing.T) {
	stale := filepath.Join(socketFolder(t), "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()

	mute := listenAt(t, func(c net.Conn) { t.Cleanup(func() { c.Close() }) })
	web := listenAt(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1)) // the client's preface; closing before it is a different failure
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		c.Close()
	})
	bare := grpc.NewServer()
	other := filepath.Join(socketFolder(t), "bare.sock")
	bl, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = bare.Serve(bl) }()
	t.Cleanup(bare.Stop)

	for _, tt := range []struct{ name, path, want string }{
		{"stale", stale, "agent socket " + stale + ": nobody listens there: the agent has stopped or died; start it"},
		{"below a file", stale + "/agent.sock", "agent socket " + stale + "/agent.sock: it does not exist: is the agent running on this node?"},
		{"mute", mute, "no answer within 100ms: its process may be stopped"},
		{"web", web, "the connection broke before any gRPC was spoken ("},
		{"bare", other, "does not know this call (unknown service fencing.v1.Fencing"},
	} {
		for _, verb := range [][]string{{"status"}, {"watch"}, {"watch", "--status"}} {
			t.Run(tt.name+" "+strings.Join(verb, " "), func(t *testing.T) {
				timeout := "30s"
				if tt.name == "mute" {
					timeout = "100ms"
				}
				code, stdout, stderr := runIn(t, "", map[string]string{envSocket: tt.path}, append(verb, "--timeout", timeout)...)
				if code != exitFailed || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
					t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tt.want)
				}
			})
		}
	}
}

// asNobody runs f as a user whom permissions restrict, even if the test runs as root: on a thread with another file
// system user. The thread is not used again.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			done <- err
			return
		}
		f()
		close(done)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPermissionDenied(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	folder := filepath.Dir(a.path)
	for _, tt := range []struct {
		name         string
		folder, sock os.FileMode
		want         string
	}{
		{"socket", 0o755, 0o000, "permission denied: run this as root, or as a member of group "},
		{"folder", 0o000, 0o666, "permission denied: run this as root, or as a user who may enter the socket's folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.Chmod(a.path, tt.sock), os.Chmod(folder, tt.folder)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(folder, 0o755) })
			asNobody(t, func() {
				conn := &agentConn{path: a.path}
				_, err := conn.connect(context.Background(), "")
				if err == nil {
					t.Error("connected")
					return
				}
				got := explainConnect(a.path, err).Error()
				if !strings.HasPrefix(got, tt.want) || (tt.sock == 0) != strings.Contains(got, "(the socket's mode is 0000;") {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

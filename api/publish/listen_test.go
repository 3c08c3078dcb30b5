package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func mustListen(t *testing.T, path string, mode os.FileMode, group string) net.Listener {
	t.Helper()
	l, err := Listen(path, mode, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// leaveStale creates the socket of a process that died: it is bound, but no process listens.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func refuses(t *testing.T, path string, mode os.FileMode, group string, texts ...string) {
	t.Helper()
	l, err := Listen(path, mode, group)
	if err == nil {
		l.Close()
		t.Fatalf("Listen(%q) succeeded", path)
	}
	for _, text := range append(texts, path) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not say %q: %v", text, err)
		}
	}
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

// If a consumer starts before the agent, its hostPath creates a directory in place of the socket.
func TestListenReplacesAnEmptyFolder(t *testing.T) {
	path := filepath.Join(socketFolder(t), "api.sock")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	mustListen(t, path, 0o660, "")
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("there is %v, %v", info, err)
	}
}

// A program that waits for a socket must know which faults remain however long it waits.
func TestListenTellsWhatNoWaitingMends(t *testing.T) {
	folder := socketFolder(t)
	mustListen(t, filepath.Join(folder, "served"), 0o660, "")
	for path, want := range map[string]bool{
		filepath.Join(folder, "served"): true, "relative": true, filepath.Join(folder, strings.Repeat("x", 108)): true,
		filepath.Join(folder, "none", "api.sock"): false,
	} {
		_, err := Listen(path, 0o660, "")
		if got := errors.As(err, new(*RefusedError)); err == nil || got != want {
			t.Errorf("%s: %v, refused: %v", path, err, got)
		}
	}
}

func TestListenRefuses(t *testing.T) {
	folder := socketFolder(t)
	at := func(name string) string { return filepath.Join(folder, name) }
	if err := os.WriteFile(at("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at("folder/of/somebody"), 0o700); err != nil {
		t.Fatal(err)
	}
	leaveStale(t, at("stale"))
	if err := os.Symlink(at("stale"), at("link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, group string
		mode              os.FileMode
		want              []string
	}{
		{"file", at("file"), "", 0o660, []string{"something other than a socket", "move it away"}},
		{"folder", at("folder"), "", 0o660, []string{"a folder with something in it", "move it away"}},
		{"link to a socket", at("link"), "", 0o660, []string{"something other than a socket"}},
		{"missing folder", at("no/such/api.sock"), "", 0o660, []string{"does not exist", "mkdir -p " + at("no/such")}},
		{"file as folder", at("file/api.sock"), "", 0o660, []string{at("file") + " is not a folder", "change api.socket"}},
		{"file above the folder", at("file/of/api.sock"), "", 0o660, []string{at("file/of") + " is not a folder, or is not in one", "change api.socket"}},
		{"relative", "api.sock", "", 0o660, []string{"absolute"}},
		{"abstract", "@api", "", 0o660, []string{"absolute"}},
		{"empty", "", "", 0o660, []string{"absolute"}},
		{"too long", at(strings.Repeat("x", 108)), "", 0o660, []string{"must have at most 107"}},
		{"more than permissions", at("s"), "", 0o2660, []string{"permission bits"}},
		{"unknown group", at("s"), "no-such-group", 0o660, []string{`"no-such-group"`, "api.socketGroup"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refuses(t, tt.path, tt.mode, tt.group, tt.want...)
		})
	}
	if data, err := os.ReadFile(at("file")); err != nil || string(data) != "precious" {
		t.Errorf("the file that was in the way is now %q, %v", data, err)
	}
	for _, name := range []string{"folder", "stale", "link"} {
		if gone(at(name)) {
			t.Errorf("%s is gone", name)
		}
	}
	if !gone(at("s")) || !gone(at("no")) {
		t.Error("a refusal left something behind")
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	leaveStale(t, path)
	mustListen(t, path, 0o660, "")
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestListenRefusesALiveServer(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	mustListen(t, path, 0o660, "")
	refuses(t, path, 0o660, "", fmt.Sprintf("process %d is serving it", os.Getpid()))
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first server's socket is gone: %v", err)
	} else {
		conn.Close()
	}
}

// TestListenRefusesWhatItCannotJudge: a datagram socket refuses a stream connection, but with a different error than a
// stale socket.
func TestListenRefusesWhatItCannotJudge(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	c, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refuses(t, path, 0o660, "", "nothing shows whether it is in use")
	if gone(path) {
		t.Error("somebody else's socket was removed")
	}
}

// TestListenAtOnce: if several agents find one stale socket, one of them gets the path and none loses a live socket.
func TestListenAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(socketFolder(t), "s")
		leaveStale(t, path)
		var (
			group sync.WaitGroup
			mu    sync.Mutex
			won   []net.Listener
		)
		for range 8 {
			group.Go(func() {
				if l, err := Listen(path, 0o660, ""); err == nil {
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			t.Errorf("%d of 8 listen at one path", len(won))
		}
		for _, l := range won {
			l.Close()
		}
	}
}

func TestListenSetsPermissionsWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o777} {
		for _, mode := range []os.FileMode{0o600, 0o660, 0o666} {
			path := filepath.Join(socketFolder(t), "s")
			old := syscall.Umask(umask)
			l, err := Listen(path, mode, "")
			syscall.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, path); got != mode|fs.ModeSocket {
				t.Errorf("umask %03o: mode is %v, want %v", umask, got, mode|fs.ModeSocket)
			}
			l.Close()
		}
	}
}

// TestBindIsPrivate looks at the socket between the two steps of Listen.
func TestBindIsPrivate(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	old := syscall.Umask(0)
	l, err := bind(path)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := modeOf(t, path); got.Perm()&^privateMode != 0 {
		t.Errorf("a socket begins its life with %v", got)
	}
}

// groupOfMine returns a group to which the test may give a socket: as root any group, otherwise one of the user's
// groups.
func groupOfMine(t *testing.T) int {
	t.Helper()
	if os.Getuid() == 0 {
		return 4242
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	return append(groups, os.Getgid())[0]
}

func TestListenSetsTheGroup(t *testing.T) {
	gidOf := func(path string) int {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Sys().(*syscall.Stat_t).Gid)
	}
	gid := groupOfMine(t)
	path := filepath.Join(socketFolder(t), "s")
	mustListen(t, path, 0o660, strconv.Itoa(gid))
	if got := gidOf(path); got != gid {
		t.Errorf("group is %d, want %d", got, gid)
	}
	own, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Skipf("this group has no name here: %v", err)
	}
	path += "2"
	mustListen(t, path, 0o660, own.Name)
	if got := gidOf(path); got != os.Getgid() {
		t.Errorf("group %s became %d, want %d", own.Name, got, os.Getgid())
	}
}

func TestCloseRemovesOnlyItsOwnSocket(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	l := mustListen(t, path, 0o660, "")
	if err := l.Close(); err != nil || !gone(path) {
		t.Fatalf("after Close (%v) the socket is there: %t", err, !gone(path))
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}

	first := mustListen(t, path, 0o660, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustListen(t, path, 0o660, "") // a successor
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if gone(path) {
		t.Error("the successor's socket was removed")
	}

	third := mustListen(t, path+"3", 0o660, "")
	if err := os.Remove(path + "3"); err != nil {
		t.Fatal(err)
	}
	if err := third.Close(); err != nil {
		t.Errorf("Close without a socket to remove: %v", err)
	}
}

func TestProcessOfUnknownPeers(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := processOf(a).String(); got != "another process" {
		t.Errorf("a peer without credentials is %q", got)
	}
}

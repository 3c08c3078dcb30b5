package fdstore

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lifeEnv   = "FENCING_TEST_LIFE" // the path to open: this process is an agent
	noteEnv   = "FENCING_TEST_NOTE" // the file that counts lives
	lastEnv   = "FENCING_TEST_LAST" // the life that gives up its descriptor
	ownDemand = 10 * time.Second
)

func TestMain(m *testing.M) {
	if path := os.Getenv(lifeEnv); path != "" {
		if err := live(path, os.Getenv(noteEnv), os.Getenv(lastEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// live runs one life of an agent: it opens or inherits the descriptor, reports this through the descriptor, and is
// killed. In its last life it gives the descriptor up.
func live(path, notes, last string) error {
	s := Take(Environment{PID: os.Getpid(), Getenv: os.Getenv, Unsetenv: os.Unsetenv})
	if s == nil {
		return fmt.Errorf("no store")
	}
	fd, life := s.Inherited(), 1
	if note, err := os.ReadFile(notes); err == nil {
		life, _ = strconv.Atoi(string(note))
		life++
	}
	if err := os.WriteFile(notes, []byte(strconv.Itoa(life)), 0o600); err != nil {
		return err
	}
	how := "inherited"
	if fd < 0 {
		var err error
		if fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		if err := s.Keep(fd); err != nil {
			return err
		}
		how = "opened"
	}
	if _, err := unix.Write(fd, []byte(fmt.Sprintf("%d %s\n", life, how))); err != nil {
		return err
	}
	if strconv.Itoa(life) == last {
		if err := s.Drop(); err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	<-ended
	return nil
}

func TestTake(t *testing.T) {
	for name, c := range map[string]struct {
		env       map[string]string
		none      bool
		inherited int
	}{
		"no systemd":          {map[string]string{}, true, -1},
		"no descriptor":       {map[string]string{"NOTIFY_SOCKET": "/run/x"}, false, -1},
		"abstract":            {map[string]string{"NOTIFY_SOCKET": "@x"}, false, -1},
		"another kind":        {map[string]string{"NOTIFY_SOCKET": "vsock:2:1"}, true, -1},
		"one":                 {map[string]string{"NOTIFY_SOCKET": "/run/x", "LISTEN_PID": "7", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "watchdog"}, false, 3},
		"no socket":           {map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "watchdog"}, false, 3},
		"the second":          {map[string]string{"NOTIFY_SOCKET": "/run/x", "LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "stored:watchdog"}, false, 4},
		"without names":       {map[string]string{"NOTIFY_SOCKET": "/run/x", "LISTEN_PID": "7", "LISTEN_FDS": "2"}, false, -1},
		"for another process": {map[string]string{"NOTIFY_SOCKET": "/run/x", "LISTEN_PID": "8", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "watchdog"}, false, -1},
		"nonsense":            {map[string]string{"NOTIFY_SOCKET": "/run/x", "LISTEN_PID": "7", "LISTEN_FDS": "-1", "LISTEN_FDNAMES": "watchdog"}, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var gone []string
			s := take(Environment{PID: 7, Getenv: func(k string) string { return c.env[k] }, Unsetenv: func(k string) error { gone = append(gone, k); return nil }}, func(int) {})
			if (s == nil) != c.none || s != nil && s.Inherited() != c.inherited {
				t.Errorf("%+v", s)
			}
			if slices.Sort(gone); !slices.Equal(gone, []string{"LISTEN_FDNAMES", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET"}) {
				t.Errorf("removed %v", gone)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	s := &Store{socket: filepath.Join(t.TempDir(), "notify"), inherited: -1}
	if err := s.Drop(); err == nil {
		t.Error("told nobody")
	}
	if err := (&Store{}).Drop(); err == nil {
		t.Error("told nobody")
	}
}

// A process is killed, a stand-in for systemd has the descriptor, and the next process goes on with it.
func TestDescriptorOutlivesItsProcess(t *testing.T) {
	m := newManager(t)
	lines := pipe(t, m.path)
	first := m.start(nil, "2")
	m.expect("FDSTORE=1")
	hear(t, lines, "1 opened")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	second := m.start(m.kept, "2")
	hear(t, lines, "2 inherited")
	m.expect("FDSTOREREMOVE=1")
	hear(t, lines, "EOF") // the second process runs and has closed its copy
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
}

// manager does what systemd does for a unit with a store.
type manager struct {
	t      *testing.T
	path   string // of the pipe
	socket *net.UnixConn
	kept   *os.File
}

func newManager(t *testing.T) *manager {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, path: filepath.Join(dir, "pipe"), socket: socket}
	t.Cleanup(func() {
		_ = socket.Close()
		if m.kept != nil {
			_ = m.kept.Close()
		}
	})
	return m
}

// start starts a process as systemd would, through a shell, which knows the number of the process before it starts.
func (m *manager) start(passed *os.File, last string) *exec.Cmd {
	m.t.Helper()
	own, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	script := `exec "$0"`
	cmd := exec.Command("/bin/sh", "-c", script, own)
	cmd.Env = []string{"NOTIFY_SOCKET=" + m.socket.LocalAddr().String(), lifeEnv + "=" + m.path, noteEnv + "=" + m.path + ".life", lastEnv + "=" + last}
	if passed != nil {
		cmd.Args[2] = "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=watchdog; " + script
		cmd.ExtraFiles = []*os.File{passed}
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func (m *manager) expect(verb string) {
	m.t.Helper()
	text, rights := make([]byte, 512), make([]byte, 512)
	if err := m.socket.SetReadDeadline(time.Now().Add(ownDemand)); err != nil {
		m.t.Fatal(err)
	}
	n, rn, _, _, err := m.socket.ReadMsgUnix(text, rights)
	if err != nil {
		m.t.Fatal(err)
	}
	words := strings.Split(string(text[:n]), "\n")
	if !slices.Contains(words, verb) || !slices.Contains(words, "FDNAME=watchdog") {
		m.t.Fatalf("told %q, want %s", words, verb)
	}
	if verb == "FDSTOREREMOVE=1" {
		_ = m.kept.Close()
		return
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(messages) != 1 {
		m.t.Fatalf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		m.t.Fatalf("%d descriptors, %v", len(fds), err)
	}
	m.kept = os.NewFile(uintptr(fds[0]), "kept")
}

// pipe creates a named pipe and reads it. It ends when the last descriptor is closed.
func pipe(t *testing.T, path string) <-chan string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		f, err := os.Open(path) // returns when a process opens it for writing
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }()
		for r := bufio.NewScanner(f); r.Scan(); {
			lines <- r.Text()
		}
		lines <- "EOF"
	}()
	return lines
}

func hear(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case got := <-lines:
		if got != want {
			t.Fatalf("heard %q, want %q", got, want)
		}
	case <-time.After(ownDemand):
		t.Fatalf("heard nothing, want %q", want)
	}
}

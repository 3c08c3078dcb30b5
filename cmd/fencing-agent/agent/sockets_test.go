package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
)

// serving starts the servers of an agent, and no other part of it.
func serving(t *testing.T, edit func(*config.Config)) (*Agent, error) {
	t.Helper()
	c, reg := config.Default(), prometheus.NewRegistry()
	edit(c)
	log := slog.New(slog.DiscardHandler)
	a := &Agent{cfg: c, log: log, clock: boottime.Now, published: published{parts: parts.New(log, reg)}, opts: Options{Registry: reg}}
	a.guard.clock = a.clock
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	stop, err := a.startServing(func(f func(context.Context)) { wg.Go(func() { f(ctx) }) })
	end := func() {
		cancel()
		wg.Wait()
	}
	if err != nil {
		end() // as [Agent.run] does before it returns: a socket made earlier is closed by the server that was to use it
		return a, err
	}
	t.Cleanup(func() {
		stop()
		end()
	})
	return a, nil
}

// await waits until the condition holds, at most for the time in which a missing part must be started.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func dials(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestMoreSockets(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	a, err := serving(t, func(c *config.Config) {
		c.HTTP.Address, c.API.Socket, c.API.MoreSockets = "", first, []string{second}
	})
	if err != nil || len(a.published.parts.Missing()) > 0 {
		t.Fatal(err, a.published.parts.Missing())
	}
	for _, path := range []string{first, second} {
		if !dials(path) {
			t.Errorf("%s does not answer", path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func folder(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// obstacles lists what may prevent a socket.
var obstacles = map[string]struct {
	edit   func(c *config.Config)
	before func(t *testing.T, socket string)
	says   string // part of the problem; "": nothing is missing
	mend   func(t *testing.T, socket string)
}{
	"an empty folder at the socket's path": {before: folder},
	"a folder with something in it": {
		before: func(t *testing.T, s string) { folder(t, filepath.Join(s, "x")) },
		says:   "a folder with something in it: move it away",
		mend: func(t *testing.T, s string) {
			if err := os.Rename(s, s+".away"); err != nil {
				t.Fatal(err)
			}
		},
	},
	"a file": {
		before: func(t *testing.T, s string) { put(t, s, "x") },
		says:   "something other than a socket", mend: func(_ *testing.T, s string) { _ = os.Remove(s) },
	},
	"a link": {
		before: func(t *testing.T, s string) { _ = os.Symlink("/nowhere", s) },
		says:   "something other than a socket", mend: func(_ *testing.T, s string) { _ = os.Remove(s) },
	},
	"no folder for it": {
		edit: func(c *config.Config) {
			c.API.Socket = filepath.Join(filepath.Dir(c.API.Socket), "run", "a.sock")
		},
		says: "does not exist: create it", mend: func(t *testing.T, s string) { folder(t, filepath.Dir(s)) },
	},
	"no such group yet": {
		edit: func(c *config.Config) { c.API.SocketGroup = "no-such-group" }, says: "does not exist here: create it",
	},
}

// A listener that only shows the agent cannot prevent its start: it is reported as missing, and is started when this is
// possible.
func TestListenersThatAreMissingAreTakenUp(t *testing.T) {
	for name, c := range obstacles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "a.sock")
			if c.before != nil {
				c.before(t, socket)
			}
			a, err := serving(t, func(cfg *config.Config) {
				cfg.HTTP.Address, cfg.API.Socket = "", socket
				if c.edit != nil {
					c.edit(cfg)
				}
			})
			if err != nil {
				t.Fatalf("the start ends: %v", err)
			}
			socket = a.cfg.API.Socket
			missing := a.published.parts.Missing()
			if c.says == "" {
				if len(missing) > 0 || !dials(socket) {
					t.Errorf("missing: %v", missing)
				}
				return
			}
			if len(missing) != 1 || missing[0].Part != "socket "+socket || !strings.Contains(missing[0].Problem, c.says) {
				t.Fatalf("missing: %v, want %q", missing, c.says)
			}
			if c.mend == nil {
				return
			}
			c.mend(t, socket)
			await(t, "the socket answers", func() bool { return len(a.published.parts.Missing()) == 0 && dials(socket) })
		})
	}
}

func TestHTTPAddressThatIsTakenIsTakenUp(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := serving(t, func(c *config.Config) {
		c.HTTP.Address, c.API.Socket = other.Addr().String(), filepath.Join(t.TempDir(), "a.sock")
	})
	if err != nil {
		t.Fatalf("the start ends: %v", err)
	}
	if m := a.published.parts.Missing(); len(m) != 1 || m[0].Part != httpPart || !strings.Contains(m[0].Problem, "address already in use") {
		t.Errorf("missing: %v", m)
	}
	_ = other.Close()
	a.life.alive.Store(int64(a.clock()) + int64(time.Hour))
	await(t, "it is served", func() bool {
		resp, err := http.Get("http://" + a.cfg.HTTP.Address + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && len(a.published.parts.Missing()) == 0
	})
}

// Only a fault that does not pass by waiting ends the start: above all, another agent on this node.
func TestASocketThatIsServedEndsTheStart(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "b.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = serving(t, func(c *config.Config) {
		c.HTTP.Address, c.API.Socket, c.API.MoreSockets = "", filepath.Join(dir, "a.sock"), []string{filepath.Join(dir, "b.sock")}
	})
	if err == nil || !strings.Contains(err.Error(), "is serving it: stop that process first") {
		t.Errorf("a second agent starts: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "a.sock" }) {
		t.Errorf("%v is left, %v", left, err)
	}
}

package agent

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// The API is served at all paths, or at none.
func TestMoreSockets(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	c := config.Default()
	c.API.Socket, c.API.MoreSockets = first, []string{second}
	a := &Agent{cfg: c}
	sockets, err := a.listen()
	if err != nil || len(sockets) != 2 {
		t.Fatal(sockets, err)
	}
	for _, path := range []string{first, second} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = conn.Close()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	if err := closeAll(sockets); err != nil {
		t.Error(err)
	}
	c.API.MoreSockets = []string{second, filepath.Join(dir, "none", "c.sock")}
	if _, err := a.listen(); err == nil {
		t.Error("it listens in a folder that is not there")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

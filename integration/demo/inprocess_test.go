package demo

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

func newInProcessCluster(t *testing.T) *inProcess {
	t.Helper()
	dir, err := os.MkdirTemp("", "fd") // short, for the sockets' sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lun, err := lab.NewLUNFile(dir, 4<<20)
	if err != nil {
		t.Fatal(err) // without a folder that takes direct I/O there is no demo either
	}
	t.Cleanup(func() { lun.Close() })
	if _, err := lunadmin.Init(t.Context(), lunadmin.InitOptions{Path: lun.Path, Cluster: "demo", NodeGroup: "demo", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	c, err := newInProcess(dir, lun.Path, names(4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Real agents on a network in memory go through what they go through in namespaces: a network is lost, an equal split is
// decided by the LUN and heals, a node dies and returns.
func TestInProcess(t *testing.T) {
	t.Parallel()
	c := newInProcessCluster(t)
	var out bytes.Buffer
	err := Walk(t.Context(), c, Options{Scenario: "all", Out: &out, InProcess: "(no namespaces here)"})
	if err != nil || !strings.Contains(out.String(), "(no namespaces here)\n"+c.Describe()+"\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestInProcessSaysHowAnAgentEnded(t *testing.T) {
	t.Parallel()
	c := newInProcessCluster(t)
	if err := os.WriteFile(c.cfg.ConfigPath("n1"), []byte("cluster: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Walk(t.Context(), c, Options{Scenario: "up", Out: &out, limit: 5 * time.Second})
	if err == nil || !strings.Contains(err.Error(), c.cfg.ConfigPath("n1")) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

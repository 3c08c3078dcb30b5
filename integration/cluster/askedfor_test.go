package cluster_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// Guard: an operator requests the fencing of a node that is Ready, and its pod runs only once.
func askedFor(t *testing.T, f *fencing) {
	plugin := fencePlugin(t, f.Cluster)
	fence := func(args ...string) (string, error) {
		out, err := plugin(t.Context(), args...).CombinedOutput()
		return string(out), err
	}
	s := f.tell(t, func(node string) error {
		out, err := fence("node", node)
		boot := regexp.MustCompile(`present boot: ([0-9a-f]{16})`).FindStringSubmatch(out)
		if err == nil || boot == nil || !strings.Contains(out, "no fencing was requested") {
			t.Fatalf("%v %s", err, out)
		}
		if out, err = fence("node", node, "--boot", boot[1], "--reason", "a test"); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		t.Log(strings.TrimSpace(out))
		if out, err = fence("node", node, "--boot", boot[1]); err == nil || !strings.Contains(out, "is being fenced already") {
			t.Errorf("a second time: %v %s", err, out)
		}
		return nil
	})
	b := f.boards[s.node]
	s.until(t, "its power is proven to be off", func() bool { return !s.saw("proof power").IsZero() })
	if out, err := fence("explain", s.node); err != nil || !strings.Contains(out, "devices") {
		t.Errorf("explain: %v %s", err, out)
	}
	s.ends(t)
	s.table(t, map[string]time.Time{"board: power off": b.bmc.when(false), "board: power on": b.bmc.when(true)})
	if out, err := fence("config", "check", "-n", "fencing-controller"); err != nil {
		t.Errorf("config check: %v %s", err, out)
	}
}

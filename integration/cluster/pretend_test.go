package cluster_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
)

// pretendEnv makes the test's program one of the workload, to the checker, until its input ends.
const pretendEnv = "FENCING_TEST_PRETEND"

func pretend() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// pretender runs as a pod on a node, as far as /proc tells.
func pretender(t *testing.T, pod, uid, node string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"/tool", "write", "/data"}
	cmd.Env = []string{pretendEnv + "=1", "POD_NAME=" + pod, "POD_UID=" + uid, "NODE_NAME=" + node}
	in, err := cmd.StdinPipe()
	do(t, err)
	do(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
}

// Guard: the checker finds what it is there for, and nothing else.
func TestChecker(t *testing.T) {
	volume := t.TempDir()
	has := "node-1"
	k := &checker{volume: volume, storage: func() string { return has }, seen: map[string]bool{}}
	write := func(lines ...string) {
		t.Helper()
		do(t, os.WriteFile(filepath.Join(volume, "writers"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	look := func() { k.look(map[int]time.Time{}, map[int]worker{}) }
	expect := func(changes []csi.Change, want ...string) {
		t.Helper()
		got := k.verdict(changes)
		if len(got) != len(want) {
			t.Errorf("%d things are broken, want %d: %q", len(got), len(want), got)
		}
		for i := range min(len(got), len(want)) {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}

	write("100 a node-1 b1", "200 a node-1 b1", "300 c node-2 b2", "400 c node-2 b2", "500 c node-2 b3")
	pretender(t, "x-0", "a", "node-1")
	until(t, "the process is seen", time.Minute, func() bool { look(); return len(k.running()) == 1 })
	expect([]csi.Change{{Node: "node-1", Attached: true}, {Node: "node-1"}, {Node: "node-2", Attached: true}})

	write("100 a node-1 b1", "300 c node-2 b2", "310 a node-1 b1", "400 c node-2 b2")
	expect(nil, "two writers at once")
	write("100 a node-1 b1", "200 a node-1 b2", "300 a node-1 b1") // one pod in two boots
	expect([]csi.Change{{Node: "node-2", Refused: "node-1"}}, "two writers at once", "node-1 has it")

	write("100 a node-1 b1")
	has = "node-2"
	look()
	expect(nil, `the volume is attached to "node-2"`)
	has = "node-1"
	pretender(t, "x-0", "c", "node-1")
	until(t, "the other process is seen", time.Minute, func() bool { look(); return len(k.running()) == 2 })
	expect(nil, fmt.Sprintf("x-0 runs %d times", 2))
}

package cluster_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
)

// pretendEnv names the variable that makes the test's program look to the checker like a process of the workload, until
// its input ends.
const pretendEnv = "FENCING_TEST_PRETEND"

func pretend() {
	if os.Args[0] == "runc" { // it stays runc until it is to start
		_, _ = os.Stdin.Read(make([]byte, 1))
		_ = syscall.Exec("/proc/self/exe", workloadArgs, os.Environ())
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

var workloadArgs = []string{"/tool", "write", "/data"}

// pretender runs a process that looks in /proc like a pod on a node. It is the workload, or runc, which becomes the
// workload when it reads a byte.
func pretender(t *testing.T, args []string, pod, uid, node string) (pid int, input io.Writer) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = args
	cmd.Env = []string{pretendEnv + "=1", "POD_NAME=" + pod, "POD_UID=" + uid, "NODE_NAME=" + node}
	in, err := cmd.StdinPipe()
	do(t, err)
	do(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, in
}

// pretended returns a checker that looks only at pretenders: outside a room /proc also lists the pods of other clusters
// that run beside the test.
func pretended(volume string, storage func() string) *checker {
	k := newChecker(volume, storage)
	k.leave = func(pid int) bool {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		return err != nil || !strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	}
	return k
}

// Guard: the checker also sees a container that waits for its start longer than any process normally does.
func TestCheckerSeesLateContainers(t *testing.T) {
	k := pretended(t.TempDir(), func() string { return "node-1" })
	pid, in := pretender(t, []string{"runc", "init"}, "x-0", "a", "node-1")
	young, known := map[int]time.Time{}, map[int]worker{}
	until(t, "runc is seen", time.Minute, func() bool { k.look(young, known); return k.starting[pid] })
	young[pid] = time.Now().Add(-time.Minute)
	k.look(young, known)
	_, err := in.Write([]byte{0})
	do(t, err)
	until(t, "the workload is seen", time.Minute, func() bool { k.look(young, known); return len(k.running()) == 1 })
}

// Guard: the checker finds the errors for which it exists, and nothing else.
func TestChecker(t *testing.T) {
	volume := t.TempDir()
	has := "node-1"
	k := pretended(volume, func() string { return has })
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
	pretender(t, workloadArgs, "x-0", "a", "node-1")
	until(t, "the process is seen", time.Minute, func() bool { look(); return len(k.running()) == 1 })
	expect([]csi.Change{{Node: "node-1", Attached: true}, {Node: "node-1"}, {Node: "node-2", Attached: true}})

	write("100 a node-1 b1", "300 c node-2 b2", "310 a node-1 b1", "400 c node-2 b2")
	expect(nil, "two writers at once")
	write("100 a node-1 b1", "200 a node-1 b2", "300 a node-1 b1") // one pod in two boots
	expect([]csi.Change{{Node: "node-2", Refused: "node-1"}}, "two writers at once", "node-1 has it")

	// A writer that the checker did not see does not count as correct.
	write("100 a node-1 b1", "300 c", "400 a node-1 b1")
	expect(nil, "a torn line")
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("%d z node-1 b1", 100+i))
	}
	write(many...)
	expect(nil, "saw no process of it")
	// This is a line that is still being written.
	do(t, os.WriteFile(filepath.Join(volume, "writers"), []byte("100 a node-1 b1\n200 a no"), 0o600))
	expect(nil)

	write("100 a node-1 b1")
	has = "node-2"
	look()
	expect(nil, `the volume is attached to "node-2"`)
	has = "node-1"
	pretender(t, workloadArgs, "x-0", "c", "node-1")
	until(t, "the other process is seen", time.Minute, func() bool { look(); return len(k.running()) == 2 })
	expect(nil, fmt.Sprintf("x-0 runs %d times", 2))
}

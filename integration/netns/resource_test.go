package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// memoryGroup is a control group of either version with limited memory.
type memoryGroup struct {
	t   *testing.T
	dir string
}

func newMemoryGroup(t *testing.T, limit int) memoryGroup {
	t.Helper()
	name := fmt.Sprintf("fencing-test-%d", os.Getpid())
	dir, file := filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = filepath.Join("/sys/fs/cgroup", name), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("control groups of memory cannot be made here: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	g := memoryGroup{t, dir}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skipf("control groups of memory have no limit here: %v", err)
	}
	return g
}

// take moves a process into the group.
func (g memoryGroup) take(pid int) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// exhaust runs a program in the group that allocates memory until the kernel kills it.
func (g memoryGroup) exhaust() {
	g.t.Helper()
	hog := exec.CommandContext(g.t.Context(), "sh", "-c", `echo $$ > "$0/cgroup.procs" && exec tail /dev/zero`, g.dir)
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := hog.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		g.t.Fatalf("it was not killed for lack of memory: %v\n%s", err, out)
	}
}

// TestOutOfMemory: the kernel kills another program in the agent's control group, and then the agent. The first kill
// does not affect the agent; the second is a crash like any other.
func TestOutOfMemory(t *testing.T) {
	need(t)
	group := newMemoryGroup(t, 192<<20)
	c := newClusterIn(t, newDir(t), 3, lab.AgentConfig{})
	// This precedes the removal of the group.
	t.Cleanup(func() { c.Lab().Close() })
	c.startAll()
	pid := c.Process("n3").PID()
	group.take(pid)

	began := time.Now()
	group.exhaust()
	c.hold(2*time.Second, "nobody moves", observe.Steady(began, c.nodes...), observe.Quiet(began, c.nodes...), observe.Counting(c.nodes...))
	if m := c.metrics("n3"); !strings.Contains(m, "fencing_agent_watchdog_late_feeds_total 0") {
		t.Error("it fed late")
	}

	began = time.Now()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o644); err != nil {
		t.Fatal(err)
	}
	group.exhaust()
	awaitCondition(t, startLimit, "the kernel ends the agent", func() bool {
		err := c.Exited("n3")
		return err != nil && strings.Contains(err.Error(), "signal: killed")
	})
	c.must(c.Kill("n3")) // the kill was intended
	c.await(c.lost(), "it is LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{"n3"}, []string{"n1", "n2"}))
	c.must(c.Start("n3"))
	c.await(startLimit, "it is back", c.everybody())
	c.hold(0, "nobody else moved", observe.Steady(began, "n1", "n2"))
}

// readOnly runs a command that can write only to its folder. It is a launcher for lab.Agents.Boots: its first argument
// is not used.
const readOnly = `shift
mount --bind "$FOLDER" "$FOLDER" && mount -o remount,bind,ro / || exit 3
if touch /var/tmp/fencing-test-$$ 2>/dev/null; then echo "the root can be written to" >&2; exit 4; fi
exec "$@"`

// TestReadOnlyRoot: an agent needs only its own folders.
func TestReadOnlyRoot(t *testing.T) {
	need(t)
	dir := newDir(t)
	c := newClusterIn(t, dir, 3, lab.AgentConfig{})
	if err := c.Boots("env", "FOLDER="+dir, "unshare", "--mount", "sh", "-c", readOnly, "sh"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.startAll()
	c.must(c.Kill("n3"))
	c.await(c.lost(), "it is LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{"n3"}, []string{"n1", "n2"}))
	c.must(c.Start("n3"))
	c.await(startLimit, "it is back", c.everybody())
}

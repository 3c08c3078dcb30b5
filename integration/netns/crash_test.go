package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/procfs"
)

// TestCrashWhileTheLUNHangs: an agent is killed while its I/O to the LUN hangs. It cannot end, and keeps open what it
// has open. Its parent does not learn of its death, and an agent that is started beside it reports what it waits for.
// When the storage answers, all is well again by itself.
func TestCrashWhileTheLUNHangs(t *testing.T) {
	need(t)
	dir := newDir(t)
	d := newDisk(t, dir)
	c := d.clusterOn(dir, 3, 512)
	// This precedes the removal of the loop devices and the disk.
	t.Cleanup(func() { c.Lab().Close() })
	c.startAll()
	thaw := d.freeze()
	c.await(startLimit, "the LUN is lost", lunLost(c.nodes...))
	victim := c.Process("n1")
	argv := commandOf(t, victim)
	if err := victim.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	c.await(startLimit, "the others miss it", observe.Left("n1", "unreachable", "n2", "n3"))
	thread := remains(t, victim.PID())

	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	again, said := c.second("n1", argv)
	var exit *exec.ExitError
	if err := again.Wait(ctx); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("an agent beside the one that cannot end: %v", err)
	}
	want := fmt.Sprintf("held by process %d, which was killed and cannot exit", victim.PID())
	if !strings.Contains(said.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, said)
	}
	select {
	case <-victim.Done():
		t.Error("the killed agent ended although its I/O hangs")
	default:
	}
	t.Logf("thread %s hangs; the second agent says: %s", thread, lastLine(said.String()))

	thaw()
	thawed := time.Now()
	if err := victim.Wait(ctx); ctx.Err() != nil {
		t.Fatalf("the storage answers, and the killed agent does not end: %v", err)
	}
	ended := time.Since(thawed)
	if err := c.Start("n1"); err != nil {
		t.Fatal(err)
	}
	_, back := c.await(startLimit, "all is well", observe.LUNReady(c.nodes...), c.everybody())
	t.Logf("ended %v after the storage answered, ready %v after the start", ended.Round(time.Millisecond), back.Round(time.Millisecond))
}

// commandOf returns the command line of a process.
func commandOf(t *testing.T, p *lab.Process) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}

// second starts another agent on a node. Its output can be read once it has ended.
func (c *cluster) second(node string, argv []string) (*lab.Process, *bytes.Buffer) {
	c.t.Helper()
	said := &bytes.Buffer{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = said, said
	p, err := c.Lab().StartProcess(node, cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	return p, said
}

// TestKilledInItsOnlyThread: the runtime decides which thread of an agent does the I/O that hangs. Rarely it is the
// first thread, which then is not a zombie, so that the process looks alive. dd has only one thread.
func TestKilledInItsOnlyThread(t *testing.T) {
	need(t)
	d := newDisk(t, newDir(t))
	thaw := d.freeze()
	dd := exec.Command("dd", "if=/dev/zero", "of="+filepath.Join(d.mount, "block"), "bs=512", "count=1", "status=none")
	if err := dd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = dd.Wait() }() // it was killed
	pid := dd.Process.Pid
	// The number of consecutive checks that found it so: it is so for a moment while its program is loaded.
	looks := 0
	awaitCondition(t, startLimit, "dd hangs", func() bool {
		if looks++; !hangs(fmt.Sprintf("/proc/%d", pid)) {
			looks = 0
		}
		return looks == 20
	})
	if procfs.Killed("/proc", pid) {
		t.Error("it was reported as killed before it was")
	}
	if err := dd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !procfs.Killed("/proc", pid) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		t.Errorf("not reported as killed: %v\n%s", err, status)
	}
	select {
	case <-ended:
		t.Error("dd ended although its I/O hangs")
	default:
	}
	thaw()
	<-ended
	if procfs.Killed("/proc", pid) {
		t.Error("reported as killed although it has ended")
	}
}

// remains checks what is left of a process that was killed while one of its threads hangs, and returns that thread,
// which has all descriptors. The process itself has none any more, unless its first thread is the one that hangs.
func remains(t *testing.T, pid int) string {
	t.Helper()
	if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err != nil || len(open) > 0 && !hangs(fmt.Sprintf("/proc/%d", pid)) {
		t.Errorf("process %d shows %d descriptors, %v", pid, len(open), err)
	}
	// The pattern is valid.
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		if !hangs(thread) {
			continue
		}
		open, err := filepath.Glob(filepath.Join(thread, "fd/*"))
		var devices, sockets int
		for _, fd := range open {
			switch target, _ := os.Readlink(fd); {
			case strings.HasPrefix(target, "/dev/loop"):
				devices++
			case strings.HasPrefix(target, "socket:"):
				sockets++
			}
		}
		if err != nil || devices == 0 || sockets == 0 {
			t.Errorf("thread %s has %d descriptors, of these %d devices and %d sockets: %v", thread, len(open), devices, sockets, err)
		}
		return filepath.Base(thread)
	}
	t.Errorf("no thread of process %d hangs: %v", pid, syscall.Kill(pid, 0))
	return ""
}

// hangs reports whether a thread, given by its folder in /proc, is in the kernel and cannot be interrupted.
func hangs(thread string) bool {
	stat, err := os.ReadFile(filepath.Join(thread, "stat"))
	return err == nil && strings.Contains(string(stat), ") D ")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func readlink(t *testing.T, path string) string {
	t.Helper()
	s, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	end := time.After(patience)
	for !condition() {
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// sleepMain prints where it runs, and ends with status 3 on SIGUSR1 and 0 on SIGTERM.
func sleepMain() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGTERM)
	ns, err := os.Readlink(threadNetNS)
	fmt.Println("hello", ns, err)
	if <-signals == syscall.SIGUSR1 {
		return 3
	}
	return 0
}

func TestProcess(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	p, err := n.StartProcess("n2", helper(roleSleep))
	if err != nil {
		t.Fatal(err)
	}
	awaitHellos(t, n.LogPath("n2"), 1)
	var inside string
	if err := n.Do("n2", func() error { inside = readlink(t, threadNetNS); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := readlink(t, fmt.Sprintf("/proc/%d/ns/net", p.PID())); got != inside {
		t.Errorf("process runs in %s, the node is %s", got, inside)
	}

	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); exitCode(err) != 3 {
		t.Errorf("process ended with %v, want exit status 3", err)
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Errorf("signal to an ended process: %v", err)
	}

	first := p.PID()
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitHellos(t, n.LogPath("n2"), 2)
	if p.PID() == first {
		t.Error("restart kept the process id")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with an ended context: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); exitCode(err) != -1 {
		t.Errorf("killed process ended with %v", err)
	}
	if _, err := n.StartProcess("n2", exec.Command("no-such-program")); err == nil {
		t.Error("start of a missing program: no error")
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -2
}

func awaitHellos(t *testing.T, path string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d greetings in %s", want, path), func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.Count(string(b), "hello ") == want
	})
}

func TestCloseStopsEverythingTwice(t *testing.T) {
	needLab(t)
	before := openFiles(t)
	n := newNetwork4(t)
	polite, err := n.StartProcess("n1", helper(roleSleep))
	if err != nil {
		t.Fatal(err)
	}
	awaitHellos(t, n.LogPath("n1"), 1)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := polite.Wait(t.Context()); err != nil {
		t.Errorf("process ended with %v, want a graceful end", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	for what, err := range map[string]error{
		"start":   second(n.StartProcess("n1", helper(roleSleep))),
		"restart": polite.Restart(),
		"cut":     n.Cut([]string{"n1"}),
		"link":    n.LinkDown("n1", "data"),
		"do":      n.Do("n1", func() error { return nil }),
		"dropped": second(n.Dropped()),
	} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s after close: %v, want %v", what, err, errClosed)
		}
	}
	// The listeners belong to the test and close with it; everything else must be gone.
	leaked := slices.DeleteFunc(openFiles(t), func(s string) bool {
		return strings.HasPrefix(s, "socket:") || slices.Contains(before, s)
	})
	if len(leaked) > 0 {
		t.Errorf("descriptors left open: %v", leaked)
	}
	home := readlink(t, threadNetNS)
	eventually(t, "all threads are in the machine's namespace", func() bool {
		threads, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil || len(threads) == 0 {
			t.Fatal("no threads", err)
		}
		return !slices.ContainsFunc(threads, func(path string) bool {
			ns, err := os.Readlink(path)
			return err == nil && ns != home // a thread may end meanwhile
		})
	})
}

func openFiles(t *testing.T) (out []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			out = append(out, to)
		}
	}
	return out
}

// A process that ignores SIGTERM is killed after the StopGrace.
func TestCloseKillsTheStubborn(t *testing.T) {
	needLab(t)
	l, err := New(Config{Nodes: []string{"n1"}, Networks: []string{"mgmt"}, Dir: t.TempDir(), StopGrace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := l.StartProcess("n1", helper(roleSleep))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := p.Wait(t.Context()); exitCode(err) != -1 {
		t.Errorf("stopped process ended with %v, want a kill", err)
	}
}

func TestFailedNewLeavesNothing(t *testing.T) {
	needLab(t)
	before := openFiles(t)
	dir := t.TempDir()
	for name, cfg := range map[string]Config{
		"no nodes":        {Networks: []string{"a"}, Dir: dir},
		"no network":      {Nodes: []string{"n1"}, Dir: dir},
		"name twice":      {Nodes: []string{"n1", "n1"}, Networks: []string{"a"}, Dir: dir},
		"loopback":        {Nodes: []string{"n1"}, Networks: []string{"lo"}, Dir: dir},
		"long network":    {Nodes: []string{"n1"}, Networks: []string{"abcdefghijklmnop"}, Dir: dir},
		"no folder":       {Nodes: []string{"n1"}, Networks: []string{"a"}},
		"folder is file":  {Nodes: []string{"n1"}, Networks: []string{"a"}, Dir: "/proc/version"},
		"refused midway:": {Nodes: []string{"n1", "n2"}, Networks: []string{"a", "all"}, Dir: dir},
	} {
		if l, err := New(cfg); err == nil {
			l.Close()
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
	if after := openFiles(t); len(after) > len(before) {
		t.Errorf("open files before %v, after %v", before, after)
	}
}

// ownerMain builds a lab with one process per node, prints their ids and stays.
func ownerMain() int {
	l, err := New(Config{Nodes: []string{"a", "b"}, Networks: []string{"net"}, Dir: os.Args[2]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, node := range l.Nodes() {
		p, err := l.StartProcess(node, helper(roleSleep))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(p.PID())
	}
	fmt.Println("ready")
	select {}
}

func TestProcessesDieWithTheKilledLab(t *testing.T) {
	needLab(t)
	owner := helper(roleOwner, t.TempDir())
	owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("process ids %v, want two", pids)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %d is not there", pid)
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = owner.Wait()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

// alive returns false for zombies, too: it may be that nobody here waits for orphans.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

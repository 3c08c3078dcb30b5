package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = 4 * time.Minute // the host may be busy

// room is a network in a separate namespace, with a process that holds it and the files from which machines of
// User-mode Linux start. Everything in it ends with the test, however the test ends.
type room struct {
	t       *testing.T // of the step that runs
	dir     string
	network string // name of the namespace
	preload string // library with which the kernel is started
	running []*machine
}

// newRoom creates the network: a bridge, and a tap for each of three machines.
func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{t: t, dir: t.TempDir()}
	r.preload = filepath.Join(r.dir, "xstate.so")
	r.must("gcc", "-O2", "-shared", "-fPIC", "-o", r.preload, filepath.Join(checkout, "integration/cluster/machine/preload/xstate.c"), "-ldl")
	holder := exec.Command("unshare", "--net", "sh", "testdata/network.sh")
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range r.running {
			m.off()
		}
		_, _ = in.Close(), holder.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("no network: %q, %v: as root, with iproute2 and /dev/net/tun", line, err)
	}
	r.network = fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	return r
}

// step runs a part of the test, and logs when it has ended. The test ends with the first part that fails.
func (r *room) step(name string, do func()) {
	whole := r.t
	defer func() { r.t = whole }()
	if !whole.Run(name, func(t *testing.T) { r.t = t; do() }) {
		whole.FailNow()
	}
}

func (r *room) must(program string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// machine is a Debian on a separate disk. Each of its boots is a separate kernel, and ends with a reset or with the
// test.
type machine struct {
	*room
	name, disk string
	booted     time.Time

	serial net.Conn
	lines  *bufio.Reader
	asked  int
	end    func()
	done   chan struct{} // closed when the kernel has ended

	mu      sync.Mutex // guards the fields below
	console []string   // its last lines
	panicAt time.Time
	panic   string
}

// boot starts the machine. up reads its first answer.
func (m *machine) boot() {
	m.t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(pair[0]), "serial"), os.NewFile(uintptr(pair[1]), "serial")
	defer near.Close()
	defer far.Close()
	if m.serial, err = net.FileConn(near); err != nil {
		m.t.Fatal(err)
	}
	m.lines, m.done, m.panic, m.console = bufio.NewReader(m.serial), make(chan struct{}), "", nil
	// This is left of the last boot.
	if err := os.RemoveAll(filepath.Join(m.dir, "uml-"+m.name)); err != nil {
		m.t.Fatal(err)
	}
	// The shell is process 1 of a namespace, so that the machine's processes, which are also processes of the host, end
	// with it.
	cmd := exec.Command("nsenter", "--net="+m.network, "unshare", "--pid", "--fork", "--kill-child", "sh", "-c", `linux.uml "$@"; exit`, "-",
		"mem=384M", "ubd0="+m.disk, "root=/dev/ubda", "rw", "panic=1", "quiet", "con=null", "con0=null,fd:1", "ssl=null", "ssl0=fd:3",
		"umid="+m.name, "uml_dir="+filepath.Join(m.dir, "uml-"+m.name), "vec0:transport=tap,ifname=tap-"+m.name+",depth=128",
		"systemd.hostname="+m.name, "node="+m.name)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+m.preload)
	cmd.ExtraFiles = []*os.File{far}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // because the parent-death signal depends on the thread
		defer close(m.done)
		err := cmd.Start()
		if err == nil {
			m.end = func() { _ = cmd.Process.Kill() }
		}
		started <- err
		if err != nil {
			return
		}
		m.watch(out)
		_ = cmd.Wait() // it was killed
	}()
	if err := <-started; err != nil {
		m.t.Fatal(err)
	}
	m.booted = time.Now()
	if !slices.Contains(m.running, m) {
		m.running = append(m.running, m)
	}
}

// watch reads the console to its end. A panic is the machine's reset: the machine computes nothing after that.
func (m *machine) watch(console io.Reader) {
	for s := bufio.NewScanner(console); s.Scan(); {
		text := strings.TrimRight(s.Text(), "\r")
		m.mu.Lock()
		m.console = append(m.console, text)
		m.console = m.console[max(0, len(m.console)-40):]
		if strings.Contains(text, "Kernel panic") && m.panic == "" {
			m.panic, m.panicAt = text, time.Now()
			m.end()
		}
		m.mu.Unlock()
	}
}

// off ends the machine without notice.
func (m *machine) off() {
	m.end()
	<-m.done
	_ = m.serial.Close()
}

// up waits until systemd has started the service behind the serial line.
func (m *machine) up() {
	m.t.Helper()
	if line := m.line(); line != "up" {
		m.t.Fatalf("%s: %q on the serial line", m.name, line)
	}
	m.must("systemctl is-system-running --wait || systemctl --failed", "running")
	m.t.Logf("%s: systemd says running %.0f s after power on", m.name, time.Since(m.booted).Seconds())
}

// cut makes the bridge's port of the machine forward nothing until the machine boots again. The interface keeps its
// carrier, so the machine does not notice.
func (m *machine) cut() {
	m.t.Helper()
	m.room.must("nsenter", "--net="+m.network, "bridge", "link", "set", "dev", "tap-"+m.name, "state", "disabled")
}

// line returns the next line from the serial line.
func (m *machine) line() string {
	m.t.Helper()
	if err := m.serial.SetReadDeadline(time.Now().Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	line, err := m.lines.ReadString('\n')
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.t.Fatalf("%s: %v; its console:\n%s", m.name, err, strings.Join(m.console, "\n"))
	}
	return strings.TrimRight(line, "\r\n")
}

// try runs a command, and returns its output and exit code.
func (m *machine) try(command string) (string, int) {
	m.t.Helper()
	m.asked++
	if _, err := fmt.Fprintf(m.serial, "%d %s\n", m.asked, base64.StdEncoding.EncodeToString([]byte(command))); err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
	words := strings.Fields(m.line())
	if len(words) < 3 || words[0] != "answer" || words[1] != strconv.Itoa(m.asked) {
		m.t.Fatalf("%s: %s: answered by %q", m.name, command, words)
	}
	code, err := strconv.Atoi(words[2])
	if err != nil {
		m.t.Fatal(err)
	}
	said, err := base64.StdEncoding.DecodeString(strings.Join(words[3:], ""))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(said), code
}

// must runs a command that must succeed and whose output must contain certain texts. It returns the output.
func (m *machine) must(command string, wants ...string) string {
	m.t.Helper()
	said, code := m.try(command)
	if code != 0 {
		m.t.Fatalf("%s: %s: exit %d\n%s", m.name, command, code, said)
	}
	m.says(command, said, wants...)
	return said
}

func (m *machine) says(command, said string, wants ...string) {
	m.t.Helper()
	flat := strings.Join(strings.Fields(said), " ") // lines are wrapped for a terminal
	for _, want := range wants {
		if !strings.Contains(flat, want) {
			m.t.Errorf("%s: %s: no %q in\n%s", m.name, command, want, said)
		}
	}
}

// until repeats a command in the machine until it succeeds.
func (m *machine) until(command string) {
	m.t.Helper()
	m.must(fmt.Sprintf("timeout 120 sh -c 'until %s >/tmp/said 2>&1; do sleep 1; done' || { cat /tmp/said; systemctl status fencing-agent; exit 1; }", command))
}

// reset waits until its watchdog ends the kernel, and returns when that happened.
func (m *machine) reset() time.Time {
	m.t.Helper()
	select {
	case <-m.done:
	case <-time.After(patience):
		m.t.Fatalf("%s was not reset in %v", m.name, patience)
	}
	_ = m.serial.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.Contains(m.panic, "Software Watchdog Timer expired") {
		m.t.Fatalf("%s has ended, but not because of its watchdog: %q; its console:\n%s", m.name, m.panic, strings.Join(m.console, "\n"))
	}
	return m.panicAt
}

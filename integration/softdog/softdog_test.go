package softdog

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/trials"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// initScript is process 1 of a machine.
//
//go:embed init.sh
var initScript []byte

// line is one line of a machine's console.
type line struct {
	at   time.Time
	text string
}

// machine is one boot of a separate kernel. Its root is the host's, which it cannot write.
type machine struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when the kernel has ended

	mu    sync.Mutex // guards the fields below
	lines []line
	came  chan struct{} // closed and replaced at every line
}

// needs skips the test, or returns the library with which the kernel is started and the folder of its modules.
func needs(t *testing.T, dir string) (preload, modules string) {
	t.Helper()
	if os.Getenv("FENCING_TEST_SOFTDOG") == "" {
		t.Skip("boots machines: run make test-vms KIND=watchdog")
	}
	found, err := filepath.Glob("/usr/lib/uml/modules/*")
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v: apt-get install user-mode-linux kmod", found, err)
	}
	preload = filepath.Join(dir, "xstate.so")
	source, err := filepath.Abs("../cluster/machine/preload/xstate.c")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", preload, source, "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return preload, found[0]
}

// boot starts a machine that runs a script. The content of $NODE survives the machine.
func boot(t *testing.T, dir, script string) *machine {
	t.Helper()
	preload, modules := needs(t, dir)
	program, err := os.ReadFile(filepath.Join(os.Getenv("FENCING_BIN"), "fencectl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"init": initScript, "script": []byte(script), "fencectl": program} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{t: t, done: make(chan struct{}), came: make(chan struct{})}
	m.cmd = exec.Command("linux.uml", "mem=256M", "rootfstype=hostfs", "rootflags=/", "ro", "panic=1", "quiet",
		"con=null", "con0=null,fd:1", "ssl=null", "umid=softdog", "uml_dir="+filepath.Join(dir, "uml"),
		"init="+filepath.Join(dir, "init"), "--", dir, modules)
	m.cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
	m.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The kernel's children are the processes of the machine. They are in its process group, and must not outlive it.
	end := func() { _ = unix.Kill(-m.cmd.Process.Pid, unix.SIGKILL) }
	go func() {
		defer close(m.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			text := strings.TrimRight(s.Text(), "\r")
			t.Log(text)
			m.mu.Lock()
			m.lines = append(m.lines, line{time.Now(), text})
			close(m.came)
			m.came = make(chan struct{})
			m.mu.Unlock()
			if strings.Contains(text, "Kernel panic") { // this is the machine's reset
				end()
			}
		}
		_ = m.cmd.Wait() // it was killed
	}()
	t.Cleanup(func() { end(); <-m.done })
	return m
}

// until waits for a line.
func (m *machine) until(what string, limit time.Duration) line {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	want := regexp.MustCompile(what)
	for {
		m.mu.Lock()
		came := m.came
		for _, l := range m.lines {
			if want.MatchString(l.text) {
				m.mu.Unlock()
				return l
			}
		}
		m.mu.Unlock()
		select {
		case <-came:
		case <-m.done:
			m.t.Fatalf("the machine has ended without %q", what)
		case <-ctx.Done():
			m.t.Fatalf("there was no %q in %v", what, limit)
		}
	}
}

// says reports whether there was a line.
func (m *machine) says(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lines {
		if strings.Contains(l.text, what) {
			return true
		}
	}
	return false
}

const patience = 3 * time.Minute // the host may be busy

// emptyHistory writes the history of an agent that has run there.
func emptyHistory(t *testing.T, dir string) {
	t.Helper()
	file := append(history.Header(64), make([]byte, 64*history.SlotSize)...)
	if err := os.WriteFile(filepath.Join(dir, "members-history"), file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The machine is reset when fencectl announced it, and the next boot knows that it was a test.
func TestTheMachineIsReset(t *testing.T) {
	dir := t.TempDir()
	emptyHistory(t, dir)
	const seconds = 15
	m := boot(t, dir, fmt.Sprintf(`
$FENCECTL watchdog list
$FENCECTL watchdog list --root $ROOT
$FENCECTL watchdog test --yes-reset-this-node --root $ROOT --device $DOG --timeout %ds --file $NODE/members-history
`, seconds))
	m.until("/dev/watchdog1 +Software Watchdog +60s +inactive +no +nobody", patience)
	armed := m.until(`\(Software Watchdog\) is armed with 15s and is not fed any more: it resets this node at about`, patience)
	reset := m.until("Kernel panic", patience)
	<-m.done
	if took := reset.at.Sub(armed.at); took < (seconds-1)*time.Second || took > (seconds+5)*time.Second {
		t.Errorf("reset %v after it was armed, and %d s were announced", took, seconds)
	} else {
		t.Logf("reset %v after it was armed", took)
	}
	// The file contains how long the machine ran, and the next boot counts that as a reset in time.
	seen, err := trials.Read(filepath.Join(dir, "members-watchdog"))
	if err != nil || len(seen) == 0 {
		t.Fatalf("%+v, %v", seen, err)
	}
	last := seen[len(seen)-1] // the trial before it was recorded before the watchdog was armed
	if r := last.Result(last.Boot + 1); r != calibration.Fired || last.Latest() > (seconds+5)*time.Second || last.Identity != "Software Watchdog" {
		t.Errorf("result %d: %+v", r, last)
	}
	t.Logf("on disk: it ran for %v to %v", last.Ran, last.Latest())
	after := boot(t, dir, `
NO_COLOR=1 $FENCECTL history --file $NODE/members-history --boot -1
$FENCECTL watchdog test --yes-reset-this-node --if-untried --root $ROOT --device $DOG --file $NODE/members-history
`)
	after.until(`\(Software Watchdog\) has reset this node on .*: nothing to do`, patience)
	after.until(`boot -1 .* ended BY A TEST of its watchdog: a person tries with`, patience)
	after.until("script ended with 0", patience)
}

// If the watchdog may not be tried, it is not opened. If a test is called off, the watchdog is disarmed, and the
// machine survives the timeout.
func TestTheMachineIsNotReset(t *testing.T) {
	dir := t.TempDir()
	emptyHistory(t, dir)
	m := boot(t, dir, `
try() { what=$1; shift; $FENCECTL watchdog test --device $DOG --timeout 6s --file $NODE/members-history "$@"; echo "$what: exit $?"; }
try flag --root $ROOT
try blind --yes-reset-this-node
cp /bin/sleep /tmp/fencing-agent; /tmp/fencing-agent 600 & agent=$!
until grep -q fencing-agent /proc/$agent/comm; do :; done
try agent --root $ROOT --yes-reset-this-node
kill $agent; wait $agent
exec 3> $DOG
try held --root $ROOT --yes-reset-this-node
printf V >&3
exec 3>&-
echo active > $SYS/state
try armed --root $ROOT --yes-reset-this-node
echo inactive > $SYS/state
mount -o bind $NODE/script $NODE/members-history
try record --root $ROOT --yes-reset-this-node
umount $NODE/members-history
sleep 6
echo "lives"
(sleep 3; for p in /proc/[0-9]*; do grep -q fencectl $p/comm && kill -INT ${p#/proc/}; done) &
try called-off --root $ROOT --yes-reset-this-node --timeout 10s; sleep 12
echo "lives on"
`)
	m.until("script ended with", 2*patience)
	for _, want := range []string{
		"confirm with --yes-reset-this-node", "flag: exit 2",
		"in an unknown state: only watchdogs that do not count down may be opened", "blind: exit 1",
		"an agent runs on this machine", "agent: exit 1",
		"is held by sh", "held: exit 1",
		"is active: only watchdogs that do not count down may be opened", "armed: exit 1",
		"record: exit 1", "lives",
		"called off: the watchdog is disarmed", "called-off: exit 1", "lives on", "script ended with 0",
	} {
		if !m.says(want) {
			t.Errorf("the machine does not say %q", want)
		}
	}
	if m.says("Kernel panic") {
		t.Error("the machine was reset")
	}
}

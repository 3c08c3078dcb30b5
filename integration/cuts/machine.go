package cuts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

const (
	// memory of a machine; the host gives what is used.
	memory = "384M"
	// preferred is the scheduling of machines: other work of the host is not what is measured.
	preferred = -5
	// restarts is what a kernel says that was asked to restart.
	restarts = "reboot: Restarting system"
	// restart is how long a machine that was reset takes before its kernel is started again.
	restart = time.Second
)

// networks of every machine, by the interfaces that package lab gives them in the host's namespace.
var networks = []string{"one", "two"}

// event is a line of a machine's console.
type event struct {
	at   time.Time
	text string
}

// machine is a node, over all its boots.
type machine struct {
	host *host
	lab  *lab.Lab
	name string
	id   int
	dir  string // what the machine sees as /node
	lun  string // file

	mu     sync.Mutex // guards the rest
	boot   *boot      // nil: it is off
	off    bool       // it is not started again
	events []event
	resets []time.Time
	asked  int
	wait   map[int]*answer
	loops  sync.WaitGroup
}

// boot is a run of a machine's kernel.
type boot struct {
	process *lab.Process
	stdin   *os.File
	killed  bool
}

type answer struct {
	text strings.Builder
	code int
	done chan struct{}
}

// start boots the machine.
func (m *machine) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.startLocked()
}

func (m *machine) startLocked() error {
	m.off = false
	uml := filepath.Join(m.dir, "uml")
	if err := errors.Join(os.RemoveAll(uml), os.MkdirAll(uml, 0o755)); err != nil {
		return err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	cmd := exec.Command("linux.uml", m.arguments(uml)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+m.host.preload)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, theirOut
	p, err := m.lab.StartProcess(m.name, cmd)
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, p.PID(), preferred) // without it, it is slower
	b := &boot{process: p, stdin: in}
	m.boot = b
	m.loops.Go(func() { m.read(b, out) })
	m.loops.Go(func() { m.watch(b) })
	return nil
}

func (m *machine) arguments(uml string) []string {
	args := []string{
		"mem=" + memory, "rootfstype=hostfs", "rootflags=" + m.host.root, "ro", "panic=1", "quiet",
		"con=null", "con0=null,fd:1", "ssl=null", "ssl0=fd:0,null", "umid=" + m.name, "uml_dir=" + uml, "ubd0sc=" + m.lun,
	}
	for i, network := range networks {
		args = append(args, fmt.Sprintf("vec%d:transport=raw,ifname=%s,depth=128", i, network))
	}
	return append(args, "init=/init", "--", m.name, strconv.Itoa(m.id), m.dir, m.host.modules, m.host.programs)
}

// read notes what a boot says on its console.
func (m *machine) read(b *boot, from io.ReadCloser) {
	defer from.Close()
	log, err := os.OpenFile(filepath.Join(m.dir, "console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log = os.Stderr
	} else {
		defer log.Close()
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at, text := time.Now(), strings.TrimRight(lines.Text(), "\r")
		if m.answered(text) {
			continue
		}
		fmt.Fprintln(log, at.UTC().Format("15:04:05.000"), text)
		m.mu.Lock()
		m.events = append(m.events, event{at, text})
		m.mu.Unlock()
		if text == restarts { // it would start itself again, which it does not always survive
			_ = unix.Kill(-b.process.PID(), unix.SIGKILL) // it may have ended
		}
	}
}

// answered takes what is part of an answer.
func (m *machine) answered(text string) bool {
	kind, rest, _ := strings.Cut(text, " ")
	if kind != "answer" && kind != "done" {
		return false
	}
	number, rest, _ := strings.Cut(rest, " ")
	id, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.wait[id]
	switch {
	case a == nil:
	case kind == "answer":
		a.text.WriteString(rest + "\n")
	default:
		a.code, _ = strconv.Atoi(rest)
		delete(m.wait, id)
		close(a.done)
	}
	return true
}

// watch waits for the end of a boot, and starts the next.
func (m *machine) watch(b *boot) {
	<-b.process.Done()
	at := time.Now()
	_ = b.stdin.Close() // nobody reads
	m.mu.Lock()
	if m.boot == b {
		m.boot = nil
	}
	if b.killed {
		m.mu.Unlock()
		return
	}
	m.resets = append(m.resets, at)
	m.events = append(m.events, event{at, "machine: reset"})
	m.mu.Unlock()
	<-time.After(restart)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.off && m.boot == nil {
		if err := m.startLocked(); err != nil {
			m.events = append(m.events, event{time.Now(), "machine: not started again: " + err.Error()})
		}
	}
}

// kill takes the power away until the next start.
func (m *machine) kill() error {
	m.mu.Lock()
	b := m.boot
	m.off = true
	if b != nil {
		b.killed = true
	}
	m.mu.Unlock()
	if b == nil {
		return nil
	}
	// The kernel's children are the processes of the machine: they are in its group, and are not to outlive it.
	if err := unix.Kill(-b.process.PID(), unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return b.process.Kill()
}

// ask runs a script of one line in the machine.
func (m *machine) ask(ctx context.Context, script string) (text string, code int, err error) {
	a := &answer{done: make(chan struct{})}
	m.mu.Lock()
	if m.boot == nil {
		m.mu.Unlock()
		return "", 0, fmt.Errorf("%s is off", m.name)
	}
	m.asked++
	id := m.asked
	m.wait[id] = a
	_, err = fmt.Fprintf(m.boot.stdin, "%d %s\n", id, script)
	m.mu.Unlock()
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", m.name, err)
	}
	select {
	case <-a.done:
		m.mu.Lock()
		defer m.mu.Unlock()
		return a.text.String(), a.code, nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.wait, id)
		return "", 0, fmt.Errorf("%s does not answer: %w", m.name, context.Cause(ctx))
	}
}

// first is the first line after a moment for which f holds.
func (m *machine) first(after time.Time, f func(text string) bool) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.at.After(after) && f(e.text) {
			return e.at, true
		}
	}
	return time.Time{}, false
}

// resetAfter is the first reset after a moment.
func (m *machine) resetAfter(after time.Time) (time.Time, bool) {
	return m.first(after, func(text string) bool { return text == "machine: reset" })
}

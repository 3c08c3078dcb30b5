package machine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
)

// These kinds of events are added to those of package control.
const (
	QMP     = "qmp" // Source is the event's name
	Console = "console"
)

// Event is something that happened to a machine.
type Event struct {
	At     time.Time // when it arrived; for QMP, when it happened
	Kind   string
	Source string
	Text   string
}

// Config describes a machine.
type Config struct {
	Name           string
	Kernel, Initrd string
	Disks          []string // raw files, as /dev/vda and so on
	Ports          []*fabric.Port
	Megabytes      int
	Board          string   // QEMU's machine type; empty: pc
	Args           []string // more arguments of QEMU
	Once           bool     // a reset ends the machine, and QEMU reports it at once
	Append         string   // added to the kernel's command line
	SocketDir      string   // the path must be short
	TSCKilohertz   uint64   // as measured by TSCKilohertz; 0: unknown
	LogDir         string
}

// Machine is a running virtual machine.
type Machine struct {
	Config
	cmd  *exec.Cmd
	wg   sync.WaitGroup
	done chan struct{} // closed when the process has ended

	log *os.File

	qmp  *jsonLine
	ctl  *jsonLine
	next atomic.Uint64

	mu      sync.Mutex
	events  []Event                           // guarded by mu
	changed chan struct{}                     // guarded by mu; closed and replaced at each event
	waiting map[uint64]chan<- control.Message // guarded by mu; requests to the guest
	stderr  strings.Builder                   // guarded by mu
	closing bool                              // guarded by mu
	exit    error                             // set before done is closed
}

// connectLimit bounds the wait for QEMU's sockets.
const connectLimit = 30 * time.Second

// Start starts QEMU and returns when its connections are up; the guest boots meanwhile.
func Start(ctx context.Context, config Config) (*Machine, error) {
	m := &Machine{Config: config, done: make(chan struct{}), changed: make(chan struct{}), waiting: map[uint64]chan<- control.Message{}}
	var err error
	if m.log, err = os.Create(filepath.Join(config.LogDir, config.Name+".log")); err != nil {
		return nil, err
	}
	m.cmd = exec.Command("qemu-system-x86_64", m.args()...)
	// The hypervisor must not outlive the lab, however the lab ends. A separate session protects it from Ctrl-C, and
	// gives it a separate share if the scheduler divides the processors by sessions.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	m.cmd.Stderr = (*stderr)(m)
	console, err := m.cmd.StdoutPipe()
	if err != nil {
		m.log.Close()
		return nil, err
	}
	if err := m.start(); err != nil {
		m.log.Close()
		return nil, fmt.Errorf("machine %s: %w", m.Name, err)
	}
	m.wg.Go(func() {
		lines := bufio.NewScanner(console)
		for lines.Scan() {
			m.note(Event{At: time.Now(), Kind: Console, Text: lines.Text()})
		}
		m.exit = m.cmd.Wait()
		close(m.done)
	})
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := m.connect(ctx); err != nil {
		err = fmt.Errorf("machine %s: %w%s", m.Name, err, m.lastWords())
		m.Close()
		return nil, err
	}
	return m, nil
}

// start starts the process from a thread that lives as long as the process: the signal on the parent's death is sent
// when that thread ends.
func (m *Machine) start() error {
	started := make(chan error)
	m.wg.Go(func() { onOwnThread(func() { started <- m.cmd.Start() }, m.done) })
	err := <-started
	if err != nil {
		close(m.done)
		m.wg.Wait()
	}
	return err
}

func (m *Machine) args() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-accel", "tcg", "-cpu", "max", "-machine", cmp.Or(m.Board, "pc"), "-smp", "1",
		"-m", fmt.Sprint(m.Megabytes), "-display", "none", "-kernel", m.Kernel, "-initrd", m.Initrd,
		"-append", "console=ttyS0 quiet no_timer_check panic=1 nokaslr mitigations=off random.trust_cpu=on " + m.clock() + " vm=" + m.Name + " " + m.Append,
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-qmp", "unix:" + m.socket("qmp") + ",server=on,wait=off",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=ctl,path=" + m.socket("ctl") + ",server=on,wait=off",
		"-device", "virtserialport,chardev=ctl,name=" + control.Port,
	}
	if m.Once {
		args = append(args, "-no-reboot")
	}
	for i, p := range m.Ports {
		args = append(args,
			"-netdev", fmt.Sprintf("dgram,id=net%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", i, p.Local, p.Remote),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=%s,romfile=", i, p.MAC))
	}
	for _, d := range m.Disks {
		args = append(args, "-drive", "file="+d+",format=raw,if=virtio")
	}
	return append(args, m.Args...)
}

// clock tells the kernel the frequencies of its clocks. On a busy host interrupts come late. The guest must not measure
// one clock by another, or its seconds would have a different length. The HPET has a known frequency, but its counter
// is so short that the guest loses a pause of more than 21 s. The TSC has neither fault if its frequency is given.
func (m *Machine) clock() string {
	if m.TSCKilohertz == 0 {
		return "nolapic_timer tsc=unstable clocksource=hpet"
	}
	return fmt.Sprintf("nolapic_timer tsc=reliable tsc_early_khz=%d", m.TSCKilohertz)
}

func (m *Machine) socket(name string) string { return filepath.Join(m.SocketDir, m.Name+"."+name) }

func (m *Machine) connect(ctx context.Context) error {
	qmp, err := m.dial(ctx, m.socket("qmp"))
	if err != nil {
		return err
	}
	ctl, err := m.dial(ctx, m.socket("ctl"))
	if err != nil {
		qmp.Close()
		return err
	}
	m.qmp, m.ctl = newJSONLine(qmp), newJSONLine(ctl)
	m.wg.Go(m.readQMP)
	m.wg.Go(m.readControl)
	return m.qmp.write(map[string]any{"execute": "qmp_capabilities"})
}

func (m *Machine) dial(ctx context.Context, path string) (net.Conn, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ticker.C:
		case <-m.done:
			return nil, fmt.Errorf("QEMU ended: %w", m.exit)
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Signal sends a signal to the hypervisor. SIGSTOP pauses the machine while time goes on.
func (m *Machine) Signal(s syscall.Signal) error { return m.cmd.Process.Signal(s) }

// PowerOff stops the machine like a loss of power: nothing in it continues. [Machine.PowerOn] brings it back.
func (m *Machine) PowerOff() error { return m.qmp.write(map[string]any{"execute": "stop"}) }

// StayOff makes the machine stop if it resets itself, until [Machine.PowerOn]. QEMU then reports SHUTDOWN, not RESET.
func (m *Machine) StayOff() error { return m.onReset("shutdown", "pause") }

// onReset sets the action on a reset, and the action on a shutdown that follows from it.
func (m *Machine) onReset(reboot, shutdown string) error {
	return m.qmp.write(map[string]any{"execute": "set-action", "arguments": map[string]any{"reboot": reboot, "shutdown": shutdown}})
}

// PowerOn boots a machine that is off, and returns when it runs.
func (m *Machine) PowerOn(ctx context.Context) error {
	seen, changed := m.Events()
	if err := errors.Join(m.onReset("reset", "poweroff"), m.qmp.write(map[string]any{"execute": "system_reset"})); err != nil {
		return err
	}
	for { // QEMU refuses to continue a machine before it was reset
		events, next := m.Events()
		if slices.ContainsFunc(events[len(seen):], func(e Event) bool { return e.Kind == QMP && e.Source == "RESET" }) {
			return m.qmp.write(map[string]any{"execute": "cont"})
		}
		select {
		case <-changed:
			changed = next
		case <-m.done:
			return m.Ended()
		case <-ctx.Done():
			return fmt.Errorf("machine %s: no reset: %w", m.Name, ctx.Err())
		}
	}
}

// SlowDisk limits writes to the machine's first disk to this many bytes a second; 0: no limit. Writes that wait have
// been accepted, and land later.
func (m *Machine) SlowDisk(bytes int) error {
	return m.qmp.write(map[string]any{"execute": "block_set_io_throttle", "arguments": map[string]any{
		"device": "virtio0", "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0,
	}})
}

// Close ends the machine. It may be called twice.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	_ = m.cmd.Process.Kill() // it may already have ended
	if m.qmp != nil {
		m.qmp.conn.Close()
		m.ctl.conn.Close()
	}
	m.wg.Wait()
	m.log.Close()
}

// Ended returns why the machine is gone, or nil while it runs.
func (m *Machine) Ended() error {
	select {
	case <-m.done:
		return fmt.Errorf("machine %s has ended: %w%s", m.Name, m.exit, m.lastWords())
	default:
		return nil
	}
}

type stderr Machine

func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.Write(p)
}

func (m *Machine) lastWords() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if words := strings.TrimSpace(m.stderr.String()); words != "" {
		return ": " + words
	}
	return ""
}

func (m *Machine) note(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
	fmt.Fprintf(m.log, "%s %s %s %s\n", e.At.UTC().Format("15:04:05.000"), e.Kind, e.Source, e.Text)
	close(m.changed)
	m.changed = make(chan struct{})
}

// Events returns all events since the machine was started, and a channel that is closed at the next one.
func (m *Machine) Events() ([]Event, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events[:len(m.events):len(m.events)], m.changed
}

// errReset answers requests to a guest that no longer exists.
var errReset = errors.New("the machine was reset")

// Waited returns the total time that the machine's threads have waited for a processor. If a machine has to wait, slow
// results prove nothing about the programs in it.
func (m *Machine) Waited() (waited time.Duration, err error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		var ran, wait, slices int64
		if _, err := fmt.Sscan(string(text), &ran, &wait, &slices); err != nil {
			return 0, fmt.Errorf("machine %s: %s: %w", m.Name, path, err)
		}
		waited += time.Duration(wait)
	}
	return waited, nil
}

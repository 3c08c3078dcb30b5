package lab

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// Watchdogs contains simulated watchdogs of the nodes, one for each boot of a node. They are in the process of the
// lab's owner, as real ones are in the kernel: they keep counting down when an agent is killed or stopped, and the
// agent's end restarts the countdown.
type Watchdogs struct {
	dir   string
	fired func(node string, timeout time.Duration)

	mu        sync.Mutex // guards the fields below
	closed    bool
	devices   map[string]*watchdogtest.Device // those of the present boot
	listeners []net.Listener
	conns     map[net.Conn]bool
	wg        sync.WaitGroup
}

// NewWatchdogs creates a watchdog for each node. When a watchdog resets its node, it calls fired in a separate
// goroutine, with the watchdog's timeout.
func NewWatchdogs(dir string, nodes []string, fired func(node string, timeout time.Duration)) (*Watchdogs, error) {
	w := &Watchdogs{dir: dir, fired: fired, devices: map[string]*watchdogtest.Device{}, conns: map[net.Conn]bool{}}
	for _, node := range nodes {
		w.Boot(node)
		l, err := net.Listen("unix", w.Path(node))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lab: watchdog of node %s: %w", node, err), w.Close())
		}
		w.listeners = append(w.listeners, l)
		w.wg.Go(func() { w.accept(node, l) })
	}
	return w, nil
}

// Path returns the socket by which the node's agent reaches its watchdog, see [DialWatchdog].
func (w *Watchdogs) Path(node string) string { return filepath.Join(w.dir, node+".wdt") }

// Boot gives the node another boot, in which no countdown runs.
func (w *Watchdogs) Boot(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var d *watchdogtest.Device
	d = watchdogtest.New(watchdogtest.Config{Clock: boottime.Now, OnFire: func(boottime.Instant) {
		w.mu.Lock()
		present := w.devices[node] == d && !w.closed
		w.mu.Unlock()
		if c, _ := d.Look(); present {
			w.fired(node, c.Timeout)
		}
	}})
	w.devices[node] = d
}

func (w *Watchdogs) accept(node string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the listener is closed
		}
		w.mu.Lock()
		d := w.devices[node]
		w.conns[conn] = true
		if w.closed {
			_ = conn.Close()
		}
		w.mu.Unlock()
		w.wg.Go(func() {
			serveWatchdog(conn, d)
			w.mu.Lock()
			delete(w.conns, conn)
			w.mu.Unlock()
		})
	}
}

// Close ends all watchdogs. None fires after that.
func (w *Watchdogs) Close() error {
	w.mu.Lock()
	w.closed = true
	var errs []error
	for _, l := range w.listeners {
		errs = append(errs, l.Close())
	}
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
	return errors.Join(errs...)
}

// These types are the requests of an agent to its watchdog, and the answers.
type (
	wdtRequest struct {
		Op      byte // one of the op constants
		Timeout time.Duration
	}
	wdtAnswer struct {
		Info      watchdog.Info
		Timeout   time.Duration
		Countdown watchdog.Countdown
		Known     bool
		Err       string
		Kind      int // 1 and up: the error is wdtErrors[Kind-1]
	}
)

const (
	opArm     = 'A'
	opFeed    = 'F'
	opShorten = 'S'
	opDisarm  = 'D'
	opLook    = 'L'
)

// wdtErrors lists the errors that callers distinguish.
var wdtErrors = []error{watchdog.ErrCondemned, watchdog.ErrRefused, watchdog.ErrBusy, watchdog.ErrNoWayOut}

// ServeWatchdog serves the watchdog of one node, in one boot, until the listener is closed. It calls fire once, when a
// countdown has ended.
func ServeWatchdog(l net.Listener, fire func()) {
	d := watchdogtest.New(watchdogtest.Config{Clock: boottime.Now, OnFire: func(boottime.Instant) { fire() }})
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the listener is closed
		}
		go serveWatchdog(conn, d)
	}
}

// serveWatchdog does what the kernel does for one process.
func serveWatchdog(conn net.Conn, d *watchdogtest.Device) {
	defer conn.Close()
	in, out, holds := gob.NewDecoder(conn), gob.NewEncoder(conn), false
	for {
		var q wdtRequest
		if in.Decode(&q) != nil {
			break
		}
		var a wdtAnswer
		var err error
		switch q.Op {
		case opArm:
			a.Info, err = d.Arm(q.Timeout)
			holds = holds || err == nil
		case opFeed:
			err = d.Feed()
		case opShorten:
			a.Timeout, err = d.Shorten(q.Timeout)
		case opDisarm:
			err = d.Disarm()
			holds = holds && err != nil
		case opLook:
			a.Countdown, a.Known = d.Look()
		}
		if err != nil {
			a.Err = err.Error()
			for i, known := range wdtErrors {
				if errors.Is(err, known) {
					a.Kind = i + 1
				}
			}
		}
		if out.Encode(&a) != nil {
			break
		}
	}
	if holds {
		d.Kill()
	}
}

// remoteWatchdog is a Device in another process.
type remoteWatchdog struct {
	conn net.Conn

	mu  sync.Mutex // held from a request to its answer
	in  *gob.Decoder
	out *gob.Encoder
}

var (
	_ watchdog.Device = (*remoteWatchdog)(nil)
	_ watchdog.Looker = (*remoteWatchdog)(nil)
)

// DialWatchdog returns the watchdog behind a path of [Watchdogs], or behind the socket of [ServeWatchdog], for the
// agent's process. The end of the process closes it.
func DialWatchdog(path string) (watchdog.Device, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("lab: watchdog: %w", err)
	}
	return &remoteWatchdog{conn: conn, in: gob.NewDecoder(conn), out: gob.NewEncoder(conn)}, nil
}

func (r *remoteWatchdog) ask(q wdtRequest) (a wdtAnswer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.out.Encode(&q), r.in.Decode(&a)); err != nil {
		return a, fmt.Errorf("lab: watchdog: %w", err)
	}
	switch {
	case a.Kind > 0:
		return a, fmt.Errorf("%s: %w", a.Err, wdtErrors[a.Kind-1])
	case a.Err != "":
		return a, errors.New(a.Err)
	}
	return a, nil
}

func (r *remoteWatchdog) Arm(timeout time.Duration) (watchdog.Info, error) {
	a, err := r.ask(wdtRequest{Op: opArm, Timeout: timeout})
	return a.Info, err
}

func (r *remoteWatchdog) Feed() error {
	_, err := r.ask(wdtRequest{Op: opFeed})
	return err
}

func (r *remoteWatchdog) Disarm() error {
	_, err := r.ask(wdtRequest{Op: opDisarm})
	return err
}

func (r *remoteWatchdog) Shorten(timeout time.Duration) (time.Duration, error) {
	a, err := r.ask(wdtRequest{Op: opShorten, Timeout: timeout})
	return a.Timeout, err
}

// Look implements watchdog.Looker.
func (r *remoteWatchdog) Look() (watchdog.Countdown, bool) {
	a, err := r.ask(wdtRequest{Op: opLook})
	return a.Countdown, a.Known && err == nil
}

// Watchdogs gives every node a simulated watchdog, see [NewWatchdogs]. launcher is a program that runs the agent with a
// watchdog; the path of the watchdog is added to the arguments given here. Call Watchdogs before the first Start.
func (a *Agents) Watchdogs(fired func(node string, timeout time.Duration), launcher ...string) (*Watchdogs, error) {
	w, err := NewWatchdogs(a.cfg.Dir, a.Nodes(), fired)
	a.launcher, a.dogs = launcher, w
	return w, err
}

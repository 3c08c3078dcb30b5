package wdt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// shelf is a driver whose descriptor can have copies: one with the agent, one with systemd. It is closed with the
// last. A process can be killed at any system call that changes something.
type shelf struct {
	*driver
	t    *testing.T
	dev  *Device // of the process that runs
	refs int     // copies
	own  int     // of them, the process's
	kept bool    // one is systemd's

	deaf, lags bool // systemd takes nothing; or has not read the request to drop yet
	dropping   bool
	lock       bool // the agent before is gone
	dropErr    error

	left int // calls until the process is killed; negative: it is not
}

type killed struct{}

func newShelf(t *testing.T) *shelf {
	s := &shelf{driver: softdog(), t: t, lock: true, left: -1}
	s.process()
	return s
}

// process begins an agent, to which systemd hands what it has.
func (s *shelf) process() *Device {
	sysfs := ""
	if s.dev != nil {
		sysfs = s.dev.sysfs
	}
	s.dev = s.driver.device(s.t)
	s.dev.kernel = s
	if sysfs != "" {
		s.dev.sysfs = sysfs
	} else {
		s.driver.sysfs(s.t, s.dev, nil)
	}
	s.own = 0
	if s.kept {
		s.refs, s.own = s.refs+1, 1
	}
	s.dev.Use(s, func() bool { return s.lock })
	return s.dev
}

func (s *shelf) step() {
	if s.left == 0 {
		panic(killed{})
	}
	s.left--
}

// until runs the process until it is killed at its nth call, or to its end, and reports which.
func (s *shelf) until(n int, run func()) (wasKilled bool) {
	s.left = n
	defer func() {
		s.left = -1
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			wasKilled = true
			s.kill()
		}
	}()
	run()
	return false
}

func (s *shelf) kill() {
	for ; s.own > 0; s.own-- {
		s.unref()
	}
}

func (s *shelf) unref() {
	if s.refs--; s.refs == 0 {
		if err := s.driver.close(driverFD); err != nil {
			s.t.Errorf("close: %v", err)
		}
	}
}

func (s *shelf) settle() {
	if s.dropping && s.kept {
		s.kept = false
		s.unref()
	}
	s.dropping = false
}

func (s *shelf) Inherited() int {
	if s.kept {
		return driverFD
	}
	return -1
}

func (s *shelf) Keep(fd int) error {
	s.step()
	if s.deaf || s.kept {
		return s.check(fd)
	}
	s.kept, s.refs = true, s.refs+1
	return s.check(fd)
}

func (s *shelf) Drop() error {
	if s.step(); s.dropErr != nil {
		return s.dropErr
	}
	if s.dropping = true; !s.lags {
		s.settle()
	}
	return nil
}

func (s *shelf) open(path string) (int, error) {
	s.step()
	fd, err := s.driver.open(path)
	if err == nil {
		s.refs, s.own = 1, 1
	}
	return fd, err
}

func (s *shelf) close(fd int) error {
	s.step()
	if s.own == 0 {
		return unix.EBADF
	}
	s.own--
	s.unref()
	return nil
}

func (s *shelf) write(fd int, p []byte) error {
	s.step()
	if !s.running {
		return nil // to feed a watchdog that was stopped has no effect
	}
	return s.driver.write(fd, p)
}

func (s *shelf) setTimeout(fd, seconds int) error {
	s.step()
	err := s.driver.setTimeout(fd, seconds)
	if err == nil {
		s.show()
	}
	return err
}

func (s *shelf) disable(fd int) error {
	s.step()
	return s.driver.disable(fd)
}

// show has sysfs tell the timeout.
func (s *shelf) show() {
	if s.state == "" {
		return
	}
	put(s.t, strings.TrimSuffix(s.state, "state")+"timeout", fmt.Sprintln(s.seconds))
}

func (s *shelf) arm(want error) {
	s.t.Helper()
	_, err := s.dev.Arm(10 * time.Second)
	if !errors.Is(err, want) {
		s.t.Errorf("Arm: %v, want %v", err, want)
	}
	if err == nil && !s.counting() {
		s.t.Error("armed, and nothing counts down")
	}
}

// Guard: adr/0032. An agent that is killed leaves a countdown that is not begun again, and that nobody else can open.
// The next one goes on with it.
func TestKilledAgentLeavesItsCountdown(t *testing.T) {
	s := newShelf(t)
	s.arm(nil)
	fed := s.last
	s.now = s.now.Add(4 * time.Second)
	s.kill()
	if !s.counting() || s.last != fed {
		t.Errorf("counting %v, begun %v, want %v", s.counting(), s.last, fed)
	}
	if _, err := s.driver.open(devicePath); !errors.Is(err, unix.EBUSY) {
		t.Errorf("another program: %v", err)
	}
	s.process()
	if c, known := s.dev.Look(); !known || !c.Running || s.last != fed {
		t.Errorf("Look: %+v, %v, begun %v", c, known, s.last)
	}
	s.arm(nil)
	if s.last != s.now || strings.Count(strings.Join(s.calls, " "), "open") != 2 {
		t.Errorf("begun %v at %v, calls %v", s.last, s.now, s.calls)
	}
	if err := s.dev.Disarm(); err != nil || s.running || s.kept || s.magic {
		t.Errorf("Disarm: %v, running %v, kept %v, magic %v", err, s.running, s.kept, s.magic)
	}
	s.arm(nil)
	if !s.kept {
		t.Error("not kept again")
	}
}

// Guard: adr/0032. Two agents never feed one watchdog: one that was killed can hang in a feed.
func TestNothingIsTakenOverBeforeThePredecessorIsGone(t *testing.T) {
	s := newShelf(t)
	s.arm(nil)
	s.kill()
	fed := s.last
	s.now = s.now.Add(time.Second)
	s.lock = false
	s.process()
	s.arm(watchdog.ErrBusy)
	s.lock = true
	hangs(t, s.dev, 100, 103, "/dev/watchdog0") // by another lock
	s.arm(watchdog.ErrBusy)
	if s.last != fed {
		t.Error("it was fed")
	}
}

// Guard: adr/0032, P2'. A descriptor that was left tells, too, that the boot is condemned. Then it is not touched.
func TestCondemnedDescriptor(t *testing.T) {
	for _, sysfs := range []bool{true, false} {
		s := newShelf(t)
		s.arm(nil)
		if _, err := s.dev.Shorten(2 * time.Second); err != nil {
			t.Fatal(err)
		}
		s.kill()
		fed := s.last
		s.now = s.now.Add(time.Second)
		s.process()
		if !sysfs {
			s.dev.sysfs = t.TempDir()
			s.rdev = unix.Mkdev(miscMajor, watchdogMinor)
		}
		if c, known := s.dev.Look(); !known || !c.Condemns(10*time.Second) {
			t.Errorf("sysfs %v: %+v, %v", sysfs, c, known)
		}
		s.arm(watchdog.ErrCondemned)
		if s.last != fed || !s.kept || !s.running {
			t.Errorf("sysfs %v: begun %v, want %v; kept %v", sysfs, s.last, fed, s.kept)
		}
		s.kill()
	}
}

// Guard: adr/0032. A descriptor proves that its watchdog was opened, not that it runs.
func TestDescriptorOfAStoppedWatchdog(t *testing.T) {
	s := newShelf(t)
	s.lags = true
	s.arm(nil)
	if err := s.dev.Disarm(); err != nil || s.running || !s.kept {
		t.Fatalf("Disarm: %v, running %v, kept %v", err, s.running, s.kept)
	}
	s.kill()
	s.dropping = false // systemd never heard of it
	s.process()
	s.arm(unix.EBUSY)
	s.settle()
	s.arm(nil)
}

// Guard: adr/0032. sysfs may show another watchdog than the descriptor is of: what it says then proves nothing.
func TestDescriptorThatSysfsDoesNotShow(t *testing.T) {
	s := newShelf(t)
	s.arm(nil)
	s.kill()
	s.process()
	s.running = false
	s.identity = "IPMI"
	if _, err := s.dev.Arm(10 * time.Second); err == nil {
		t.Error("armed")
	}
}

// What cannot be judged is not kept: without sysfs nobody knows whether the watchdog runs, without the lock nobody
// knows when this agent is gone. A descriptor of another watchdog is left alone.
func TestNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*shelf)
		kept   bool
	}{
		"as a rule":      {func(*shelf) {}, true},
		"without sysfs":  {func(s *shelf) { s.dev.sysfs = s.t.TempDir(); s.state = "" }, false},
		"without a lock": {func(s *shelf) { s.lock = false }, false},
		"no store":       {func(s *shelf) { s.deaf = true }, false},
		"old driver":     {func(s *shelf) { s.options &^= unix.WDIOF_KEEPALIVEPING }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			c.change(s)
			s.arm(nil)
			if s.kept != c.kept {
				t.Errorf("kept %v", s.kept)
			}
			if err := s.dev.Disarm(); err != nil || s.running || s.kept {
				t.Errorf("Disarm: %v, running %v, kept %v", err, s.running, s.kept)
			}
		})
	}
	s := newShelf(t)
	s.arm(nil)
	s.kill()
	s.process()
	s.rdev = unix.Mkdev(245, 7) // the configuration names another one
	put(t, strings.TrimSuffix(s.state, "state")+"dev", "245:7\n")
	s.dev.kernel = otherDescriptor{s, unix.Mkdev(245, 0)}
	fed := s.last
	s.arm(unix.EBUSY) // it is one driver in this test
	if s.last != fed {
		t.Error("the other one was fed")
	}
}

type otherDescriptor struct {
	*shelf
	rdev uint64
}

func (o otherDescriptor) descriptor(int) (uint32, uint64, error) {
	return unix.S_IFCHR, o.rdev, nil
}

// A driver that cannot be told to stop is stopped by the last close.
func TestKeptWithoutDisable(t *testing.T) {
	s := newShelf(t)
	s.disableErr, s.lags = unix.ENOTTY, true
	s.arm(nil)
	if err := s.dev.Disarm(); err != nil {
		t.Error(err)
	}
	s.settle()
	if s.running || s.held {
		t.Error("it runs")
	}
	s = newShelf(t)
	s.nowayout = true
	put(t, strings.TrimSuffix(s.state, "state")+"nowayout", "1\n")
	s.arm(nil)
	if err := s.dev.Disarm(); !errors.Is(err, watchdog.ErrNoWayOut) || !s.running || !s.kept {
		t.Errorf("%v, running %v, kept %v", err, s.running, s.kept)
	}
}

// The magic character is not written while a copy stays open: it would turn a crash of the agent into a disarm.
func TestKeptWithoutDisableOrDrop(t *testing.T) {
	s := newShelf(t)
	s.disableErr, s.dropErr = unix.ENOTTY, unix.ECONNREFUSED
	s.arm(nil)
	if err := s.dev.Disarm(); !errors.Is(err, unix.ECONNREFUSED) || s.magic || !s.running || !s.kept {
		t.Errorf("%v, magic %v, running %v, kept %v", err, s.magic, s.running, s.kept)
	}
	s.dropErr = nil
	if err := s.dev.Disarm(); err != nil || s.running {
		t.Errorf("%v, running %v", err, s.running)
	}
}

// An agent is killed at each of its system calls in turn, and so is the next. Whatever is left: a watchdog that was
// armed and not stopped counts down, its countdown is begun once more at most, one that was stopped stays stopped,
// and an agent that says that it is armed is.
func TestKilledBetweenEachTwoSteps(t *testing.T) {
	runs := 0
	for _, lags := range []bool{false, true} {
		for _, deaf := range []bool{false, true} {
			for _, planned := range []bool{false, true} {
				for first, more := 0, true; more; first++ {
					for second, again := 0, true; again; second++ {
						more, again = kills(t, lags, deaf, planned, first, second)
						runs++
					}
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

func kills(t *testing.T, lags, deaf, planned bool, first, second int) (firstKilled, secondKilled bool) {
	s := newShelf(t)
	s.lags, s.deaf = lags, deaf
	life := func(n int) bool {
		armed, stopped := false, false
		was := s.until(n, func() {
			if _, err := s.dev.Arm(10 * time.Second); err != nil {
				return // the device is busy still
			}
			armed = true
			if !s.counting() {
				t.Errorf("%v %v %v %d %d: armed, and nothing counts down", lags, deaf, planned, first, second)
			}
			s.now = s.now.Add(time.Second)
			s.step()
			if err := s.dev.Feed(); err != nil {
				t.Errorf("Feed: %v", err)
			}
			if planned {
				stopped = s.dev.Disarm() == nil
			}
		})
		if armed && !planned && !s.counting() {
			t.Errorf("%v %v %v %d %d: it does not count down", lags, deaf, planned, first, second)
		}
		fed := s.last
		s.now = s.now.Add(time.Second)
		if s.kill(); s.kept && s.last != fed {
			t.Errorf("%v %v %v %d %d: begun again, though it was kept", lags, deaf, planned, first, second)
		}
		if stopped && s.running {
			t.Errorf("%v %v %v %d %d: it runs, though it was stopped", lags, deaf, planned, first, second)
		}
		return was
	}
	firstKilled = life(first)
	s.process()
	secondKilled = life(second)
	s.settle()
	was := s.counting()
	if s.kept { // the unit ends
		s.dropping = true
		s.settle()
	}
	if s.counting() != was || s.held {
		t.Errorf("%v %v %v %d %d: counts down %v, before the unit ended %v", lags, deaf, planned, first, second, s.counting(), was)
	}
	return firstKilled, secondKilled
}

// systemd has the copy, as /proc shows.
func TestKept(t *testing.T) {
	s := newShelf(t)
	if s.dev.Kept() {
		t.Error("nobody has it")
	}
	holds(t, s.dev, 1, "systemd", "/dev/watchdog0")
	if !s.dev.Kept() {
		t.Error("systemd has it")
	}
	if err := s.dev.Probe(10 * time.Second); !errors.Is(err, watchdog.ErrBusy) {
		t.Errorf("nothing was handed over: %v", err)
	}
	s.arm(nil)
	s.kill()
	if err := s.process().Probe(10 * time.Second); err != nil {
		t.Error(err)
	}
	holds(t, s.dev, 100, "other", "/dev/watchdog0")
	if err := s.dev.Probe(10 * time.Second); !errors.Is(err, watchdog.ErrBusy) {
		t.Errorf("somebody else has it: %v", err)
	}
}

package lab

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// A simulated watchdog keeps counting down without the process that armed it, and keeps the countdown of a sentence. It
// forgets everything at the next boot of its node.
func TestWatchdogsOutliveTheirAgents(t *testing.T) {
	fired := make(chan time.Duration, 1)
	w, err := NewWatchdogs(t.TempDir(), []string{"n1"}, func(_ string, timeout time.Duration) { fired <- timeout })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	dial := func() *remoteWatchdog {
		d, err := DialWatchdog(w.Path("n1"))
		if err != nil {
			t.Fatal(err)
		}
		return d.(*remoteWatchdog)
	}
	first := dial()
	if _, err := first.Arm(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := first.Shorten(time.Second); err != nil || got != time.Second {
		t.Fatalf("Shorten = %v, %v", got, err)
	}
	if _, err := dial().Arm(30 * time.Second); !errors.Is(err, watchdog.ErrBusy) {
		t.Errorf("the second process arms: %v, want that it is busy", err)
	}
	if err := first.conn.Close(); err != nil {
		t.Fatal(err)
	}
	next := dial()
	if c, known := next.Look(); !known || !c.Condemns(30*time.Second) {
		t.Errorf("the next agent sees %+v, %t, want a sentence", c, known)
	}
	select {
	case timeout := <-fired:
		if timeout != time.Second {
			t.Errorf("fired with a timeout of %v", timeout)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it did not fire after the death of its agent")
	}
	w.Boot("n1")
	if c, known := dial().Look(); !known || c.Running {
		t.Errorf("after the boot the agent sees %+v, %t, want nothing that runs", c, known)
	}
}

// The next process may open a watchdog that was disarmed. No process may open that of a condemned boot.
func TestServeWatchdog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watchdog")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fired := make(chan struct{})
	go ServeWatchdog(l, func() { close(fired) })
	dial := func() *remoteWatchdog {
		d, err := DialWatchdog(path)
		if err != nil {
			t.Fatal(err)
		}
		return d.(*remoteWatchdog)
	}
	first, second := dial(), dial()
	if c, known := first.Look(); !known || c.Running {
		t.Errorf("before anything: %+v, %v", c, known)
	}
	if info, err := first.Arm(time.Hour); err != nil || info.Timeout != time.Hour {
		t.Fatal(info, err)
	}
	if _, err := second.Arm(time.Hour); !errors.Is(err, watchdog.ErrBusy) {
		t.Errorf("a second one opens it: %v", err)
	}
	if err := errors.Join(first.Feed(), first.Disarm()); err != nil {
		t.Fatal(err)
	}
	if c, _ := second.Look(); c.Running {
		t.Error("it still counts down after it was disarmed")
	}
	if _, err := second.Arm(time.Hour); err != nil {
		t.Fatal(err)
	}
	if took, err := second.Shorten(time.Second); err != nil || took != time.Second {
		t.Fatal(took, err)
	}
	if _, err := first.Arm(time.Hour); err == nil {
		t.Error("a condemned boot was opened again")
	}
	select {
	case <-fired:
	case <-time.After(time.Minute):
		t.Error("nobody has fed it for a minute, and it has not fired")
	}
}

package dog_test

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster/dog"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: the node ends when its agent is gone without a word, and not when it was disarmed; and
// nobody opens the device of another.
func TestDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watchdog")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fired := make(chan struct{})
	go dog.Serve(l, func() { close(fired) })

	first, second := dog.At(path), dog.At(path)
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
		t.Error("it runs on after it was disarmed")
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

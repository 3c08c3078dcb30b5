package trial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Watchdog is a device of the kernel.
type Watchdog struct {
	Path     string
	NoWayOut bool // as sysfs shows it

	fd int
}

// Arm implements Device. The descriptor is not an os.File: the garbage collector would close the watchdog.
func (w *Watchdog) Arm(timeout time.Duration) (info Info, err error) {
	w.fd, err = unix.Open(w.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return info, errors.New("somebody holds it: see fencectl watchdog list")
	case err != nil:
		return info, fmt.Errorf("open: %w", err)
	}
	if info, err = w.configure(timeout); err != nil {
		if undo := w.Disarm(); undo != nil {
			return info, StillArmedError{errors.Join(err, undo)}
		}
	}
	return info, err
}

func (w *Watchdog) configure(timeout time.Duration) (info Info, err error) {
	support, err := unix.IoctlGetWatchdogInfo(w.fd)
	if err != nil {
		return info, fmt.Errorf("WDIOC_GETSUPPORT: %w: is it a watchdog?", err)
	}
	info = Info{Identity: strings.TrimSpace(unix.ByteSliceToString(support.Identity[:])), NoWayOut: w.NoWayOut}
	// A driver without this call has a fixed timeout.
	err = unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, int((timeout+time.Second-1)/time.Second))
	if err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) {
		return info, fmt.Errorf("WDIOC_SETTIMEOUT %v: %w: choose a --timeout that the driver accepts", timeout, err)
	}
	seconds, err := unix.IoctlGetUint32(w.fd, unix.WDIOC_GETTIMEOUT)
	if err != nil || int32(seconds) <= 0 {
		return info, fmt.Errorf("WDIOC_GETTIMEOUT: %d s, %w", int32(seconds), err)
	}
	info.Timeout = time.Duration(int32(seconds)) * time.Second
	return info, nil
}

// Disarm implements Device. A device that does not stop is left open: closing it would feed the watchdog.
func (w *Watchdog) Disarm() error {
	if w.NoWayOut {
		return errors.New("nowayout is set")
	}
	if _, err := unix.Write(w.fd, []byte{'V'}); err != nil {
		return err
	}
	if err := unix.Close(w.fd); err != nil {
		return err
	}
	// A driver that does not stop is not heard of otherwise.
	state, err := os.ReadFile(filepath.Join("/sys/class/watchdog", filepath.Base(w.Path), "state"))
	if err == nil && strings.TrimSpace(string(state)) != "inactive" {
		return fmt.Errorf("the driver did not stop: it is %s", strings.TrimSpace(string(state)))
	}
	return nil
}

// Package trials reads and writes the file that shows how late the watchdogs of a machine fire, see
// watchdog/calibration. fencectl watchdog test writes it, with the agent stopped; the agent and fencectl read it.
//
// A [Writer] belongs to one goroutine. All functions may block for as long as the disk does.
package trials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/procfs"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// Read reads what was tried; nothing if there is no file.
func Read(path string) ([]calibration.Trial, error) {
	text, err := statefile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trials, err := calibration.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trials, nil
}

// Seen is what was tried on a machine before it booted, for the boot that runs.
type Seen struct {
	trials   []calibration.Trial
	Firmware string // of the machine; empty: unknown
	boot     uint64 // its nonce; 0: unknown, and no trial counts
}

// Look reads what was tried on the machine whose file system is at root, empty for this one. After an error nothing is
// known.
func Look(root, path string) (*Seen, error) {
	s := &Seen{Firmware: wdt.Firmware(filepath.Join(root, "/sys"))}
	var err error
	if s.boot, err = procfs.BootNonce(filepath.Join(root, "/proc")); err != nil {
		return s, err
	}
	s.trials, err = Read(filepath.Join(root, path))
	return s, err
}

// Of is what was measured of a driver, by what it calls itself.
func (s *Seen) Of(identity string) watchdog.Measured {
	return calibration.Measured(s.trials, identity, s.Firmware, s.boot)
}

// Last is the latest trial that has shown something of a driver with the firmware of this machine; nil: there is none.
func (s *Seen) Last(identity string) *calibration.Trial {
	return calibration.Last(s.trials, identity, s.Firmware, s.boot)
}

// most is how many trials a file keeps. What an older one has shown is lost: a machine has few watchdogs.
const most = 100

// Writer keeps a trial on disk while it runs.
type Writer struct {
	f       *os.File
	slowest time.Duration // a write took
}

// Begin adds a trial to a file, and returns what keeps it. What it returns is durable, like all that a Writer writes.
func Begin(path string, t calibration.Trial) (*Writer, error) {
	before, err := Read(path)
	if err != nil {
		return nil, err
	}
	before = before[max(0, len(before)-most+1):]
	if err := statefile.Write(path, calibration.Encode(append(before, t))); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f}, nil
}

// Ran notes that the machine still runs this long after the last feed. took is how long the note before took to become
// durable: the next one may take that long again.
func (w *Writer) Ran(after, took time.Duration) error {
	w.slowest = max(w.slowest, took)
	return w.write(calibration.Line{Ran: after, Next: after + calibration.Every + 2*w.slowest})
}

// Close ends the trial without a reset.
func (w *Writer) Close(end calibration.End) error {
	return errors.Join(w.write(calibration.Line{End: end}), w.f.Close())
}

func (w *Writer) write(l calibration.Line) error {
	if _, err := w.f.Write(l.Encode()); err != nil {
		return err
	}
	return w.f.Sync()
}

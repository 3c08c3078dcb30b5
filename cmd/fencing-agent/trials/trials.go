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
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/procfs"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// Read reads the trials; none if there is no file. With an error it returns those that could be read.
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
		return trials, fmt.Errorf("%s: %w", path, err)
	}
	return trials, nil
}

// Settle records that the machine has outlived the program of a trial of this boot. Such a trial shows nothing: the
// next reset would count as the watchdog's. If that program still runs, its next record contradicts this one.
func Settle(path string, boot uint64) error {
	trials, err := Read(path)
	if n := len(trials); err != nil || n == 0 || trials[n-1].Boot != boot || trials[n-1].End != "" {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	l := calibration.Line{End: calibration.Outlived}
	_, err = f.Write(l.Encode())
	return errors.Join(err, f.Sync(), f.Close())
}

// Seen holds the trials of a machine from before it booted, for the present boot.
type Seen struct {
	trials   []calibration.Trial
	Firmware string // of the machine; empty: unknown
	Strict   bool   // a watchdog that was not seen to fire with this firmware is not to be used
	boot     uint64 // its nonce; 0: unknown, and no trial counts
	unread   bool   // the file, or the end of it
}

// Look reads the trials of the machine whose file system is at root, empty for this one. After an error it knows those
// that could be read.
func Look(root, path string) (*Seen, error) {
	s := &Seen{Firmware: wdt.Firmware(filepath.Join(root, "/sys"))}
	var err error
	if s.boot, err = procfs.BootNonce(filepath.Join(root, "/proc")); err != nil {
		return s, err
	}
	s.trials, err = Read(filepath.Join(root, path))
	s.unread = err != nil
	return s, err
}

// Of returns what was measured about a driver, by the driver's own name.
//
// Invariant: a file that cannot be read must not make a watchdog count as earlier than its peers were told before. So
// each driver then counts as late as the latest known driver.
func (s *Seen) Of(identity string) watchdog.Measured {
	m := calibration.Measured(s.trials, identity, s.Firmware, s.boot)
	if s.unread {
		m.Factor = max(m.Factor, float64(watchdog.LatestOfAny(time.Hour))/float64(time.Hour))
	}
	m.Unproven = s.Strict && s.Last(identity) == nil
	return m
}

// Last is the latest trial of a driver with this machine's firmware that has shown a result; nil: there is none.
func (s *Seen) Last(identity string) *calibration.Trial {
	return calibration.Last(s.trials, identity, s.Firmware, s.boot)
}

// Untried reports whether no trial of a driver with the firmware of this machine has reset it, or failed.
func (s *Seen) Untried(identity string) bool {
	return calibration.Untried(s.trials, identity, s.Firmware, s.boot)
}

// Lasts reports whether the file holds a trial of another boot: what is written to it outlives a reset.
func (s *Seen) Lasts() bool {
	return slices.ContainsFunc(s.trials, func(t calibration.Trial) bool { return t.Boot != 0 && s.boot != 0 && t.Boot != s.boot })
}

// most is how many trials a file keeps. The result of an older one is lost: a machine has few watchdogs.
const most = 100

// Writer keeps a trial on disk while it runs.
type Writer struct {
	f       *os.File
	began   int64         // where its trial begins in the file
	good    int64         // where its last whole line ends
	slowest time.Duration // a write took
}

// Begin adds a trial to a file, and returns its Writer. The trial is durable then, and so is all that a Writer writes
// when its call returns.
func Begin(path string, t calibration.Trial) (*Writer, error) {
	before, err := Read(path)
	if err != nil {
		return nil, err
	}
	before = before[max(0, len(before)-most+1):]
	for i := range before {
		if b := &before[i]; b.Boot == t.Boot && b.End == "" {
			b.End = calibration.CalledOff // the machine has outlived its program
		}
	}
	head := calibration.Encode(before)
	text := calibration.Encode(append(before, t))
	if err := statefile.Write(path, text); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f, began: int64(len(head)), good: int64(len(text))}, nil
}

// Ran records that the machine still runs this long after the last feed. took is how long the previous record took to
// become durable: the next one may take that long again.
func (w *Writer) Ran(after, took time.Duration) error {
	w.slowest = max(w.slowest, took)
	return w.write(calibration.Line{Ran: after, Next: after + calibration.Every + 2*w.slowest})
}

// Close ends the trial without a reset. If that cannot be recorded, nothing of the trial is kept: the next reset would
// count as the watchdog's.
func (w *Writer) Close(end calibration.End) error {
	err := w.write(calibration.Line{End: end})
	if err != nil {
		err = errors.Join(err, w.forget())
	}
	return errors.Join(err, w.f.Close())
}

// Leave ends the recording, and not the trial: the next boot judges it by what was recorded.
func (w *Writer) Leave() error { return w.f.Close() }

func (w *Writer) forget() error { return errors.Join(w.f.Truncate(w.began), w.f.Sync()) }

// undo removes the written part of a line.
func (w *Writer) undo() error { return w.f.Truncate(w.good) }

// write adds a line, or leaves the file as it was: half a line followed by another one cannot be read.
func (w *Writer) write(l calibration.Line) error {
	n, err := w.f.Write(l.Encode())
	if err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		return errors.Join(err, w.undo())
	}
	w.good += int64(n)
	return nil
}

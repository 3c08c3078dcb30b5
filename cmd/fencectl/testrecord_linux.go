package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/trial"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/trials"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// testRecord records in the agent's history that a watchdog is being tested.
type testRecord struct {
	env      *environment
	file     string
	path     string // of the watchdog
	identity string // by which the trials before were looked up; empty: they were not
}

// last writes the record that is on disk before the watchdog is armed. Without a history it warns of that.
func (r testRecord) last() error {
	if _, err := trials.Read(calibrationFile(r.file)); err != nil {
		return fmt.Errorf("what was tried before cannot be read: %w; move that file away, and try each watchdog of this node again", err)
	}
	text := "a person tries with fencectl watchdog test whether " + r.path + " resets this node"
	err := appendHistory(r.file, history.Record{Kind: history.Tested, Text: text})
	if errors.Is(err, fs.ErrNotExist) {
		r.env.warn(view.Clean(r.file) + " does not exist: after the reset nobody will know that it was a test. No agent has run here, or its members.cacheFile has another path (--file)")
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", view.Clean(r.file), err)
	}
	if kernel, err := os.OpenFile("/dev/kmsg", os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		_, _ = kernel.WriteString("<2>fencectl: " + text + "\n") // the history has it
		_ = kernel.Close()
	}
	return nil
}

// keep begins the record of how late the watchdog fires, next to the history.
func (r testRecord) keep(info trial.Info) (trial.Record, error) {
	if r.identity != "" && r.identity != info.Identity { // this trial would not be found at the next boot
		return nil, fmt.Errorf("sysfs says that this is %q, and the driver %q: run this without --if-untried", r.identity, info.Identity)
	}
	return trials.Begin(calibrationFile(r.file), calibration.Trial{
		Identity: info.Identity, Firmware: wdt.Firmware("/sys"), Timeout: info.Timeout, Boot: presentBoot(), Began: r.env.clock().UTC(),
	})
}

// tried reports whether a watchdog of that driver was tried before, and prints the result. It returns an error if that
// trial failed, or if the result cannot be known.
//
// Invariant: no watchdog is armed before the file was seen to outlive a boot, and none that was armed before: a machine
// that runs this at each boot would be reset for ever.
func (r testRecord) tried(identity string) (bool, error) {
	path := calibrationFile(r.file)
	if identity == "" {
		return false, errors.New("the driver does not say what it is, so it cannot be known whether it was tried: run this without --if-untried")
	}
	if err := lasting(filepath.Dir(path)); err != nil {
		return false, fmt.Errorf("%w, and with --if-untried this machine would be reset at every boot: use a --file on a disk", err)
	}
	seen, err := trials.Look("", path)
	if err != nil {
		return false, fmt.Errorf("what was tried before cannot be read: %w", err)
	}
	if seen.Untried(identity) {
		if seen.Lasts() {
			return false, nil
		}
		if err := r.mark(identity); err != nil {
			return false, err
		}
		return false, fmt.Errorf("nothing shows yet that %s outlives a reset, and else this machine would be reset at every boot: it was marked, and the next boot tries the watchdog", view.Clean(path))
	}
	name := fmt.Sprintf("%s (%s)", r.path, view.Clean(identity))
	switch last := seen.Last(identity); {
	case last == nil:
		return true, fmt.Errorf("%s was tried, and that has shown nothing: this node was reset before the timeout was up, or the test was killed; run this without --if-untried to try again", name)
	case seen.Of(identity).Failed:
		return true, fmt.Errorf("%s did not reset this node on %s: run this without --if-untried to try again", name, last.Began.Format(time.DateOnly))
	default:
		fmt.Fprintf(r.env.stdout, "%s has reset this node on %s: nothing to do\n", name, last.Began.Format(time.DateOnly))
		return true, nil
	}
}

// mark leaves a trial that nothing was tried in, for the next boot to find.
func (r testRecord) mark(identity string) error {
	w, err := trials.Begin(calibrationFile(r.file), calibration.Trial{
		Identity: identity, Firmware: wdt.Firmware("/sys"), Timeout: leastTested, Boot: presentBoot(), Began: r.env.clock().UTC(), End: calibration.CalledOff,
	})
	if err != nil {
		return err
	}
	return w.Leave()
}

// lasting returns an error if files in a folder may be lost in a reset.
func lasting(dir string) error {
	var at unix.Statfs_t
	err := unix.Statfs(dir, &at)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) { // it will be created
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &at)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", view.Clean(dir), err)
	}
	memory := map[int64]string{unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "an overlay, which may be in memory"}
	if at.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%s is read-only", view.Clean(dir))
	}
	if name := memory[int64(at.Type)]; name != "" {
		return fmt.Errorf("%s is on %s, where the record of the test would be lost", view.Clean(dir), name)
	}
	return nil
}

// latest is how late a watchdog of that driver may fire, by what is known about it and by earlier trials here.
func (r testRecord) latest(identity string, timeout time.Duration) time.Duration {
	seen, _ := trials.Look("", calibrationFile(r.file)) // last has read it
	return watchdog.Driver{Identity: identity, Measured: seen.Of(identity)}.Latest(timeout)
}

// calibrationFile is the file of trials next to a history.
func calibrationFile(history string) string {
	return strings.TrimSuffix(history, "-history") + "-watchdog"
}

// failed withdraws the record.
func (r testRecord) failed(why string) {
	r.note(why, history.ActionFailed)
}

func (r testRecord) note(text, action string) {
	err := appendHistory(r.file, history.Record{Kind: history.Tested, Action: action, Text: text})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.env.warn(fmt.Sprintf("%s: %v", view.Clean(r.file), err))
	}
}

// appendHistory writes one record of this boot, durably, into a file that no agent has open.
func appendHistory(path string, rec history.Record) (err error) {
	text, err := readRegular(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("an agent writes it: stop it first: %w", err)
	}
	old, err := history.Decode(text)
	if err != nil {
		return fmt.Errorf("%w; use the fencectl of the agent's version", err)
	}
	rec.Seq = 1
	if n := len(old.Records); n > 0 {
		rec.Seq = old.Records[n-1].Seq + 1
	}
	rec.Boot, rec.Up, rec.Wall = presentBoot(), time.Duration(boottime.Now()), time.Now()
	slot, _ := history.NewShelf(old.Slots, &old).Place(&rec) // a record that is not a sample has a place
	if _, err := f.WriteAt(history.Encode(&rec), history.Offset(slot)); err != nil {
		return err
	}
	return f.Sync()
}

// syncDisks gives file systems ten seconds: if one hangs, the test continues anyway.
func syncDisks() {
	done := make(chan struct{})
	go func() { unix.Sync(); close(done) }()
	t := time.NewTimer(10 * time.Second)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

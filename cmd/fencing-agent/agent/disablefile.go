package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
)

// disableInterval is the time between two looks at the disable file.
const disableInterval = time.Second

// disableFile asks to disarm the watchdog while it exists (watchdog.disableFile). A file from fencectl maintenance
// contains its end; any other file, even an empty one, is valid until somebody removes it.
type disableFile struct {
	path    string
	log     *slog.Logger
	clock   boottime.Clock
	boot    string // of this kernel: a maintenance ends with it
	ordered bool   // watchdog.disableFirst is not any: a file that says "off" rules out a maintenance
	remove  func(path string) error
	text    func(path string) ([]byte, error) // reads its content
	show    func(ends *int64)                 // passes the end of the maintenance to the metrics, in seconds of the wall clock; nil: it has no end, or there is no maintenance

	mu   sync.Mutex
	why  string // why the file disarms, as reported last; "": there is no file
	none bool   // the file exists and contains "off"
	over string // text of the file whose maintenance is over, as logged last
	fail string // why the file could not be read, as logged last; "": it was read
}

// maintenance is the content of a file that ends by itself.
type maintenance struct {
	Version int       `json:"version"`
	Boot    string    `json:"boot"`
	Until   int64     `json:"until"` // nanoseconds of CLOCK_BOOTTIME
	Ends    time.Time `json:"ends"`  // the same for people
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	Written int64     `json:"written"` // nanoseconds of the wall clock, as the file's own time of change
}

// touched is how much later than its writing a file may have changed before it counts as changed by hand.
const touched = 5 * time.Second

const (
	maintenanceVersion = 1
	maxMaintenanceText = 4 << 10
)

// startDisableFile checks the file once before the loop runs: a node under maintenance is never armed, not even for a
// moment.
func (a *Agent) startDisableFile(background spawn) {
	f := a.guard.disable
	f.endGoingDown()
	f.look()
	a.guard.maintenances.take(config.DisableFile, f.says(), f.why, a.disarmNow)
	background(func(ctx context.Context) {
		f.watch(ctx, func(why string) {
			a.guard.maintenances.take(config.DisableFile, f.says(), why, a.disarmSoon)
		})
	})
}

// disarmNow passes signals to the core before the loop runs, and disarmSoon while it does.
func (a *Agent) disarmNow(signals map[string]string) {
	for source, why := range signals {
		a.core.SetDisarm(source, why)
	}
}

func (a *Agent) disarmSoon(signals map[string]string) {
	a.box.put(func(b *batch) { maps.Copy(b.disarm, signals) })
}

// says returns what the file says about a maintenance. Without an order of sources, any existing file means
// maintenance, whatever its content is.
func (f *disableFile) says() opinion {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.why == "":
		return silent
	case f.none && f.ordered:
		return none
	default:
		return under
	}
}

func (a *Agent) newDisableFile() *disableFile {
	return &disableFile{path: a.cfg.Watchdog.DisableFile, log: a.log, clock: a.clock, boot: hex64(a.self.boot), ordered: len(a.cfg.Watchdog.DisableOrder()) > 0, remove: os.Remove, text: statefile.Read, show: a.metrics.MaintenanceEnds}
}

// maintain begins a maintenance by the file, or ends it. Any goroutine may call it.
//
// Invariant: no caller is promised a maintenance that another source outweighs: the node would stay armed.
func (a *Agent) maintain(_ context.Context, m publish.Maintenance) (ends time.Time, err error) {
	if by := a.guard.maintenances.outweighs(config.DisableFile); by != "" && m.For > 0 {
		return time.Time{}, fmt.Errorf("%s said off when this node's Node was last shown, and by watchdog.disableFirst it outweighs the file: "+
			"the node would stay armed; remove the annotation, or, while nobody shows the Node, restart the agent with [file, controller]", by)
	}
	return a.guard.disable.set(m)
}

// goingDown is the first line of a disable file that the unit writes when the machine goes down (ExecStop of
// fencing-agent.service). What the file said before follows it.
const goingDown = "going down\n"

// endGoingDown undoes what the unit wrote when the machine went down: since this agent starts, the machine is up again.
//
// Invariant: such a file ends with the shutdown for which it was written, however the machine comes back. Neither the
// boot nor /run shows that: both survive systemctl soft-reboot, and the node would be in maintenance for ever. Any
// other file was created on purpose, and stays.
func (f *disableFile) endGoingDown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, err := os.Lstat(f.path); err != nil || !info.Mode().IsRegular() || info.Size() > maxMaintenanceText {
		return
	}
	text, err := f.text(f.path)
	before, ours := strings.CutPrefix(string(text), goingDown)
	if err != nil || !ours {
		return
	}
	if err = f.remove(f.path); err == nil && before != "" {
		err = statefile.Write(f.path, []byte(before))
	}
	if err != nil {
		f.log.Warn("cannot remove the disable file that the last shutdown left: the watchdog stays disarmed until you remove the file",
			"path", f.path, "error", err)
		return
	}
	f.log.Info("removed the disable file that the last shutdown had written", "path", f.path, "says", strings.TrimSpace(before))
}

// set writes or removes the file. The watcher sees that within disableInterval.
//
// Invariant: if there is an order of sources, a file that says "off" is neither removed nor replaced. Somebody has
// created it to keep the Node's annotations from disarming the watchdog; without the file they would.
func (f *disableFile) set(m publish.Maintenance) (ends time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ordered {
		text, err := f.text(f.path)
		if saysOff(text) || err != nil && f.none {
			return time.Time{}, fmt.Errorf("%s says off: it begins no maintenance, and keeps annotations of the Node from beginning one; remove the file by hand if that is no longer wanted", f.path)
		}
	}
	if info, err := os.Stat(f.path); err == nil && info.IsDir() {
		return time.Time{}, fmt.Errorf("%s is a folder, and the watchdog stays disarmed as long as the folder is there: move it away, or correct watchdog.disableFile", f.path)
	}
	if m.For == 0 {
		if err := f.remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return time.Time{}, err
		}
		return time.Time{}, nil
	}
	ends = time.Now().Add(m.For).UTC().Round(time.Second)
	text, err := json.Marshal(maintenance{maintenanceVersion, f.boot, int64(f.clock().Add(m.For)), ends, m.By, m.Reason, time.Now().UnixNano()})
	if err == nil {
		err = statefile.Write(f.path, append(text, '\n'))
	}
	return ends, err
}

// watch reports changes until ctx ends.
func (f *disableFile) watch(ctx context.Context, report func(why string)) {
	t := time.NewTicker(disableInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if f.look() {
			report(f.why)
		}
	}
}

// look reports whether the file has appeared, disappeared or changed. If the agent cannot tell whether the file exists,
// the last answer stays valid; so does an "off" that cannot be read again.
func (f *disableFile) look() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	why, was := "", f.none
	f.none = false
	switch info, err := os.Stat(f.path); {
	case err == nil:
		why, err = f.read(info)
		if err != nil && was {
			f.none = true
			return f.cannotTell(err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		f.none = was
		return f.cannotTell(err)
	}
	f.fail = ""
	if why == "" && f.show != nil {
		f.show(nil)
	}
	if why == f.why && f.none == was {
		return false
	}
	f.why = why
	if why == "" {
		f.log.Info("the disable file is gone", "path", f.path)
	} else {
		f.log.Info("the disable file asks to disarm the watchdog", "path", f.path, "says", why)
	}
	return true
}

// cannotTell keeps the last known state, and logs that once.
func (f *disableFile) cannotTell(err error) (changed bool) {
	if f.fail != err.Error() { // otherwise there would be a line each second
		f.fail = err.Error()
		f.log.Warn("cannot read the disable file; its last known state stays in effect", "path", f.path, "error", err)
	}
	return false
}

func saysOff(text []byte) bool { return strings.TrimSpace(string(text)) == "off" }

// read returns why an existing file asks to disarm the watchdog; "": its maintenance is over, and the file is removed.
// The error says why the content is not known.
//
// Invariant: if this agent does not understand a file, or cannot read it, its maintenance does not end by itself:
// somebody has created the file. The same applies to a file that was changed after it was written: so it counts as made
// by hand.
func (f *disableFile) read(info fs.FileInfo) (string, error) {
	why := "the file " + f.path
	var m maintenance
	if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxMaintenanceText {
		f.ends(nil)
		return why, nil
	}
	text, err := f.text(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it was just removed
	}
	f.none = err == nil && saysOff(text)
	if err == nil && strings.HasPrefix(string(text), goingDown) {
		why = "the machine goes down (" + why + ")"
	}
	if err != nil || json.Unmarshal(text, &m) != nil || m.Version != maintenanceVersion || m.Boot == "" || m.Until <= 0 ||
		m.Written != 0 && info.ModTime().Sub(time.Unix(0, m.Written)).Abs() > touched {
		f.ends(nil)
		return why, err
	}
	// By the clock of this boot; a maintenance does not outlive a reset.
	if m.Boot != f.boot || int64(f.clock()) >= m.Until {
		err := f.remove(f.path)
		if f.over == string(text) {
			return "", nil // it was logged
		}
		f.over = string(text)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Warn("the maintenance that the disable file asked for is over, but the file cannot be removed", "path", f.path, "error", err)
		}
		f.log.Warn("maintenance is over: the watchdog guards this node again", "by", m.By, "reason", m.Reason, "ended_with_boot", m.Boot != f.boot)
		return "", nil
	}
	at := m.Ends.Unix()
	f.ends(&at)
	return fmt.Sprintf("maintenance until %s (%s: %s)", m.Ends.UTC().Format(time.RFC3339), m.By, m.Reason), nil
}

func (f *disableFile) ends(at *int64) {
	if f.show != nil {
		f.show(at)
	}
}

package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// disableInterval is the time between two looks at the disable file.
const disableInterval = time.Second

// disableFile asks for the disarmed watchdog while it exists (watchdog.disableFile).
type disableFile struct {
	path string
	log  *slog.Logger
	why  string // as it was reported last; "": it is not there
}

// startDisableFile looks once before the loop runs: a node under maintenance is never armed, not even
// for a moment.
func (a *Agent) startDisableFile(background spawn) {
	const source = "file"
	f := &disableFile{path: a.cfg.Watchdog.DisableFile, log: a.log}
	f.look()
	a.core.SetDisarm(source, f.why)
	background(func(ctx context.Context) {
		f.watch(ctx, func(why string) { a.box.put(func(b *batch) { b.disarm[source] = why }) })
	})
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

// look reports whether the file has come or gone. If it cannot be told whether it is there, the last answer
// stands.
func (f *disableFile) look() (changed bool) {
	why := ""
	switch _, err := os.Stat(f.path); {
	case err == nil:
		why = "the file " + f.path
	case !errors.Is(err, fs.ErrNotExist):
		f.log.Warn("disable file", "path", f.path, "error", err)
		return false
	}
	if why == f.why {
		return false
	}
	f.why = why
	f.log.Info("disable file", "path", f.path, "present", why != "")
	return true
}

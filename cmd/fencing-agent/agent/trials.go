package agent

import (
	"cmp"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/trials"
)

// sayTried logs the tests of the watchdog whose driver is known. A file that cannot be read does not end the start: the
// watchdog then counts as late as the latest known driver.
func (g *guard) sayTried() {
	if g.tried.err != nil {
		g.log.Error("cannot read how late the watchdog fires, and allows for as much as the latest driver known", "file", g.cfg.TrialsFile(), "error", g.tried.err)
	}
	d := g.cfg.WatchdogDriver
	if d.Identity == "" {
		return
	}
	last := g.tried.seen.Last(d.Identity)
	switch {
	case d.Measured.Unproven:
		g.log.Error("this watchdog was never seen to reset this node, and watchdog.driver is tested: it is not used; try it with fencectl watchdog test", "driver", d.Identity, "firmware", cmp.Or(g.tried.seen.Firmware, "unknown"))
	case last == nil:
		g.log.Warn("this watchdog was never seen to reset this node: try it with fencectl watchdog test", "driver", d.Identity, "firmware", cmp.Or(g.tried.seen.Firmware, "unknown"))
	case d.Measured.Failed:
		g.log.Error("this watchdog did not reset this node when it was tried, and is not used", "driver", d.Identity, "tried", last.Began)
	default:
		g.log.Info("this watchdog reset this node when it was tried", "driver", d.Identity, "tried", last.Began, "timeout", last.Timeout, "ran", last.Ran, "fires-within", d.Latest(g.cfg.Watchdog.Timeout))
	}
}

// tried is what fencectl watchdog test has shown on this machine before this agent started.
type tried struct {
	seen *trials.Seen
	err  error // of reading it
}

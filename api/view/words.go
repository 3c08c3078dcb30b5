package view

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// StaleAfter is the age of a status from which the agent's loop counts as standing still: it produces a status every
// second.
const StaleAfter = 5 * time.Second

// driverNone is the WatchdogStatus.driver of a dry run.
const driverNone = "none"

// Stale returns the age of the status if it is too old to be true. Setting the clock back does not make a status older.
func Stale(st *fencingv1.Status, now time.Time) (time.Duration, bool) {
	if st.GetTime() == nil {
		return 0, false
	}
	age := now.Sub(st.GetTime().AsTime())
	return age, age > StaleAfter
}

// Permission describes what the agent does, in the style for its severity. In a dry run it describes what the agent
// would do, and is never Good.
func Permission(st *fencingv1.Status) Span {
	s := permission(st)
	if st.GetWatchdog().GetDriver() == driverNone && s.Style != Bad {
		s = Span{s.Text + " (DRY RUN)", Warn}
	}
	return s
}

func permission(st *fencingv1.Status) Span {
	v := st.GetVerdict()
	switch v.GetPermission() {
	case fencingv1.Permission_PERMISSION_FEED:
		if !v.GetQuorum() {
			return Span{"FEEDING WITHOUT QUORUM", Warn}
		}
		return Span{"FEEDING", Good}
	case fencingv1.Permission_PERMISSION_HOLD:
		if v.GetReason() == fencingv1.Reason_REASON_NOBODY_LIVES {
			return Span{"FEEDING ON WITHOUT QUORUM", Warn}
		}
		return Span{"FEEDING ON, UNDECIDED", Warn}
	case fencingv1.Permission_PERMISSION_STARVE:
		if v.GetReason() == fencingv1.Reason_REASON_STARTING {
			return Span{"NOT FEEDING", Warn}
		}
		return Span{"NOT FEEDING", Bad}
	case fencingv1.Permission_PERMISSION_DISARM:
		if st.GetWatchdog().GetArmed() {
			return Span{"TO BE DISARMED", Warn}
		}
		return Span{"DISARMED", Warn}
	default:
		return Span{"NO VERDICT", Warn}
	}
}

// lasting describes how long the permission is valid.
func lasting(v *fencingv1.Verdict) string {
	switch {
	case v.GetValidFor() == nil:
		return ""
	case v.GetPermission() == fencingv1.Permission_PERMISSION_HOLD && v.GetReason() == fencingv1.Reason_REASON_NOBODY_LIVES:
		return ", stops in " + Ago(v.GetValidFor()) + " unless the LUN goes on saying so"
	case v.GetPermission() == fencingv1.Permission_PERMISSION_HOLD:
		return ", stops in " + Ago(v.GetValidFor())
	default:
		return ", valid for " + Ago(v.GetValidFor())
	}
}

// Consequence describes what the verdict means for this node; empty if that is obvious.
func Consequence(st *fencingv1.Status) Span {
	v, w := st.GetVerdict(), st.GetWatchdog()
	dry := w.GetDriver() == driverNone
	switch v.GetPermission() {
	case fencingv1.Permission_PERMISSION_STARVE:
		if v.GetReason() == fencingv1.Reason_REASON_CONDEMNED {
			return condemned(st)
		}
		return starving(w)
	case fencingv1.Permission_PERMISSION_DISARM:
		switch {
		case w.GetArmed() && w.GetNowayout():
			return Span{"the watchdog cannot be disarmed (nowayout): it stays armed", Warn}
		case w.GetArmed():
			return Span{"the watchdog is still armed", Warn}
		}
		return Span{"the watchdog is off: nothing resets this node meanwhile", Plain}
	case fencingv1.Permission_PERMISSION_FEED, fencingv1.Permission_PERMISSION_HOLD:
		switch {
		case w.GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY:
			return Span{"but the watchdog is faulty: " + OrUnknown(w.GetError()), Bad}
		case v.GetReason() == fencingv1.Reason_REASON_NOBODY_LIVES && (w.GetArmed() || dry):
			return Span{"nobody is reset while the LUN works, and nothing fails over. Repair the networks; leave the LUN and the agents alone", Bad}
		case dry:
			return Span{"driver none: a dry run, nothing would reset this node", style(trouble.DryRun)}
		case !w.GetArmed():
			return Span{"but the watchdog is not armed: nothing would reset this node", Warn}
		case v.GetReason() == fencingv1.Reason_REASON_LUN_QUORUM:
			return Span{"the networks alone have no quorum: nothing fails over, and a node that loses the LUN, too, gives way. Repair the networks", Warn}
		// the line above shows what the node asks for
		case !v.GetQuorum() && v.GetReason() == fencingv1.Reason_REASON_LUN_ASKING:
		case !v.GetQuorum() && v.GetOnQuorumLoss() == "exclude":
			return Span{"policy exclude: it is not reset, consumers hear that it has left", Warn}
		case !v.GetQuorum():
			return Span{"policy " + OrUnknown(v.GetOnQuorumLoss()) + ": it is not reset and goes on", Warn}
		}
	}
	return Span{}
}

// counting reports whether the watchdog counts down, or would if this were not a dry run.
func counting(w *fencingv1.WatchdogStatus) bool {
	return w.GetArmed() || (w.GetDriver() == driverNone && (w.GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_ARMED ||
		w.GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_STARVED))
}

// starving describes what happens to a node that is not fed, and when.
func starving(w *fencingv1.WatchdogStatus) Span {
	would, level := "the watchdog resets this node", Bad
	over := "the watchdog should have reset this node"
	if w.GetDriver() == driverNone {
		would, level = "driver none: a watchdog would reset this node", Warn
		over = "driver none: a watchdog would have reset this node"
	}
	timeout := w.GetTimeout().AsDuration()
	left := timeout - w.GetLastFeedAge().AsDuration()
	switch {
	case !counting(w):
		return Span{"the watchdog is not armed: nothing resets this node", Warn}
	case timeout <= 0 || w.GetLastFeedAge() == nil:
		return Span{would + " when its timeout has passed", level}
	case left <= 0:
		return Span{over + " " + Brief(-left) + " ago", level}
	default:
		return Span{would + " in about " + Brief(left) + ", unless it may feed again before", level}
	}
}

// Ago formats a duration of the API; it is "never" if the duration is absent.
func Ago(d *durationpb.Duration) string {
	if d == nil {
		return "never"
	}
	return Brief(d.AsDuration())
}

// Brief shortens a duration: 0.3s, 12s, 3m05s, 2h10m, 4d07h.
func Brief(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	day := 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%s%.1fs", sign, d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%s%ds", sign, d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%s%dm%02ds", sign, d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%s%dh%02dm", sign, d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, d/day, d%day/time.Hour)
	}
}

// Exact formats a configured duration, without the zeros of 1m0s.
func Exact(d *durationpb.Duration) string {
	text := d.AsDuration().String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// latency formats the duration of an I/O.
func latency(d *durationpb.Duration) string {
	return fmt.Sprintf("%.1fms", float64(d.AsDuration().Microseconds())/1000)
}

// OrUnknown replaces a text that an older agent may leave empty.
func OrUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

package agentsim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// told maps the messages of an agent's log that a timeline contains to the attributes that it prints.
var told = map[string][]string{
	"verdict changed":        {"action", "reason", "tally", "view", "split", "why", "until_s"},
	"watchdog state changed": {"status", "armed", "reason", "error"},
	"ballot ended":           {"decided", "adopted", "reason"},
}

// recorder is an agent's logger: it adds what matters to the timeline.
type recorder struct{ p *process }

func (r *recorder) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler           { return r }
func (r *recorder) WithGroup(string) slog.Handler                { return r }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	keys, ok := told[rec.Message]
	ok = ok || strings.Contains(rec.Message, "order")
	if !ok && rec.Level < slog.LevelError {
		return nil
	}
	var b strings.Builder
	b.WriteString(rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		if len(keys) == 0 {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		for _, k := range keys {
			if v := a.Value.String(); a.Key == k && v != "" && v != "<nil>" {
				fmt.Fprintf(&b, " %s=%s", k, v)
			}
		}
		return true
	})
	w := r.p.m.w
	w.mu.Lock()
	if rec.Message == "verdict changed" {
		hold, quorum := false, false
		rec.Attrs(func(a slog.Attr) bool {
			hold = hold || a.Key == "action" && a.Value.String() == "hold"
			quorum = quorum || a.Key == "quorum" && a.Value.Bool()
			return true
		})
		w.check.decided(r.p, hold && !quorum)
	}
	if gone := r.p.ended; !gone && strings.HasPrefix(rec.Message, "this node obeys a fence order") {
		w.check.obeys(r.p)
	}
	gone := r.p.ended
	w.mu.Unlock()
	if !gone {
		w.note(r.p.m.name, b.String())
	}
	return nil
}

func (l line) text() string {
	if l.who == "" {
		return fmt.Sprintf("%8.3fs ---- %s", l.at.Seconds(), l.what)
	}
	return fmt.Sprintf("%8.3fs %s   %s", l.at.Seconds(), l.who, l.what)
}

// Explain describes a failing run for a reader.
func Explain(s Schedule, r *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d events:\n", s.describe(), len(s.Events))
	for _, e := range s.Events {
		fmt.Fprintf(&b, "  %7.1fs %s\n", e.At.Seconds(), e)
	}
	b.WriteString("what happened:\n")
	for _, l := range r.Timeline {
		b.WriteString("  " + l + "\n")
	}
	for _, v := range r.Violations {
		b.WriteString("VIOLATION " + v + "\n")
	}
	return b.String()
}

package view

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/history"
)

func TestTimeline(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	decision := func(ago time.Duration, action string) history.Record {
		return history.Record{Wall: at(ago), Kind: history.Decision, Action: action}
	}
	sample := func(ago time.Duration) history.Record { return history.Record{Wall: at(ago), Kind: history.Sample} }
	for name, c := range map[string]struct {
		records []history.Record
		want    []Stretch
		events  int
	}{
		"nothing": {nil, []Stretch{{0, 1000, "none", ""}}, 0},
		"a day of samples": {
			[]history.Record{decision(30*time.Hour, "feed"), sample(24*time.Hour + time.Second), sample(23*time.Hour + 59*time.Minute)},
			[]Stretch{{0, 1000, "fed", ""}}, 0, // no record shows that the agent ended
		},
		"reset": {
			[]history.Record{decision(12*time.Hour, "feed"), decision(12*time.Hour-time.Minute, "starve"), {Wall: at(6 * time.Hour), Kind: history.Started}, decision(6*time.Hour-time.Second, "feed")},
			[]Stretch{{0, 500, "none", ""}, {500, 1, "fed", ""}, {500, 4, "starved", ""}, {500, 250, "none", ""}, {750, 250, "fed", ""}}, 4,
		},
		"maintenance": {
			[]history.Record{decision(18*time.Hour, "feed"), decision(18*time.Hour-time.Minute, "disarm")},
			[]Stretch{{0, 250, "none", ""}, {250, 1, "fed", ""}, {250, 750, "disarmed", ""}}, 2,
		},
	} {
		got := NewTimeline(c.records, now, time.UTC, 40)
		if len(got.Events) != c.events || len(got.Spans) != len(c.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, s := range got.Spans {
			if s.Text == "" {
				t.Errorf("%s: no words: %+v", name, s)
			}
			s.Text = ""
			if s != c.want[i] {
				t.Errorf("%s: stretch %d is %+v, want %+v", name, i, s, c.want[i])
			}
		}
	}
	if got := NewTimeline(make([]history.Record, 100), now, time.UTC, 40); len(got.Events) > 40 {
		t.Errorf("%d events", len(got.Events))
	}
}

// A clock that was set back makes no stretch of negative length, and none outside of the day.
func TestTimelineOfAClockSetBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	record := func(before time.Duration, action string) history.Record {
		return history.Record{Kind: history.Decision, Action: action, Wall: now.Add(-before)}
	}
	for _, ahead := range []time.Duration{0, time.Hour} { // how far the clock was ahead before it was set back
		got := NewTimeline([]history.Record{
			record(3*time.Hour, "feed"), record(-ahead, "starve"), record(2*time.Hour, "feed"), record(time.Hour, "starve"), record(59*time.Minute, "feed"),
		}, now, time.UTC, 10)
		for _, s := range got.Spans {
			if strings.Contains(s.Text, "-") || s.Length < 0 || s.From < 0 || s.From+s.Length > 1004 {
				t.Errorf("%v ahead: %+v", ahead, s)
			}
		}
	}
}

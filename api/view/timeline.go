package view

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/history"
)

// Day is the length of a page's timeline.
const Day = 24 * time.Hour

// Timeline is the last day of a node.
type Timeline struct {
	Spans  []Stretch
	Events []Event // the latest first
}

// Stretch is a part of the day. From and Length are in thousandths of the day.
type Stretch struct {
	From, Length int
	Kind         string // "fed", "undecided", "starved", "disarmed" or "none", which means that there is no record
	Text         string
}

// Event is something that happened.
type Event struct {
	At    string
	Text  string
	Style Style
}

// stretchOf maps the agent's decisions to kinds of stretches.
var stretchOf = map[string]string{"feed": "fed", "hold": "undecided", "starve": "starved", "disarm": "disarmed"}

// quiet is the longest time without a record that does not count as a gap: there is a sample every half minute.
const quiet = 5 * history.SampleEvery

// NewTimeline returns the last 24 hours according to the records; it lists at most this many events.
func NewTimeline(records []history.Record, now time.Time, zone *time.Location, events int) Timeline {
	var t Timeline
	begin := now.Add(-Day)
	at, kind := begin, "none"
	put := func(until time.Time) {
		if until.After(now) {
			until = now
		}
		if until.Before(at) { // the clock was set back
			until = at
		}
		least := 1
		if kind == "starved" || kind == "undecided" {
			least = 4 // short, but important to a reader
		} else if !until.After(at) {
			return
		}
		from := thousandths(at.Sub(begin), Day)
		s := Stretch{From: from, Length: max(least, thousandths(until.Sub(begin), Day)-from), Kind: kind}
		s.Text = stretchWords[kind] + " from " + at.In(zone).Format("15:04:05") + " for " + Brief(until.Sub(at))
		t.Spans = append(t.Spans, s)
		at = until
	}
	last := time.Time{}
	for i := range records {
		r := &records[i]
		if r.Wall.Before(begin) {
			if k := stretchOf[r.Action]; r.Kind == history.Decision && k != "" {
				kind = k
			}
			last = r.Wall
			continue
		}
		if kind != "none" && (r.Kind == history.Started || r.Wall.Sub(last) > quiet) {
			put(last)
			kind = "none"
		}
		if r.Kind == history.Decision && stretchOf[r.Action] != "" && stretchOf[r.Action] != kind {
			put(r.Wall)
			kind = stretchOf[r.Action]
		}
		last = r.Wall
		if r.Kind != history.Sample {
			t.Events = append(t.Events, Event{At: r.Wall.In(zone).Format("01-02 15:04:05"), Text: r.Line(), Style: EventStyle(r)})
		}
	}
	put(now)
	slices.Reverse(t.Events)
	t.Events = t.Events[:min(len(t.Events), events)]
	return t
}

var stretchWords = map[string]string{
	"fed": "fed", "undecided": "fed on, undecided", "starved": "NOT FED", "disarmed": "disarmed", "none": "nothing on record",
}

// EventStyle returns the style of a record.
func EventStyle(r *history.Record) Style {
	switch r.Kind {
	case history.LastWords, history.Condemned, history.Struck, history.Fenced, history.Tested:
		return Bad
	case history.Gone, history.Ordered:
		return Warn
	case history.LUN:
		if r.Action == history.ActionFailed {
			return Warn
		}
	case history.Decision:
		if r.Action != "feed" {
			return Warn
		}
	}
	return Plain
}

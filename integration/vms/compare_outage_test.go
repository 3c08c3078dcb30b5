package vms

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// silent is an outage of all networks between the nodes. The network to the LUN is separate and keeps working.
var silent = fault{name: "all networks silent", silent: true}

const (
	silentFor = 60 * time.Second
	// afterHeal is the time after the return of all nodes during which a reset would still be seen: some systems strike
	// after the heal.
	afterHeal = 30 * time.Second
)

// voice contains the signs by which a node of a contender reports that it has lost quorum, that it has regained it, and
// that it sees all others again. A contender that does not depend on networks has no quorum to report.
type voice struct{ idle, quorum, back sign }

// sign finds when a node first reported something after a moment.
type sign func(s *story, node string, after time.Time) (time.Time, bool)

func saying(text string) sign {
	return func(s *story, node string, after time.Time) (time.Time, bool) { return s.said(node, after, text) }
}

// on applies the sign to a story.
func (is sign) on(s *story) when {
	return func(node string, after time.Time) (time.Time, bool) { return is(s, node, after) }
}

// corosyncVoice is the voice of votequorum in a group of four.
var corosyncVoice = voice{
	idle:   saying("This node is within the non-primary component"),
	quorum: saying("This node is within the primary component"),
	back:   saying("[QUORUM] Members[4]: 1 2 3 4"),
}

// agentVoice is the agent's voice: the agent sees all others again when it has reported JOIN for each of them.
var agentVoice = voice{
	idle: func(s *story, node string, after time.Time) (time.Time, bool) {
		return s.decidedAt(node, after, func(d decision) bool { return !d.Quorum })
	},
	quorum: func(s *story, node string, after time.Time) (time.Time, bool) {
		return s.decidedAt(node, after, func(d decision) bool { return d.Quorum })
	},
	back: func(s *story, node string, after time.Time) (time.Time, bool) {
		count, last := s.reports(node, after, joined)
		for _, other := range without(nodes, node) {
			if count[other] == 0 {
				return time.Time{}, false
			}
		}
		return last, true
	},
}

// silence is the result of one outage.
type silence struct {
	reset, idle int           // the number of nodes
	first       time.Duration // until the first node was reset
	lost        time.Duration // until the last node was idle
	idleFor     time.Duration // the longest time for which a node was idle
	back        time.Duration // from the heal until the last node saw all others again
}

// sitOut silences all networks for a while, heals them, and waits until all nodes are back.
func (c *contender) sitOut(s *story, at time.Time) silence {
	s.t.Helper()
	s.until(at.Add(silentFor))
	healed := s.heal()
	var o silence
	if c.voice.back != nil {
		o.back = s.all(nodes, healed, "all are back", c.voice.back.on(s))
		s.logf("all are back")
	}
	s.until(time.Now().Add(afterHeal))
	for _, node := range nodes {
		moment, ok := s.resetAt(node, at)
		if !ok {
			continue
		}
		s.logf("%s was reset after %s", node, seconds(moment.Sub(at)))
		o.reset++
		if d := moment.Sub(at); o.first == 0 || d < o.first {
			o.first = d
		}
	}
	if o.reset > 0 && c.voice.back != nil {
		o.back = c.backFromReset(s, at, healed)
	}
	if c.voice.idle == nil {
		return o
	}
	for _, node := range nodes {
		from, ok := c.voice.idle(s, node, at)
		if !ok {
			continue
		}
		o.idle++
		o.lost = max(o.lost, from.Sub(at))
		until, ok := c.voice.quorum(s, node, latest(from, healed))
		if !ok {
			s.fatal("%s is idle still", node)
		}
		o.idleFor = max(o.idleFor, until.Sub(from))
	}
	return o
}

// backFromReset waits for the nodes that boot again: what they reported before their reset is no sign of their return.
func (c *contender) backFromReset(s *story, at, healed time.Time) time.Duration {
	since := healed
	for _, node := range nodes {
		if moment, ok := s.resetAt(node, at); ok {
			since = latest(since, moment)
		}
	}
	return since.Sub(healed) + s.all(nodes, since, "all are back", c.voice.back.on(s))
}

func (o silence) String() string {
	return fmt.Sprintf("%d reset, first after %s; %d idle after %s, for %s; back %s after the heal",
		o.reset, known(o.first), o.idle, known(o.lost), known(o.idleFor), known(o.back))
}

const (
	silenceHead  = "| system | runs | nodes reset | first reset | nodes idle | after | for | all back after the heal |\n|---|---|---|---|---|---|---|---|\n"
	silenceBegin = "<!-- outage in virtual machines -->\n"
	silenceEnd   = "<!-- end of outage -->\n"
)

// silences contains the measurements of each contender, in order.
type silences struct{ rows []*silenceRow }

type silenceRow struct {
	contender, system string
	runs              []silence
}

func (r *silences) add(contender, system string, o silence) {
	for _, have := range r.rows {
		if have.contender == contender {
			have.runs = append(have.runs, o)
			return
		}
	}
	r.rows = append(r.rows, &silenceRow{contender, system, []silence{o}})
}

func (r *silenceRow) String() string {
	var first, lost, idleFor, back []time.Duration
	var reset, idle []int
	for _, o := range r.runs {
		reset, idle = append(reset, o.reset), append(idle, o.idle)
		first, lost, idleFor, back = append(first, o.first), append(lost, o.lost), append(idleFor, o.idleFor), append(back, o.back)
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s |\n", r.system, len(r.runs), counts(reset), spread(first), counts(idle), spread(lost), spread(idleFor), spread(back))
}

// counts prints one number, or the least, the median and the greatest.
func counts(all []int) string {
	slices.Sort(all)
	least, middle, most := all[0], all[len(all)/2], all[len(all)-1]
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d / %d / %d", least, middle, most)
}

// merge puts the measurements into a table. The rows of contenders that were not measured stay.
func (r *silences) merge(old string) string {
	now := map[string]string{}
	for _, row := range r.rows {
		now[row.contender] = row.String()
	}
	return mergeRows(silenceHead, old, now)
}

// mergeRows returns a table with a row for each contender: the new one, by the contender's name, or otherwise the row
// of the old table.
func mergeRows(head, old string, now map[string]string) string {
	var b strings.Builder
	b.WriteString(head)
	for _, c := range contenders {
		if row, measured := now[c.name]; measured {
			b.WriteString(row)
			continue
		}
		for line := range strings.Lines(old) {
			if strings.HasPrefix(line, "| "+c.name+" ") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func (r *silences) write(path string) error {
	if len(r.rows) == 0 {
		return nil
	}
	return updateTable(path, silenceBegin, silenceEnd, r.merge)
}

func TestMergeSilences(t *testing.T) {
	old := "\n" + silenceHead + "| corosync 1 | 3 | old |\n| sanlock 1 | 3 | kept |\n| gone 1 | 3 | x |\n"
	var r silences
	for i := range 3 {
		r.add("corosync", "corosync 2", silence{reset: i, idle: 4, lost: 9 * time.Second, idleFor: time.Minute, back: time.Duration(i+1) * time.Second})
	}
	want := silenceHead + "| corosync 2 | 3 | 0 / 1 / 2 | - | 4 | 9.0 s | 60.0 s | 1.0 / 2.0 / 3.0 s |\n| sanlock 1 | 3 | kept |\n"
	if got := r.merge(old); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

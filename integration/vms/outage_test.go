package vms

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// backWithin is the time after the heal within which every node must have quorum again, and must have reported JOIN for
// all others.
const backWithin = 3 * time.Second

// ridden is the result of one outage of all networks. Its times are counted from the cut or the heal until the last
// node.
type ridden struct {
	size           int
	timing         string
	long           time.Duration
	left, vacant   time.Duration
	quorum, joined time.Duration
}

// rideOut causes an outage of all networks while the LUN works. No node may be reset or starve. Each node must report
// every other node as LEFT once, and as JOIN once after the heal, and must never report itself.
func (s *story) rideOut(long time.Duration) ridden {
	s.t.Helper()
	r := ridden{size: len(s.nodes), timing: *timing, long: long}
	at := s.silence()
	r.vacant = s.last(at, func(d decision) bool { return d.Msg == "verdict changed" && d.Reason == "nobody_lives" })
	s.until(at.Add(long))
	s.alive(s.nodes, at, at.Add(long))
	s.await(patience, "all still hold", s.nodes, held(s.nodes...))
	r.left = s.once("LEFT", at, func(d decision) []string { return d.Left })
	for _, node := range s.nodes {
		if when, ok := s.decidedAt(node, at, starved); ok {
			s.fatal("%s starved %v after the networks were lost", node, when.Sub(at))
		}
	}
	s.logWaits()
	healed := s.heal()
	s.eventually(healed.Add(backWithin+patience), "everybody has said JOIN of everybody", func() string {
		return s.missing(healed, joined)
	})
	s.allWell("all are back")
	s.unharmed(s.nodes, at)
	r.joined = s.once("JOIN", healed, joined)
	r.quorum = s.last(healed, func(d decision) bool { return d.Msg == "verdict changed" && d.Quorum })
	s.logf("all LEFT after %s, all hold after %s; after the heal quorum after %s, all JOINed after %s, 0 resets",
		seconds(r.left), seconds(r.vacant), hundredths(r.quorum), hundredths(r.joined))
	if back := max(r.quorum, r.joined); back > backWithin {
		s.fatal("everybody was back %v after the heal, not within %v", back, backWithin)
	}
	return r
}

// logWaits logs the share of time for which the machine that waited most has waited for processors.
func (s *story) logWaits() {
	var most time.Duration
	for name := range s.machines {
		most = max(most, s.waited(name)-s.before[name])
	}
	s.logf("waited for a processor: %.0f %% of the time at most", 100*most.Seconds()/time.Since(s.began).Seconds())
}

func joined(d decision) []string { return d.Joined }

// last returns when the last of the nodes first wrote such a line, as a time after a moment.
func (s *story) last(after time.Time, is func(decision) bool) (last time.Duration) {
	s.t.Helper()
	for _, node := range s.nodes {
		at, ok := s.saidAt(node, after, is)
		if !ok {
			s.fatal("%s never said so", node)
		}
		last = max(last, at.Sub(after))
	}
	return last
}

// reports counts how often the agent of a node has reported each node since a moment, and returns when the last report
// was.
func (s *story) reports(node string, since time.Time, names func(decision) []string) (count map[string]int, last time.Time) {
	count = map[string]int{}
	for _, l := range s.lines(node, since) {
		if l.Msg != "membership changed" {
			continue
		}
		for _, name := range names(l.decision) {
			count[name]++
			last = latest(last, l.at)
		}
	}
	return count, last
}

// missing names a report about another node that some node has not made.
func (s *story) missing(since time.Time, names func(decision) []string) string {
	for _, node := range s.nodes {
		count, _ := s.reports(node, since, names)
		for _, other := range without(s.nodes, node) {
			if count[other] == 0 {
				return fmt.Sprintf("%s has not reported %s", node, other)
			}
		}
	}
	return ""
}

// once checks that each node has reported each other node once since a moment, and never itself. It returns the time
// until the last report.
func (s *story) once(what string, since time.Time, names func(decision) []string) (last time.Duration) {
	s.t.Helper()
	for _, node := range s.nodes {
		count, at := s.reports(node, since, names)
		for _, other := range s.nodes {
			want := 1
			if other == node {
				want = 0
			}
			if count[other] != want {
				s.fatal("%s said %s of %s %d times", node, what, other, count[other])
			}
		}
		last = max(last, at.Sub(since))
	}
	return last
}

// TestOutages runs an outage in groups of several sizes.
func TestOutages(t *testing.T) {
	need(t)
	stalls := observe.NewStalls()
	defer stalls.Close()
	var rows []ridden
	for _, text := range strings.Split(*outages, ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-outages %s: %v", *outages, err)
		}
		t.Run(text, func(t *testing.T) {
			s := &story{t: t, name: "outage", began: time.Now(), stalls: stalls}
			config := scenarioConfig()
			config["timing"] = *timing
			l, err := newLab(t, agentsOn(nodesNamed(size), config))
			if err != nil {
				t.Fatal(err)
			}
			defer l.close(t)
			s.logf("booting %d nodes and their storage", size)
			s.begin(l)
			s.noteBoots(s.allWell("all well"))
			s.began = time.Now()
			// The time for which the machines waited while they booted has nothing to do with the outage.
			s.begin(l)
			r := s.rideOut(*outage)
			s.returned(s.allWell("all well again"))
			rows = append(rows, r)
			// The table is written now, because the next size takes minutes.
			if err := writeOutages(os.Getenv(outagesEnv), rows); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("outages\n\n%s%s", outagesHead, strings.Join(asRows(rows), ""))
}

// outagesEnv names the variable with the Markdown file whose table of outages is updated.
const outagesEnv = "FENCING_VMS_OUTAGES"

const (
	outagesHead  = "| nodes | timing | outage | resets | all LEFT | all hold, `nobody_lives` | starved | quorum after the heal | all JOINed |\n|---|---|---|---|---|---|---|---|---|\n"
	outagesBegin = "<!-- outages of virtual machines -->\n"
	outagesEnd   = "<!-- end of outages -->\n"
)

// key is the beginning of the row with the same size, timing and length.
func (r ridden) key() string { return fmt.Sprintf("| %d | %s | %s |", r.size, r.timing, span(r.long)) }

func (r ridden) String() string {
	return fmt.Sprintf("%s 0 | %s | %s | 0 | %s | %s |\n", r.key(), hundredths(r.left), hundredths(r.vacant), hundredths(r.quorum), hundredths(r.joined))
}

func asRows(rows []ridden) (out []string) {
	for _, r := range rows {
		out = append(out, r.String())
	}
	return out
}

func hundredths(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// span prints a length in whole minutes or seconds.
func span(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// mergeOutages puts rows into a table. They replace those with the same size, timing and length.
func mergeOutages(old string, rows []ridden) string {
	var lines []string
	for line := range strings.Lines(old) {
		same := slices.ContainsFunc(rows, func(r ridden) bool { return strings.HasPrefix(line, r.key()) })
		if !same && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| nodes ") {
			lines = append(lines, line)
		}
	}
	return outagesHead + strings.Join(append(lines, asRows(rows)...), "")
}

func writeOutages(path string, rows []ridden) error {
	return updateTable(path, outagesBegin, outagesEnd, func(old string) string { return mergeOutages(old, rows) })
}

func TestMergeOutages(t *testing.T) {
	old := "\n" + outagesHead + "| 3 | careful | 60 s | old |\n| 3 | careful | 5 min | kept |\n| 3 | default | 60 s | kept |\n"
	rows := []ridden{{size: 3, timing: "careful", long: time.Minute, left: 7 * time.Second, vacant: 8 * time.Second, quorum: time.Second, joined: 1100 * time.Millisecond}}
	want := outagesHead + "| 3 | careful | 5 min | kept |\n| 3 | default | 60 s | kept |\n| 3 | careful | 60 s | 0 | 7.00 s | 8.00 s | 0 | 1.00 s | 1.10 s |\n"
	if got := mergeOutages(old, rows); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

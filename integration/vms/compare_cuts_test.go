package vms

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// lengths contains the lengths, in seconds, of the cuts of one node that end by themselves.
var lengths = []int{3, 5, 8, 10, 15, 20}

// cutOf cuts one node from the others, on all networks, for this many seconds.
func cutOf(length int) fault {
	return fault{name: fmt.Sprintf("cut of %d s", length), cut: time.Duration(length) * time.Second}
}

// withCuts adds all faults of one node to the given faults.
func withCuts(faults ...fault) []fault {
	for _, length := range lengths {
		faults = append(faults, cutOf(length))
	}
	return append(faults, crashes...)
}

// agentCareful is compared because the agent's timing determines which cuts reset it.
var agentCareful = &contender{
	name:   "fencing-agent, timing careful",
	faults: withCuts(),
	crew:   func(*contender) (crew, error) { return agentsOn(nodes, map[string]any{"timing": "careful"}), nil },
	ready:  agentsWell,
	told:   agentsTold,
}

// agentFast has no cuts: on a busy processor, the nodes of an emulated group did not all see each other after two
// minutes.
var agentFast = &contender{
	name:   "fencing-agent, timing fast",
	faults: crashes,
	crew:   func(*contender) (crew, error) { return agentsOn(nodes, map[string]any{"timing": "fast"}), nil },
	ready:  agentsWell,
	told:   agentsTold,
}

func agentsWell(s *story) { s.noteBoots(s.allWell("all well")) }

// agentsTold waits until all other nodes report the node as FENCED in their logs.
func agentsTold(s *story, victim string, at time.Time) time.Duration {
	s.t.Helper()
	return s.all(without(nodes, victim), at, "the others say that "+victim+" is FENCED", func(node string, after time.Time) (time.Time, bool) {
		return s.saidAt(node, after, func(d decision) bool {
			return d.Msg == "death of a node confirmed" && d.Peer == victim && d.Boot == s.boots[victim] && d.Fenced
		})
	})
}

// single is the result of a fault of one node.
type single struct {
	fault  string
	reset  time.Duration // until that node was reset; 0: it was not
	others int           // nodes that were reset although nothing was wrong with them
}

func (o single) String() string {
	return fmt.Sprintf("reset %s, %d others reset", known(o.reset), o.others)
}

// blink makes one cut of one node and waits until all nodes are well again.
func (c *contender) blink(s *story, f fault, victim string) single {
	s.t.Helper()
	o := single{fault: f.name}
	at := s.cut(networks, []string{victim}, without(nodes, victim))
	s.until(at.Add(f.cut))
	s.until(s.heal().Add(afterHeal))
	c.ready(s)
	for _, node := range nodes {
		moment, ok := s.resetAt(node, at)
		switch {
		case !ok:
		case node == victim:
			o.reset = moment.Sub(at)
		default:
			o.others++
		}
	}
	return o
}

const cutsBegin, cutsEnd = "<!-- cuts in virtual machines -->\n", "<!-- end of cuts -->\n"

// singles contains the measurements of each contender.
type singles struct{ rows []*singleRow }

type singleRow struct {
	contender, system string
	runs              []single
}

func (r *singles) add(contender, system string, o single) {
	for _, have := range r.rows {
		if have.contender == contender {
			have.runs = append(have.runs, o)
			return
		}
	}
	r.rows = append(r.rows, &singleRow{contender, system, []single{o}})
}

func singlesHead() string {
	var b strings.Builder
	b.WriteString("| system |")
	for _, length := range lengths {
		fmt.Fprintf(&b, " %d s |", length)
	}
	return b.String() + " reset after |\n" + strings.Repeat("|---", len(lengths)+2) + "|\n"
}

func (r *singleRow) String() string {
	cells := []string{r.system}
	var reset []time.Duration
	for _, length := range lengths {
		n, all := 0, 0
		for _, o := range r.runs {
			if o.fault != cutOf(length).name {
				continue
			}
			all++
			if o.reset > 0 || o.others > 0 {
				n++
			}
			reset = append(reset, o.reset)
		}
		cells = append(cells, "-")
		if all > 0 {
			cells[len(cells)-1] = fmt.Sprintf("%d of %d", n, all)
		}
	}
	return "| " + strings.Join(append(cells, spread(reset)), " | ") + " |\n"
}

// merge puts the measurements into a table. The rows of contenders that were not measured stay.
func (r *singles) merge(old string) string {
	now := map[string]string{}
	for _, row := range r.rows {
		now[row.contender] = row.String()
	}
	return mergeRows(singlesHead(), old, now)
}

func (r *singles) write(path string) error {
	if len(r.rows) == 0 {
		return nil
	}
	return updateTable(path, cutsBegin, cutsEnd, r.merge)
}

func TestMergeSingles(t *testing.T) {
	var r singles
	for _, o := range []single{
		{fault: "cut of 3 s"}, {fault: "cut of 3 s", reset: 4 * time.Second}, {fault: "cut of 10 s", others: 1},
	} {
		r.add("Pacemaker", "Pacemaker 2", o)
	}
	kept := "| fencing-agent, timing careful | 0 of 5 |\n"
	want := singlesHead() + "| Pacemaker 2 | 1 of 2 | - | - | 1 of 1 | - | - | 4.0 s |\n" + kept
	if got := r.merge("\n| system |\n| Pacemaker 1 | old |\n" + kept); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

package vms

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// contender is a system that is compared. It runs on the machines of the scenarios. Its behaviour is judged by what the
// hypervisor saw and by what the system logs.
type contender struct {
	name     string
	beside   string   // a second package whose version is reported; may be empty
	packages []string // packages of Debian; the version of the first is reported
	programs []string // programs of these packages
	crew     func(c *contender) (crew, error)
	faults   []fault
	prepare  func(s *story)                         // called when the machines have booted; may be nil
	ready    func(s *story)                         // returns when all is well
	end      func(s *story, at time.Time) []outcome // waits until the fault of that moment has been dealt with
	voice    voice                                  // how it reports an outage of all networks
	// told waits until the others may act in place of a node, and returns how long after the fault that was.
	told func(s *story, victim string, at time.Time) time.Duration

	tree string // folder of the unpacked packages
}

// fault is what happens to a group of four nodes.
type fault struct {
	name     string
	networks bool // both networks are cut between the halves
	lun      bool // the second half loses the LUN
	silent   bool // no two nodes reach each other

	cut  time.Duration                         // one node is cut off from the others for this time
	dies func(s *story, node string) time.Time // one node dies, at the returned moment
}

var (
	networksCut = fault{name: "networks cut 2 \\| 2", networks: true}
	halfCutOff  = fault{name: "networks cut 2 \\| 2, n3 and n4 without LUN", networks: true, lun: true}
)

// first and second are the two halves of the group.
var first, second = nodes[:2], nodes[2:]

// outcome is the result of a fault, as times after it: when the last of the losers was reset (0: none was), when none
// of them was active any more, and when the others had been told, too. Each contender defines what active means.
type outcome struct {
	of                  string // the part of the contender that it describes; "" for all of it
	reset, idle, active time.Duration
}

const (
	// endLimit bounds the wait for the end of a fault: twice the time that the slowest contender needs by its own
	// arithmetic.
	endLimit      = 5 * time.Minute
	peerMegabytes = 512
)

var contenders = []*contender{corosync, sbd, pacemaker, sanlock, agentFast, agentByDefault, agentCareful}

var (
	chosenFaults = flag.String("faults", "", "compare only by faults that match this regular expression")
	compareRuns  = flag.Int("runs", 3, "how often the comparison repeats each fault")
)

// TestComparison causes the same faults with other systems, and with the agent and its defaults.
func TestComparison(t *testing.T) {
	need(t)
	table := &measured{path: os.Getenv(compareEnv)}
	chosen, err := regexp.Compile(*chosenFaults)
	if err != nil {
		t.Fatalf("-faults: %v", err)
	}
	for _, c := range contenders {
		var faults []fault
		for _, f := range c.faults {
			if chosen.MatchString(f.name) {
				faults = append(faults, f)
			}
		}
		if len(faults) > 0 {
			t.Run(c.name, func(t *testing.T) { c.compete(t, faults, table) })
		}
	}
}

// measured contains all tables, and the path of the file for them.
type measured struct {
	path     string
	ends     comparison
	silences silences
	singles  singles
}

func (m *measured) write() error {
	return errors.Join(m.ends.write(m.path), m.silences.write(m.path), m.singles.write(m.path))
}

func (c *contender) compete(t *testing.T, faults []fault, table *measured) {
	s := &story{t: t, name: c.name, began: time.Now(), stalls: observe.NewStalls()}
	defer s.stalls.Close()
	system, err := c.fetch(t.Context(), s.logf)
	if err != nil {
		t.Fatal(err)
	}
	members, err := c.crew(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLab(t, members)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t)
	s.begin(l)
	if c.prepare != nil {
		c.prepare(s)
	}
	for run := range *compareRuns {
		for _, f := range faults {
			c.ready(s)
			c.suffer(s, system, f, nodes[run%len(nodes)], table)
			// The table is written after each run, so that a run that is aborted does not lose it.
			if err := table.write(); err != nil {
				t.Error(err)
			}
			s.heal()
		}
	}
}

// suffer causes one fault and measures its result. A fault of one node hits the victim.
func (c *contender) suffer(s *story, system string, f fault, victim string, table *measured) {
	if f.dies != nil {
		o := c.crash(s, f, victim)
		s.logf("%s, %s: reset %s, the others may act %s", system, f.name, known(o.reset), seconds(o.active))
		table.ends.add(c.name, system, f, o)
		return
	}
	if f.cut > 0 {
		o := c.blink(s, f, victim)
		s.logf("%s, %s of %s: %s", system, f.name, victim, o)
		table.singles.add(c.name, system, o)
		return
	}
	at := s.inflict(f)
	if f.silent {
		o := c.sitOut(s, at)
		s.logf("%s: %s", system, o)
		table.silences.add(c.name, system, o)
		return
	}
	for _, o := range c.end(s, at) {
		s.logf("%s %s: reset %s, idle %s, one side active %s", system, o.of, known(o.reset), known(o.idle), seconds(o.active))
		table.ends.add(c.name, system, f, o)
	}
}

// fetch gets the packages, and returns the contender's name in the table.
func (c *contender) fetch(ctx context.Context, progress func(string, ...any)) (system string, err error) {
	if len(c.packages) == 0 {
		return c.name, nil
	}
	cache := os.Getenv(cacheEnv)
	if cache == "" {
		cache = filepath.Dir(built.guest)
	}
	c.tree, err = image.FetchPrograms(ctx, filepath.Join(cache, c.packages[0]), func(text string) { progress("%s", text) }, c.packages...)
	if err != nil {
		return "", err
	}
	version, err := image.Version(c.tree, c.packages[0])
	if err != nil || c.beside == "" {
		return c.name + " " + version, err
	}
	other, err := image.Version(c.tree, c.beside)
	return fmt.Sprintf("%s %s, %s %s", c.name, version, c.beside, other), err
}

// inflict causes a fault between two packets.
func (s *story) inflict(f fault) time.Time {
	hops := between(networks, first, second)
	if f.lun {
		hops = append(hops, between([]string{san}, second, []string{storage})...)
	}
	if f.silent {
		hops = apart(nodes)
	}
	at := s.drop(hops...)
	s.logf("%s", f.name)
	return at
}

// peerCrew runs a script on each node, with the programs of a contender and the given files.
func peerCrew(c *contender, script string, files func(i int) map[string]string) (crew, error) {
	return crew{
		megabytes: peerMegabytes,
		disk:      func(root string) error { return image.Install(c.tree, root, c.programs...) },
		node: func(i int) (image.Machine, error) {
			m := nodeMachine(i)
			m.Boot.Files["/etc/group"] = "root:x:0:\n"
			m.Boot.Files[peerScript] = peerShell + script
			for path, text := range files(i) {
				m.Boot.Files[path] = text
			}
			m.Boot.Env = append(m.Boot.Env, fmt.Sprintf("NODE_ID=%d", i+1))
			m.Boot.Service = []string{"/bin/sh", peerScript}
			return m, nil
		},
	}, nil
}

const (
	peerScript = "/etc/peer.sh"
	// peerShell is the beginning of every script that calls programs of a contender.
	peerShell = "export PATH=" + control.DiskMount + "/bin:$PATH LD_LIBRARY_PATH=" + control.DiskMount + "/lib\n"
	// awaitDisk lets a script wait for the LUN.
	awaitDisk = "until [ -b /dev/sda ]; do sleep 1; done\n"
)

// peer runs a script on a node, with the programs of the contender.
func (s *story) peer(node, script string) string {
	s.t.Helper()
	return s.run(node, peerShell+script)
}

// settled waits until a script succeeds on each of the nodes.
func (s *story) settled(what, script string, of ...string) {
	s.t.Helper()
	deadline := time.Now().Add(endLimit)
	for _, node := range of {
		s.eventually(deadline, what, func() string {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			defer cancel()
			if out, err := s.machines[node].Run(ctx, peerShell+script); err != nil {
				return fmt.Sprintf("not on %s: %s", node, out)
			}
			return ""
		})
	}
	s.logf("%s", what)
}

// hasDisk waits until a node has the LUN.
func (s *story) hasDisk(node string) {
	s.t.Helper()
	s.settled(node+" has the LUN", "[ -b /dev/sda ]", node)
}

// said returns when a node first wrote a line with the text after a moment.
func (s *story) said(node string, after time.Time, text string) (time.Time, bool) {
	return s.first(node, after, func(e machine.Event) bool {
		return (e.Kind == control.Log || e.Kind == machine.Console) && strings.Contains(e.Text, text)
	})
}

// when finds the moment of something that happened to a node after another moment, such as its reset.
type when func(node string, after time.Time) (time.Time, bool)

func (s *story) says(text string) when {
	return func(node string, after time.Time) (time.Time, bool) { return s.said(node, after, text) }
}

// all waits until something has happened on all the nodes, and returns the time from the fault until then.
func (s *story) all(of []string, at time.Time, what string, happened when) (took time.Duration) {
	s.t.Helper()
	s.eventually(at.Add(endLimit), what, func() string {
		took = 0
		for _, node := range of {
			moment, ok := happened(node, at)
			if !ok {
				return "not on " + node
			}
			took = max(took, moment.Sub(at))
		}
		return ""
	})
	return took
}

// spared fails if any of the nodes was reset.
func (s *story) spared(of []string, at time.Time) {
	s.t.Helper()
	for _, node := range of {
		if moment, ok := s.resetAt(node, at); ok {
			s.t.Fatalf("%s was reset %v after the fault", node, moment.Sub(at))
		}
	}
}

// compareEnv names the variable with the path of the Markdown file whose table of the comparison is updated.
const compareEnv = "FENCING_VMS_COMPARE"

const (
	compareHead  = "| system | fault | runs | losers reset | losers idle | exactly one side active |\n|---|---|---|---|---|---|\n"
	compareBegin = "<!-- comparison in virtual machines -->\n"
	compareEnd   = "<!-- end of comparison -->\n"
)

// comparison contains the measurements.
type comparison struct{ cells []*cell }

// cell is the result of one system for one fault.
type cell struct {
	contender, system, fault string
	outcomes                 []outcome
}

func (c *comparison) add(contender, system string, f fault, o outcome) {
	if o.of != "" {
		system += ", " + o.of
	}
	for _, have := range c.cells {
		if have.system == system && have.fault == f.name {
			have.outcomes = append(have.outcomes, o)
			return
		}
	}
	c.cells = append(c.cells, &cell{contender, system, f.name, []outcome{o}})
}

func (c *cell) String() string {
	var resets, idle, active []time.Duration
	for _, o := range c.outcomes {
		resets, idle, active = append(resets, o.reset), append(idle, o.idle), append(active, o.active)
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %s |", c.system, c.fault, len(c.outcomes), spread(resets), spread(idle), spread(active))
}

// merge puts the measurements into a table. The rows of contenders and faults that were not measured stay.
func (c *comparison) merge(old string) string {
	var b strings.Builder
	b.WriteString(compareHead)
	for _, contender := range contenders {
		for _, have := range c.cells {
			if have.contender == contender.name {
				fmt.Fprintln(&b, have)
			}
		}
		for line := range strings.Lines(old) {
			again := slices.ContainsFunc(c.cells, func(have *cell) bool {
				return have.contender == contender.name && strings.Contains(line, "| "+have.fault+" |")
			})
			if !again && strings.HasPrefix(line, "| "+contender.name+" ") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func (c *comparison) write(path string) error {
	if len(c.cells) == 0 {
		return nil
	}
	return updateTable(path, compareBegin, compareEnd, c.merge)
}

func TestMergeComparison(t *testing.T) {
	old := "\n" + compareHead + "| corosync 1, q | a | 3 | x | x | x |\n| sanlock 1 | b | 3 | x | x | x |\n| sanlock 1 | networks cut 2 \\| 2 | 3 | x | x | x |\n| gone 1 | a | 3 | x | x | x |\n"
	var c comparison
	for _, s := range []int{12, 10, 11} {
		c.add("sanlock", "sanlock 2", networksCut, outcome{reset: time.Duration(s) * time.Second, idle: time.Second, active: time.Minute})
	}
	want := compareHead + "| corosync 1, q | a | 3 | x | x | x |\n" +
		"| sanlock 2 | networks cut 2 \\| 2 | 3 | 10.0 / 11.0 / 12.0 s | 1.0 s | 60.0 s |\n| sanlock 1 | b | 3 | x | x | x |\n"
	if got := c.merge(old); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

package netns

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var (
	outage  = flag.Duration("outage", 30*time.Second, "how long all networks are cut")
	outages = flag.String("outages", "3,5", "numbers of agents for an outage of all networks, with one cluster for each, at the same time")
)

// backWithin is the time after the heal within which all nodes must be back, and reported as JOIN everywhere.
const backWithin = 3*time.Second + patience

// ridden is one row of the table of outages. All times are counted from the cut or the heal until the last node.
type ridden struct {
	size                 int
	long                 time.Duration
	left, asking, vacant time.Duration
	quorum, joined       time.Duration
	lapse                time.Duration // the longest time between the end of a majority and the verdict that follows
	calm, during         traffic       // I/O on the LUN, per node and second, before the cut and during the outage
}

// TestOutages: the LUN works, and no two nodes reach each other. No part has quorum, so no node has to die.
func TestOutages(t *testing.T) {
	need(t)
	var (
		mu   sync.Mutex
		rows []ridden
	)
	t.Run("clusters", func(t *testing.T) {
		for _, text := range strings.Split(*outages, ",") {
			size, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("-outages %s: %v", *outages, err)
			}
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, size, []int{512, 4096}[size%2], nil)
				c.startAll()
				row := c.rideOut(*outage)
				mu.Lock()
				rows = append(rows, row)
				mu.Unlock()
			})
		}
		for name, story := range map[string]func(*testing.T){
			"two":             outageOfTwo,
			"majority first":  majorityFirst,
			"halves first":    halvesFirst,
			"one without LUN": outageWithoutLUN,
			"one of before":   outageWithoutHold,
			"network or LUN":  outageByLUN,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t)
			})
		}
	})
	printOutages(rows)
}

// silence cuts every network between any two nodes.
func (c *cluster) silence() time.Time {
	c.t.Helper()
	var alone [][]string
	for _, node := range c.nodes {
		alone = append(alone, []string{node})
	}
	began := time.Now()
	c.must(c.Lab().Cut(alone...))
	return began
}

// held holds when these nodes are fed without quorum, because the LUN shows that no part of the group can live.
func held(nodes ...string) observe.Condition {
	return func(v *observe.View) string {
		var wrong []string
		for _, node := range nodes {
			p := v.Status[node].GetVerdict()
			if p.GetPermission() != fencingv1.Permission_PERMISSION_HOLD || p.GetReason() != fencingv1.Reason_REASON_NOBODY_LIVES || p.GetQuorum() {
				wrong = append(wrong, node+" is at "+observe.Verdict(v.Status[node]))
			}
		}
		return strings.Join(wrong, ", ")
	}
}

// lapse is the time for which an agent may report that its majority has ended before it reports what follows.
const lapse = 200 * time.Millisecond

// towards lists the reasons with which nodes hold before they have read on the LUN that nobody lives. Evidence of the
// peers does not expire all at once, so that a group with an even number of nodes may temporarily be an equal split.
var towards = []fencingv1.Reason{fencingv1.Reason_REASON_LUN_ASKING, fencingv1.Reason_REASON_SPLIT_PENDING, fencingv1.Reason_REASON_SPLIT_AT_ODDS}

// heldOnly holds while, since a moment, the nodes have had only verdicts that lead to a hold, in their order. Each node
// may have had its hiccup before it read on the LUN that nobody lives.
func heldOnly(since time.Time, nodes ...string) observe.Condition {
	return func(v *observe.View) string {
		vacant, had := map[string]bool{}, map[string]bool{}
		for i, c := range v.Verdicts {
			if !c.At.After(since) || !slices.Contains(nodes, c.Node) || lasted(v, i) <= lapse && c.Reason == fencingv1.Reason_REASON_NETWORK_QUORUM {
				continue
			}
			if isHiccup(c) && !vacant[c.Node] && !had[c.Node] && lasted(v, i) <= hiccup {
				had[c.Node] = true
				continue
			}
			on := !vacant[c.Node] && slices.Contains(towards, c.Reason)
			vacant[c.Node] = vacant[c.Node] || c.Reason == fencingv1.Reason_REASON_NOBODY_LIVES
			if c.Permission != fencingv1.Permission_PERMISSION_HOLD || !on && c.Reason != fencingv1.Reason_REASON_NOBODY_LIVES {
				return fmt.Sprintf("%s went to %v %v", c.Node, c.Permission, c.Reason)
			}
		}
		return ""
	}
}

// hiccup is the longest time for which a node that must live, or hold, may starve when an outage begins. It has missed
// all others before two of them missed each other, by at most D_max (4 s here), and reads that these live without it
// (docs/lease.md H3). No node is reset within so short a time.
const hiccup = 4 * time.Second

func isHiccup(c observe.Change) bool {
	return c.Permission == fencingv1.Permission_PERMISSION_STARVE && c.Reason == fencingv1.Reason_REASON_ISOLATED
}

// lasted returns how long the verdict of a change lasted.
func lasted(v *observe.View, change int) time.Duration {
	for _, c := range v.Verdicts[change+1:] {
		if c.Node == v.Verdicts[change].Node {
			return c.At.Sub(v.Verdicts[change].At)
		}
	}
	return v.Now.Sub(v.Verdicts[change].At)
}

// othersLeft holds when each of these nodes has reported all others as LEFT since a moment.
func (c *cluster) othersLeft(since time.Time, nodes ...string) observe.Condition {
	return c.othersReported(since, fencingv1.EventType_LEFT, nodes)
}

func (c *cluster) othersReported(since time.Time, kind fencingv1.EventType, nodes []string) observe.Condition {
	var all []observe.Condition
	for _, node := range nodes {
		all = append(all, observe.Reported(since, kind, without(c.nodes, node), []string{node}))
	}
	return observe.All(all...)
}

// notItself holds while none of the nodes has reported itself as LEFT since a moment, except for one report of its
// hiccup. Events and verdicts use separate streams, so one may arrive a moment before the other.
func notItself(since time.Time, nodes ...string) observe.Condition {
	return func(v *observe.View) string {
		excused := map[string]int{}
		for _, c := range v.Verdicts {
			if c.At.After(since) && isHiccup(c) {
				excused[c.Node] = 1
			}
		}
		for _, e := range v.Events {
			if e.Observer != e.Node || e.Type != fencingv1.EventType_LEFT || !slices.Contains(nodes, e.Node) || !e.At.After(since) || v.Now.Sub(e.At) < standstill {
				continue
			}
			if excused[e.Node]--; excused[e.Node] < 0 {
				return e.Node + " called itself LEFT"
			}
		}
		return ""
	}
}

// nobodyFenced holds while no agent takes any node for dead.
func nobodyFenced(v *observe.View) string {
	for observer, s := range v.Status {
		for _, n := range s.GetNodes() {
			if n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED || n.GetDeath() != nil {
				return observer + " says FENCED of " + n.GetName()
			}
		}
	}
	return ""
}

// once holds when each node has reported each other node exactly once since a moment.
func (c *cluster) once(since time.Time, kind fencingv1.EventType) observe.Condition {
	return func(v *observe.View) string {
		count := map[[2]string]int{}
		for _, e := range v.Events {
			if e.At.After(since) && e.Type == kind {
				count[[2]string{e.Observer, e.Node}]++
			}
		}
		for _, x := range c.nodes {
			for _, y := range without(c.nodes, x) {
				if n := count[[2]string{x, y}]; n != 1 {
					return fmt.Sprintf("%s sent %v %s %d times", x, kind, y, n)
				}
			}
		}
		return ""
	}
}

// rideOut makes an outage of all networks of a healthy cluster.
func (c *cluster) rideOut(long time.Duration) ridden {
	c.t.Helper()
	row := ridden{size: len(c.nodes), long: long}
	calm := time.Now()
	row.calm = c.lunTraffic(func() { c.hold(10*time.Second, "calm before the cut", observe.Steady(calm, c.nodes...)) })
	began := c.silence()
	c.await(c.lost(), "everybody calls all others LEFT", c.othersLeft(began, c.nodes...))
	always := observe.All(heldOnly(began, c.nodes...), notItself(began, c.nodes...), nobodyFenced)
	v, _ := c.await(startLimit, "all hold by the LUN", held(c.nodes...))
	row.left = lastEvent(v, began, fencingv1.EventType_LEFT)
	for i, change := range v.Verdicts {
		if change.At.After(began) && change.Permission == fencingv1.Permission_PERMISSION_STARVE {
			row.lapse = max(row.lapse, lasted(v, i))
		}
	}
	row.asking, row.vacant = lastVerdict(v, began, fencingv1.Reason_REASON_LUN_ASKING), lastVerdict(v, began, fencingv1.Reason_REASON_NOBODY_LIVES)
	row.during = c.lunTraffic(func() { c.hold(long-time.Since(began), "all hold", always, held(c.nodes...)) })
	c.hold(0, "LEFT was said once", c.once(began, fencingv1.EventType_LEFT))

	healed := time.Now()
	c.must(c.Lab().Heal())
	v, _ = c.await(backWithin, "everybody is back", c.othersReported(healed, fencingv1.EventType_JOIN, c.nodes),
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...))
	row.quorum, row.joined = lastVerdict(v, healed, fencingv1.Reason_REASON_NETWORK_QUORUM), lastEvent(v, healed, fencingv1.EventType_JOIN)
	c.await(startLimit, "all is as before", c.everybody())
	c.hold(5*time.Second, "it stays so", observe.NoLeft(healed, c.nodes...), notItself(began, c.nodes...), nobodyFenced,
		c.once(healed, fencingv1.EventType_JOIN), observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...))
	for _, node := range c.nodes {
		if m := badLine.FindString(c.metrics(node)); m != "" {
			c.t.Errorf("%s counts %s", node, m)
		}
	}
	return row
}

// badLine matches counters that an outage must not increase; alerts rely on that.
var badLine = regexp.MustCompile(`(?m)^fencing_agent_(watchdog_late_feeds_total|deaths_total|deaths_contradicted_total|tiebreak_total\{[^}]*"undecided")\S* [^0]\S*$`)

func lastEvent(v *observe.View, since time.Time, kind fencingv1.EventType) (last time.Duration) {
	for _, e := range v.Events {
		if e.At.After(since) && e.Type == kind {
			last = max(last, e.At.Sub(since))
		}
	}
	return last
}

func lastVerdict(v *observe.View, since time.Time, reason fencingv1.Reason) (last time.Duration) {
	for _, c := range v.Verdicts {
		if c.At.After(since) && c.Reason == reason {
			last = max(last, c.At.Sub(since))
		}
	}
	return last
}

// outageOfTwo: two nodes that lose each other are in an equal split, and exactly one lives.
func outageOfTwo(t *testing.T) {
	c := newCluster(t, 2, 512, nil)
	c.startAll()
	began := c.silence()
	one, other := c.nodes[:1], c.nodes[1:]
	c.always = observe.OneSideGranted(began, one, other)
	_, took := c.await(lastFeed(c.budget()), "exactly one lives", observe.Decided(one, other))
	t.Logf("decided after %v", took.Round(10*time.Millisecond))
	c.hold(*outage, "it stays so", observe.Decided(one, other), c.always)
	c.must(c.Lab().Heal())
	c.await(startLimit, "both are back", c.everybody())
}

// majorityFirst: the networks come back in pieces. Pieces without a majority continue to hold, and a majority lives.
func majorityFirst(t *testing.T) {
	c := newCluster(t, 5, 4096, nil)
	c.startAll()
	began := c.silence()
	c.await(startLimit, "all hold", held(c.nodes...))
	c.hold(*outage/3, "all hold", held(c.nodes...))
	c.must(c.Lab().Cut(c.nodes[:2], c.nodes[2:4], c.nodes[4:]))
	c.await(patience, "the pairs find each other", observe.Reported(began, fencingv1.EventType_JOIN, c.nodes[:1], c.nodes[1:2]),
		observe.Reported(began, fencingv1.EventType_JOIN, c.nodes[2:3], c.nodes[3:4]))
	c.hold(*outage/3, "no piece is a majority, and all hold", heldOnly(began, c.nodes...), held(c.nodes...), nobodyFenced)

	most, rest := c.nodes[:3], c.nodes[3:]
	healed := time.Now()
	c.must(c.Lab().Cut(most, c.nodes[3:4], c.nodes[4:]))
	v, _ := c.await(backWithin, "the majority lives", observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, most...))
	lives := lastVerdict(v, healed, fencingv1.Reason_REASON_NETWORK_QUORUM)
	_, ends := c.await(c.lost(), "the others do not hold any longer", observe.Starving(rest...))
	t.Logf("the majority lives after %v, the others starve %v after that", lives.Round(10*time.Millisecond), ends.Round(10*time.Millisecond))
	c.hold(*outage, "it stays so", observe.Starving(rest...), observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, most...), fencedOnlyUnfed)
	c.hold(0, "the majority counts itself only", observe.Counting(most...))
	c.hold(0, "the majority was fed all the time", func(v *observe.View) string {
		for _, node := range most {
			if _, starved := observe.Starved(v, began, node); starved {
				return node + " starved"
			}
		}
		return notItself(healed, most...)(v)
	})
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody())
}

// fencedOnlyUnfed holds while no node reports FENCED for a node that says that it is fed.
func fencedOnlyUnfed(v *observe.View) string {
	for observer, s := range v.Status {
		for _, n := range s.GetNodes() {
			fed := v.Status[n.GetName()].GetVerdict().GetPermission()
			if n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED && (fed == fencingv1.Permission_PERMISSION_FEED || fed == fencingv1.Permission_PERMISSION_HOLD) {
				return observer + " says FENCED of " + n.GetName() + ", which is fed"
			}
		}
	}
	return ""
}

// halvesFirst: two equal halves come out of the outage. All nodes hold until one half is granted, and exactly that one
// lives.
func halvesFirst(t *testing.T) {
	c := newCluster(t, 4, 512, nil)
	c.startAll()
	c.silence()
	c.await(startLimit, "all hold", held(c.nodes...))
	c.hold(*outage/2, "all hold", held(c.nodes...))
	a, b := c.nodes[:2], c.nodes[2:]
	healed := time.Now()
	c.must(c.Lab().Cut(a, b))
	c.always = observe.OneSideGranted(healed, a, b)
	_, took := c.await(lastFeed(c.budget()), "exactly one half lives", observe.Decided(a, b))
	t.Logf("decided %v after the halves found each other", took.Round(10*time.Millisecond))
	c.hold(*outage/2, "it stays so", observe.Decided(a, b), c.always, fencedOnlyUnfed)
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody())
}

// outageWithoutLUN: one node loses its LUN together with the networks. It can know nothing of the others, and gives
// way.
func outageWithoutLUN(t *testing.T) {
	c := newCluster(t, 5, 512, nil)
	c.startAll()
	last := len(c.nodes) - 1
	rest := c.nodes[:last]
	began := c.silence()
	c.must(c.loops.Lose(last))
	c.await(c.lost(), "it is not fed any more", observe.Starving(c.nodes[last]), lunLost(c.nodes[last]))
	c.await(startLimit, "the others hold", held(rest...), c.othersLeft(began, rest...))
	c.hold(*outage, "it stays so", observe.Starving(c.nodes[last]), held(rest...), heldOnly(began, rest...), notItself(began, rest...), nobodyFenced)
	c.must(c.loops.Restore(last))
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody(), observe.LUNReady(c.nodes...))
}

// outageWithoutHold: an agent that does not hold, like older ones, gives way, and the others hold without its
// statement.
func outageWithoutHold(t *testing.T) {
	old := "n5"
	c := newClusterOn(t, 5, 512, lab.AgentConfig{OwnLUN: func(node string) map[string]any {
		if node == old {
			return map[string]any{"hold": false}
		}
		return nil
	}})
	c.startAll()
	rest := without(c.nodes, old)
	began := c.silence()
	c.await(c.lost(), "it is not fed any more", observe.Starving(old))
	c.await(startLimit, "the others hold", held(rest...), c.othersLeft(began, rest...))
	c.hold(*outage, "it stays so", observe.Starving(old), held(rest...), heldOnly(began, rest...), notItself(began, rest...), nobodyFenced)
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody())
}

// traffic is I/O on the LUN: the numbers of reads and writes, and the sum of their bytes.
type traffic struct{ reads, writes, bytes float64 }

var (
	ioLine    = regexp.MustCompile(`(?m)^fencing_agent_lun_io_seconds_count\{.*op="(read|write)"\} (\S+)`)
	bytesLine = regexp.MustCompile(`(?m)^(?:read|write)_bytes: (\d+)`)
)

// lunTraffic returns an agent's average I/O per second while meanwhile runs.
func (c *cluster) lunTraffic(meanwhile func()) traffic {
	c.t.Helper()
	before, since := c.lunSum(), time.Now()
	meanwhile()
	after, span := c.lunSum(), time.Since(since).Seconds()*float64(len(c.nodes))
	return traffic{(after.reads - before.reads) / span, (after.writes - before.writes) / span, (after.bytes - before.bytes) / span}
}

func (t traffic) String() string {
	return fmt.Sprintf("%.2f + %.2f, %.1f kB", t.reads, t.writes, t.bytes/1000)
}

// lunSum returns the I/O of all agents. The bytes are counted by the kernel, including the few of a log.
func (c *cluster) lunSum() (sum traffic) {
	c.t.Helper()
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		c.must(err)
		return x
	}
	for _, node := range c.nodes {
		for _, m := range ioLine.FindAllStringSubmatch(c.metrics(node), -1) {
			if m[1] == "read" {
				sum.reads += number(m[2])
			} else {
				sum.writes += number(m[2])
			}
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", c.Process(node).PID()))
		c.must(err)
		for _, m := range bytesLine.FindAllStringSubmatch(string(text), -1) {
			sum.bytes += number(m[1])
		}
	}
	return sum
}

func printOutages(rows []ridden) {
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b ridden) int { return a.size - b.size })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "nodes\toutage\tall LEFT\tall lun_asking\tall nobody_lives\tgap\tquorum\tall JOINed\tI/O per s, calm\tin the outage\t")
	s := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%v\t%s\t%s\t%s\t%.3f s\t%s\t%s\t%v\t%v\t\n", r.size, r.long, s(r.left), s(r.asking), s(r.vacant), r.lapse.Seconds(), s(r.quorum), s(r.joined),
			r.calm, r.during)
	}
	w.Flush()
}

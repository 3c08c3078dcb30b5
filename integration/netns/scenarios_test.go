package netns

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// patience is the time that two slow processors may add to a bound that the agents keep.
const patience = 5 * time.Second

// scenario is a story of a cluster that is healthy when it begins and must be healthy again when it ends.
type scenario struct {
	name  string
	upTo  int // largest number of agents; 0: any number
	story func(c *cluster, began time.Time)
}

var scenarios = []scenario{
	{name: "split", story: (*cluster).unequalSplit},
	{name: "isolated", story: (*cluster).isolatedNode},
	{name: "one network of two", story: (*cluster).oneNetwork},
	{name: "one way", story: (*cluster).oneWay},
	{name: "loss 10", story: func(c *cluster, began time.Time) { c.lossy(began, 10) }},
	{name: "loss 20", story: func(c *cluster, began time.Time) { c.lossy(began, 20) }},
	{name: "crash", story: (*cluster).crash},
	{name: "quick crash", upTo: 9, story: (*cluster).quickCrash},
	{name: "reboot", upTo: 9, story: (*cluster).reboot},
	{name: "restart under loss", story: (*cluster).restartUnderLoss},
	{name: "leave", story: (*cluster).leave},
	{name: "rolling restart", story: (*cluster).rollingRestart},
}

// TestScenarios runs all scenarios with clusters of several sizes, without a LUN.
func TestScenarios(t *testing.T) {
	need(t)
	for _, text := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-sizes %s: %v", *sizes, err)
		}
		t.Run(text, func(t *testing.T) {
			c := newClusterIn(t, newDir(t), size, lab.AgentConfig{})
			if err := c.Boots(os.Args[0], roleBoot); err != nil {
				t.Fatal(err)
			}
			c.startAll()
			for _, s := range scenarios {
				if s.upTo > 0 && size > s.upTo {
					continue
				}
				whole := false
				t.Run(s.name, func(t *testing.T) {
					c := &cluster{Agents: c.Agents, Observer: c.Observer, t: t, nodes: c.nodes, stalls: c.stalls, fulls: c.fulls}
					began := time.Now()
					s.story(c, began)
					c.must(c.Lab().Heal())
					c.await(startLimit, "all is as before", c.everybody())
					t.Logf("took %v", time.Since(began).Round(100*time.Millisecond))
					whole = true
				})
				if !whole {
					// It failed, or was skipped for a standstill: the cluster is not in the state that the next
					// scenario expects.
					return
				}
			}
		})
	}
}

// lost returns the longest time after a cut for which a node without quorum may have permission to feed.
func (c *cluster) lost() time.Duration { return c.budget().GetDMax().AsDuration() + patience }

func (c *cluster) unequalSplit(began time.Time) {
	major := len(c.nodes)/2 + 1
	a, b := c.nodes[:major], c.nodes[major:]
	c.must(c.Lab().Cut(a, b))
	c.await(c.lost(), "the smaller part stops, the greater goes on and says LEFT", observe.Starving(b...), observe.Counting(a...),
		observe.Reported(began, fencingv1.EventType_LEFT, b, a))
	c.hold(time.Second, "the greater part was never without quorum", observe.Steady(began, a...))
}

func (c *cluster) isolatedNode(began time.Time) {
	lone := c.nodes[len(c.nodes)/2]
	rest := without(c.nodes, lone)
	c.must(c.Lab().Isolate(lone))
	v, _ := c.await(c.lost(), "the lone node stops", observe.Starving(lone))
	at, _ := observe.Starved(v, began, lone)
	_, left := c.await(c.lost(), "the rest says LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{lone}, rest), observe.Counting(rest...))
	c.t.Logf("not fed any more after %v, LEFT everywhere %v after that", at.Sub(began).Round(10*time.Millisecond), left.Round(10*time.Millisecond))
	c.hold(0, "nobody else moved", observe.Steady(began, rest...))
}

func (c *cluster) oneNetwork(began time.Time) {
	half := len(c.nodes) / 2
	c.must(c.Lab().CutNetwork("data", c.nodes[:half], c.nodes[half:]))
	c.await(c.lost(), "the network is lost between the halves", func(v *observe.View) string {
		return observe.Networks(false, []string{"data"}, []string{c.nodes[0], c.nodes[len(c.nodes)-1]})(v)
	})
	c.hold(2*time.Second, "nobody moves", observe.Steady(began, c.nodes...), observe.Quiet(began, c.nodes...))
}

func (c *cluster) oneWay(began time.Time) {
	from, to := c.nodes[0], c.nodes[1]
	for _, network := range networks {
		c.must(c.Lab().CutOneWay(network, from, to))
	}
	c.await(c.lost(), "the two do not count each other", doesNotCount(from, to), doesNotCount(to, from))
	c.hold(2*time.Second, "everybody keeps quorum", observe.Steady(began, c.nodes...))
}

// doesNotCount holds when the observer does not count the node.
func doesNotCount(observer, node string) observe.Condition {
	return func(v *observe.View) string {
		for _, n := range v.Status[observer].GetNodes() {
			switch {
			case n.GetName() != node:
			case n.GetCounted():
				return observer + " counts " + node
			default:
				return ""
			}
		}
		return observer + " does not answer"
	}
}

func (c *cluster) lossy(began time.Time, percent float64) {
	for _, network := range networks {
		c.must(c.Lab().Loss(network, percent))
	}
	c.hold(10*time.Second, "nobody moves", observe.Steady(began, c.nodes...), observe.Quiet(began, c.nodes...))
}

func (c *cluster) crash(began time.Time) {
	last := c.nodes[len(c.nodes)-1]
	rest := without(c.nodes, last)
	c.must(c.Kill(last))
	c.await(c.lost(), "it is LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{last}, rest), observe.Left(last, "unreachable", rest...))
	c.must(c.Start(last))
	c.await(startLimit, "it is back", observe.Reported(began, fencingv1.EventType_JOIN, []string{last}, rest))
	c.hold(0, "nobody else moved", observe.Steady(began, rest...))
}

// quickCrash: an agent that is back before its absence is noticed is never reported as gone.
func (c *cluster) quickCrash(began time.Time) {
	last := c.nodes[len(c.nodes)-1]
	rest := without(c.nodes, last)
	c.must(c.Kill(last))
	c.must(c.Start(last))
	c.await(startLimit, "it is back", c.everybody())
	c.hold(2*time.Second, "nobody noticed", observe.Quiet(began, rest...), observe.Steady(began, rest...))
}

// reboot: a node that is back before its absence is noticed, but in another boot, has lost everything that ran on it.
func (c *cluster) reboot(began time.Time) {
	last := c.nodes[len(c.nodes)-1]
	rest := without(c.nodes, last)
	c.must(c.Reboot(last))
	v, _ := c.await(startLimit, "it was LEFT and has JOINed", observe.Reported(began, fencingv1.EventType_LEFT, []string{last}, rest),
		observe.Reported(began, fencingv1.EventType_JOIN, []string{last}, rest))
	for _, node := range rest {
		left := observe.FirstReport(v, began, fencingv1.EventType_LEFT, last, node)
		join := observe.FirstReport(v, began, fencingv1.EventType_JOIN, last, node)
		if join.At.Before(left.At) || join.Message.GetNode().GetPrevDisconnectTime() == nil {
			c.t.Errorf("%s sent JOIN before LEFT, or without the time of LEFT: %v", node, join.Message)
		}
	}
}

// leave: a node that is stopped while it is disarmed is LEFT at once, because it announces that.
func (c *cluster) leave(began time.Time) {
	last := c.nodes[len(c.nodes)-1]
	rest := without(c.nodes, last)
	c.must(os.WriteFile(c.DisablePath(last), nil, 0o644))
	c.await(patience, "it is disarmed", func(v *observe.View) string {
		if r := v.Status[last].GetVerdict().GetReason(); r != fencingv1.Reason_REASON_MAINTENANCE {
			return r.String()
		}
		return ""
	})
	c.hold(0, "it is there", observe.Quiet(began, rest...))
	c.must(c.Stop(last))
	c.await(patience, "it is LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{last}, rest), observe.Left(last, "leaving", rest...))
	c.must(os.Remove(c.DisablePath(last)))
	c.must(c.Start(last))
}

// rollingRestart restarts the agents like an upgrade: one at a time, and in large clusters only some of them. No node
// is LEFT anywhere.
func (c *cluster) rollingRestart(began time.Time) {
	some := c.nodes[:min(5, len(c.nodes))]
	for _, node := range some {
		c.must(c.Stop(node))
		c.must(c.Start(node))
		c.await(startLimit, node+" is back", c.everybody())
	}
	c.hold(2*time.Second, "nobody was LEFT", observe.NoLeft(began, c.nodes...))
	rest := slices.DeleteFunc(slices.Clone(c.nodes), func(n string) bool { return slices.Contains(some, n) })
	c.hold(0, "nobody moved", observe.Steady(began, rest...))
}

// restartUnderLoss: all nodes hear of a planned stop although a fifth of all packets is lost, and none reports LEFT for
// a node that is away for longer than evidence lasts.
func (c *cluster) restartUnderLoss(began time.Time) {
	last := c.nodes[len(c.nodes)-1]
	rest := without(c.nodes, last)
	for _, network := range networks {
		c.must(c.Lab().Loss(network, 20))
	}
	c.must(c.Stop(last))
	c.await(c.lost(), "it restarts", observe.InState(fencingv1.NodeState_NODE_STATE_RESTARTING, last, rest...))
	c.must(c.Start(last))
	c.await(startLimit, "it is back", c.everybody())
	c.hold(0, "nobody was LEFT", observe.NoLeft(began, rest...))
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestPolicyAll: if all networks are required, a node is excluded when it loses the first one.
func TestPolicyAll(t *testing.T) {
	need(t)
	c := newClusterIn(t, newDir(t), 4, lab.AgentConfig{Override: map[string]any{"reachability": "all"}})
	c.startAll()
	began := time.Now()
	rest := without(c.nodes, "n2")
	c.must(c.Lab().CutNetwork("data", []string{"n2"}, rest))
	c.await(c.lost(), "n2 is excluded", observe.Starving("n2"), observe.Counting(rest...),
		observe.Reported(began, fencingv1.EventType_LEFT, []string{"n2"}, rest))
	c.hold(time.Second, "the rest goes on", observe.Steady(began, rest...))
	c.must(c.Lab().Heal())
	c.await(startLimit, "n2 is back", c.everybody(), observe.Reported(began, fencingv1.EventType_JOIN, []string{"n2"}, rest))
}

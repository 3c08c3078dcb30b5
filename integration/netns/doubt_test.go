package netns

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
)

// crashes is the number of agents that are killed, one after the other.
const crashes = 5

// TestLeftByDoubt kills agents of groups that have doubts, and stops one agent twice: for less time than is tolerated,
// and for more.
func TestLeftByDoubt(t *testing.T) {
	need(t)
	ran := false
	for _, text := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < doubt.Least {
			continue
		}
		ran = true
		t.Run(text, func(t *testing.T) {
			c := newClusterIn(t, newDir(t), size, lab.AgentConfig{})
			c.startAll()
			c.hold(5*time.Second, "they measure the loss", observe.Quiet(time.Now(), c.nodes...))
			for i := range crashes {
				node := c.nodes[i%size]
				rest := without(c.nodes, node)
				began := time.Now()
				c.must(c.Kill(node))
				_, took := c.await(c.lost(), "it is LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{node}, rest))
				t.Logf("killed, and LEFT everywhere after %v", took.Round(10*time.Millisecond))
				c.must(c.Start(node))
				c.await(startLimit, "it is back", c.everybody())
			}
			last := c.nodes[size-1]
			rest := without(c.nodes, last)
			began := time.Now()
			c.standStill(last, time.Second)
			c.hold(2*time.Second, "a second is forgiven", observe.Quiet(began, rest...), observe.Steady(began, rest...))
			began = time.Now()
			c.standStill(last, 4*time.Second)
			c.await(startLimit, "four seconds are not, and it is back", observe.Reported(began, fencingv1.EventType_LEFT, []string{last}, rest),
				observe.Reported(began, fencingv1.EventType_JOIN, []string{last}, rest))
			c.hold(0, "nobody else moved", observe.Steady(began, rest...))
		})
	}
	if !ran {
		t.Skipf("groups of fewer than %d have no doubts: -sizes 9,15,30", doubt.Least)
	}
}

// standStill stops the agent of a node for a while.
func (c *cluster) standStill(node string, d time.Duration) {
	p := c.Process(node)
	c.must(p.Signal(syscall.SIGSTOP))
	<-time.After(d)
	c.must(p.Signal(syscall.SIGCONT))
}

package netns

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// oldEnv names the variable with the agent's program of an earlier version.
const oldEnv = "FENCING_OLD_AGENT"

// TestVersions: agents of an earlier version and of this one are in one group, in equal splits, with a node cut off,
// and upgraded in the middle of a split. Nothing unsafe happens. No node condemns itself here, because there is no
// watchdog.
func TestVersions(t *testing.T) {
	need(t)
	old := os.Getenv(oldEnv)
	if old == "" {
		t.Skipf("set %s to the agent's program of an earlier version (make test-versions)", oldEnv)
	}
	for name, nodes := range map[string][]string{
		"none of before":  {},
		"one of before":   {"n1"},
		"one of this":     {"n1", "n2", "n3"},
		"half and half":   {"n1", "n2"},
		"all but the end": {"n1", "n2", "n3", "n4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4, 512, nil)
			for _, node := range nodes {
				c.must(c.Use(node, old))
			}
			c.startAll()
			c.halves([]string{"n1", "n2"}, []string{"n3", "n4"}, nil)
			c.halves([]string{"n1", "n3"}, []string{"n2", "n4"}, nil)
			c.cutOff("n1")
			c.cutOff("n4")
			c.halves([]string{"n1", "n4"}, []string{"n2", "n3"}, nodes) // the nodes that are upgraded meanwhile
			c.halves([]string{"n1", "n2"}, []string{"n3", "n4"}, nil)
		})
	}
}

// halves makes an equal split of a mixed group. Exactly one half lives, whichever nodes are upgraded meanwhile.
func (c *cluster) halves(a, b, upgraded []string) {
	c.t.Helper()
	budget := c.budget()
	began := time.Now()
	c.must(c.Lab().Cut(a, b))
	c.always = observe.All(observe.OneSideGranted(began, a, b), fencedOnlyUnfed)
	_, took := c.await(lastFeed(budget), "exactly one half lives", observe.Decided(a, b))
	c.t.Logf("%s: decided after %v", strings.Join(a, "")+"|"+strings.Join(b, ""), took.Round(10*time.Millisecond))
	// A planned stop ends the grant, and both halves ask again as long as they may hold.
	c.hold(max(budget.GetDMax().AsDuration(), lastFeed(budget)-time.Since(began)), "it stays so", c.always, observe.Decided(a, b))
	for _, node := range upgraded {
		c.must(c.Stop(node))
		c.must(c.Use(node, ""))
		c.must(c.Start(node))
		c.await(startLimit, node+" answers", func(v *observe.View) string {
			if v.Status[node].GetVerdict() == nil {
				return node + " does not answer"
			}
			return ""
		})
		c.hold(5*time.Second, "nothing unsafe with "+node+" upgraded", c.always, notBoth(a, b))
	}
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody(), observe.LUNReady(c.nodes...))
	c.hold(0, "nobody was FENCED that is fed", c.always)
	c.always = nil
}

// notBoth holds while at most one half lives. A node that holds stops a heartbeat or two after it could read that the
// other half is granted (docs/lease.md, H3).
func notBoth(a, b []string) observe.Condition {
	const twoHeartbeats = 2 * time.Second
	at := func(v *observe.View, half []string, permissions ...fencingv1.Permission) bool {
		return slices.ContainsFunc(half, func(node string) bool {
			return slices.Contains(permissions, v.Status[node].GetVerdict().GetPermission())
		})
	}
	const feed, hold = fencingv1.Permission_PERMISSION_FEED, fencingv1.Permission_PERMISSION_HOLD
	var since time.Time // since when both halves have had a node that is fed
	return func(v *observe.View) string {
		if !at(v, a, feed, hold) || !at(v, b, feed, hold) {
			since = time.Time{}
			return ""
		}
		if since.IsZero() {
			since = v.Now
		}
		if at(v, a, feed) && at(v, b, feed) || v.Now.Sub(since) > twoHeartbeats {
			return fmt.Sprintf("both halves have a node that is fed, for %v: %s", v.Now.Sub(since), observe.Summary(v, slices.Concat(a, b)))
		}
		return ""
	}
}

// cutOff: one node loses all others, and gives way.
func (c *cluster) cutOff(node string) {
	c.t.Helper()
	rest := without(c.nodes, node)
	began := time.Now()
	c.must(c.Lab().Cut([]string{node}, rest))
	c.await(c.lost(), node+" does not live", observe.Counting(rest...), notFed(node))
	// It asks the LUN, on which older agents may write nothing, and holds no longer than it may.
	ends := lastFeed(c.budget()) - time.Since(began)
	c.hold(ends, "it does not live", notFed(node), observe.Steady(began, rest...), fencedOnlyUnfed)
	c.hold(15*time.Second, "it stays so", observe.Starving(node), observe.Steady(began, rest...), fencedOnlyUnfed)
	c.must(c.Lab().Heal())
	c.await(startLimit, "all are back", c.everybody(), observe.LUNReady(c.nodes...))
}

// notFed holds while a node does not report that it lives.
func notFed(node string) observe.Condition {
	return func(v *observe.View) string {
		if p := v.Status[node].GetVerdict(); p.GetPermission() == fencingv1.Permission_PERMISSION_FEED {
			return node + " is at " + observe.Verdict(v.Status[node])
		}
		return ""
	}
}

package netns

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/demo"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// TestDemoOnLoopDevices plays the demo's scenario on block devices.
func TestDemoOnLoopDevices(t *testing.T) {
	need(t)
	for _, size := range []int{2, 4, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			c := newCluster(t, size, []int{512, 4096}[size%2], nil)
			if err := demo.Walk(t.Context(), c.Agents, demo.Options{Out: os.Stdout}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIsolatedNode: the others report LEFT, and the lone node is no longer fed, both in time.
func TestIsolatedNode(t *testing.T) {
	need(t)
	c := newCluster(t, 4, 512, nil)
	c.startAll()
	budget := c.budget()
	rest := without(c.nodes, "n2")
	began := time.Now()
	c.must(c.Lab().Isolate("n2"))
	v, _ := c.await(budget.GetHorizonMajority().AsDuration()-budget.GetWatchdogTimeout().AsDuration()-budget.GetRelease().AsDuration(), "n2 is not fed any more",
		observe.Starving("n2"))
	at, _ := observe.Starved(v, began, "n2")
	t.Logf("n2 ceased to be fed after %v, D_max is %v", at.Sub(began), budget.GetDMax().AsDuration())
	v, _ = c.await(budget.GetHorizonMajority().AsDuration(), "the rest says LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{"n2"}, rest),
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, rest...), observe.Counting(rest...))
	t.Logf("LEFT after %v", observe.FirstReport(v, began, fencingv1.EventType_LEFT, "n2", "n1").At.Sub(began))
	c.must(c.Lab().Heal())
	c.await(startLimit, "n2 is back", c.everybody())
}

// TestPulledCables: a node that has no carrier on any network knows that at once.
func TestPulledCables(t *testing.T) {
	need(t)
	c := newCluster(t, 4, 512, nil)
	c.startAll()
	began := time.Now()
	for _, network := range networks {
		if err := c.Lab().LinkDown("n4", network); err != nil {
			t.Fatal(err)
		}
	}
	_, took := c.await(5*time.Second, "n4 sees its networks down", func(v *observe.View) string {
		for _, n := range v.Status["n4"].GetNetworks() {
			if n.GetUp() {
				return n.GetName() + " is up"
			}
		}
		return ""
	})
	t.Logf("seen down after %v", took)
	_, took = c.await(c.lost(), "n4 is not fed any more", observe.Starving("n4"))
	t.Logf("not fed any more %v after that", took)
	rest := without(c.nodes, "n4")
	c.await(startLimit, "the rest says LEFT", observe.Reported(began, fencingv1.EventType_LEFT, []string{"n4"}, rest))
	c.must(c.Lab().Heal())
	c.await(startLimit, "n4 is back", c.everybody())
}

// TestOneWayLink: two nodes between which only one direction works do not count each other, and both stay in the
// majority.
func TestOneWayLink(t *testing.T) {
	need(t)
	c := newCluster(t, 4, 512, nil)
	c.startAll()
	began := time.Now()
	for _, network := range networks {
		c.must(c.Lab().CutOneWay(network, "n1", "n2"))
	}
	c.await(2*c.budget().GetDMax().AsDuration(), "n1 and n2 do not count each other", func(v *observe.View) string {
		for _, n := range append(v.Status["n1"].GetNodes()[1:2:2], v.Status["n2"].GetNodes()[0]) {
			if n.GetCounted() {
				return n.GetName() + " is counted"
			}
		}
		return ""
	})
	c.hold(2*c.budget().GetDMax().AsDuration(), "everybody keeps quorum",
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...), observe.Steady(began, c.nodes...))
}

// TestLossyNetworks: a loss of a fifth of all packets on both networks has no effect.
func TestLossyNetworks(t *testing.T) {
	need(t)
	c := newCluster(t, 4, 512, nil)
	c.startAll()
	began := time.Now()
	for _, network := range networks {
		c.must(c.Lab().Loss(network, 20))
	}
	c.hold(20*time.Second, "nobody moves", observe.Steady(began, c.nodes...), observe.Quiet(began, c.nodes...))
}

// TestMetricsInside: the HTTP listener of a node answers only inside the node's namespace.
func TestMetricsInside(t *testing.T) {
	need(t)
	c := newCluster(t, 2, 4096, nil)
	c.startAll()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9110/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Lab().HTTPClient("n2").Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), "fencing_agent_has_quorum 1") {
		t.Errorf("metrics: %v\n%s", err, text)
	}
}

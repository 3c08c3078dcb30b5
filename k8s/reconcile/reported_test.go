package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// reporting is a world in which agents report deaths to a controller.
type reporting struct {
	*world
	r       *Reconciler
	reports map[string]*deaths.Report
	fail    map[string]error
}

func newReporting(t *testing.T) *reporting {
	p := &reporting{world: newWorld(t), reports: map[string]*deaths.Report{}, fail: map[string]error{}}
	p.r = p.reconciler(func(o *Options) {
		o.Reported = func(_ context.Context, node string) (*deaths.Report, error) { return p.reports[node], p.fail[node] }
	})
	return p
}

// report makes a controller receive a report in which the agent of a node calls n4 dead, or withdraws that.
func (p *reporting) report(node string, dead bool) {
	told := &deaths.Report{Node: node, Boot: deaths.Boot(otherID), Over: deaths.Digest(p.nodes[node].Annotations[deaths.Annotation]), Heard: p.now}
	if dead {
		told.Deaths = []deaths.Death{{Node: "n4", Boot: deadBoot, Proof: "time", At: noon, Said: deaths.Boot(otherID)}}
	}
	p.reports[node] = told
	p.r.index.report(node, told.Deaths)
}

// Deaths that are reported to a controller are believed by the same rules as those in annotations.
func TestReportedDeaths(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(p *reporting)
		taint bool
	}{
		{"two agents tell it", func(p *reporting) { p.report("n1", true); p.report("n2", true) }, true},
		{"one tells it, and one writes it", func(p *reporting) { p.report("n1", true); p.tell(p.r, "n2", true) }, true},
		{"one tells it", func(p *reporting) { p.report("n1", true) }, false},
		{"one tells it, and Ready is Unknown", func(p *reporting) { p.ready(corev1.ConditionUnknown); p.report("n1", true) }, true},
		{"one does both: it is one Node", func(p *reporting) { p.tell(p.r, "n1", true); p.report("n1", true) }, false},
		{"one that is not of the group", func(p *reporting) {
			p.nodes["n2"].Labels[groupLabel] = "other"
			p.report("n1", true)
			p.report("n2", true)
			p.show(p.r)
		}, false},
		{"the dead one itself", func(p *reporting) { p.report("n1", true); p.report("n4", true) }, false},
		{"one whose Node is gone", func(p *reporting) { delete(p.nodes, "n3"); p.report("n1", true); p.told("n3") }, false},
		{"another boot", func(p *reporting) {
			p.report("n1", true)
			p.report("n2", true)
			p.reports["n2"].Deaths[0].Boot = "124bc581b3a34be3"
		}, false},
		{"one took it back by telling, and its annotation is from before", func(p *reporting) {
			p.tell(p.r, "n1", true)
			p.report("n1", false)
			p.report("n2", true)
		}, false},
		{"one took it back by its annotation, and what it told is from before", func(p *reporting) {
			p.report("n1", true)
			p.tell(p.r, "n1", false)
			p.report("n2", true)
		}, false},
		{"one has not repeated it", func(p *reporting) {
			p.report("n1", true)
			p.reports["n1"].Heard = noon.Add(-time.Hour)
			p.report("n2", true)
		}, false},
		{"what one told cannot be read", func(p *reporting) {
			p.tell(p.r, "n1", true)
			p.fail["n1"] = fmt.Errorf("x: %w", deaths.ErrUnreadable)
			p.report("n2", true)
		}, false},
		{"what one told cannot be read, and two others tell it", func(p *reporting) {
			p.tell(p.r, "n1", true)
			p.fail["n1"] = fmt.Errorf("x: %w", deaths.ErrUnreadable)
			p.report("n2", true)
			p.report("n3", true)
		}, true},
		{"what one told is not known now", func(p *reporting) {
			p.tell(p.r, "n1", true)
			p.fail["n1"] = errors.New("etcdserver: request timed out")
			p.report("n2", true)
			p.report("n3", true)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newReporting(t)
			c.do(p)
			p.run(p.r, time.Minute)
			if (p.taint() != "") != c.taint {
				t.Errorf("taint %q", p.taint())
			}
		})
	}
}

// told makes a controller receive a report of a node without a Node.
func (p *reporting) told(node string) {
	p.reports[node] = &deaths.Report{Node: node, Boot: deaths.Boot(otherID), Heard: p.now, Deaths: []deaths.Death{{Node: "n4", Boot: deadBoot, Said: deaths.Boot(otherID)}}}
	p.r.index.report(node, p.reports[node].Deaths)
}

// A report that is not repeated withdraws nothing, so it is not a dispute. A report without the death withdraws it.
func TestReportedDeathsAreTakenBack(t *testing.T) {
	p := newReporting(t)
	p.report("n1", true)
	p.report("n2", true)
	p.run(p.r, time.Minute)
	p.wantEvents("DeathProven", "BarrierSet", "NodeReleased")
	p.now = p.now.Add(time.Hour)
	p.run(p.r, time.Minute)
	if slices.ContainsFunc(p.events, func(e string) bool { return strings.HasPrefix(e, "DeathDisputed") }) {
		t.Errorf("silence is taken for a withdrawal: %q", p.events)
	}
	p.report("n1", true)
	p.report("n2", false)
	p.run(p.r, time.Minute)
	p.wantEvents("DeathDisputed")
}

// Reports of agents are noticed when they come and go. Invalid ones, and those under another name, are ignored.
func TestReportsAreWatched(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(func(o *Options) { o.Logger = slog.New(slog.DiscardHandler) })
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	h := r.reports()
	text, err := deaths.EncodeReport(deaths.Report{Node: "n1", Boot: deadBoot, Heard: noon, Deaths: []deaths.Death{{Node: "n4", Boot: deadBoot, Proof: "time", At: noon}}})
	if err != nil {
		t.Fatal(err)
	}
	m := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{deaths.ReportLabel: value}}, Data: map[string]string{deaths.ReportKey: text}}
	}
	h.Create(t.Context(), event.CreateEvent{Object: m(deaths.ReportName("n1"), "true")}, q)
	h.Create(t.Context(), event.CreateEvent{Object: m(deaths.ReportName("n2"), deaths.ReportValue)}, q)
	if len(r.index.tellers("n4")) != 0 || q.Len() != 0 {
		t.Errorf("%q tell", r.index.tellers("n4"))
	}
	h.Create(t.Context(), event.CreateEvent{Object: m(deaths.ReportName("n1"), deaths.ReportValue)}, q)
	h.Update(t.Context(), event.UpdateEvent{ObjectNew: m(deaths.ReportName("n1"), deaths.ReportValue)}, q)
	if !slices.Equal(r.index.tellers("n4"), []string{"n1"}) || q.Len() != 1 {
		t.Errorf("%q tell, %d are to be looked at", r.index.tellers("n4"), q.Len())
	}
	h.Delete(t.Context(), event.DeleteEvent{Object: m(deaths.ReportName("n1"), deaths.ReportValue)}, q)
	if len(r.index.tellers("n4")) != 0 {
		t.Errorf("%q tell", r.index.tellers("n4"))
	}
}

// In any order of reports: the reporters of a node's death are the Nodes that name it in their annotation or report.
func TestRandomIndex(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 4))
	x := newIndex()
	wrote, told := map[string]map[string]bool{}, map[string]map[string]bool{}
	names := []string{"n1", "n2", "n3", "n4"}
	for range 5000 {
		node := names[r.IntN(4)]
		var list []deaths.Death
		set := map[string]bool{}
		for _, n := range names {
			if r.IntN(3) == 0 {
				list = append(list, deaths.Death{Node: n, Boot: deadBoot})
				set[n] = true
			}
		}
		switch r.IntN(5) {
		case 0:
			x.drop(node)
			delete(wrote, node)
		case 1, 2:
			x.put(node, "g", list)
			wrote[node] = set
		default:
			x.report(node, list)
			told[node] = set
		}
		for _, about := range names {
			var want []string
			for _, n := range names {
				if wrote[n][about] || told[n][about] {
					want = append(want, n)
				}
			}
			if got := x.tellers(about); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q tell of %s, want %q", seed, got, about, want)
			}
		}
	}
}

// People see which agents report a death to a controller, just as they see which write it as an annotation.
func TestReportedDeathsAreShown(t *testing.T) {
	p := newReporting(t)
	p.report("n1", true)
	p.tell(p.r, "n2", true)
	p.tell(p.r, "n1", true) // written before it told the controller: both count as one report, by one Node
	p.run(p.r, 3*time.Second)
	for _, n := range p.r.Picture().Nodes {
		if n.Name == "n4" && n.Tellers() == 2 {
			return
		}
	}
	t.Errorf("%+v", p.r.Picture().Nodes)
}

func TestOneReportedDeathIsShown(t *testing.T) {
	p := newReporting(t)
	p.report("n1", true)
	p.show(p.r)
	for _, n := range p.r.Picture().Nodes {
		if n.Name == "n4" && n.Tellers() == 1 {
			return
		}
	}
	t.Errorf("%+v", p.r.Picture().Nodes)
}

package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/clusterpage"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// clusterOf returns what a replica knows of a healthy cluster, in groups of at most 75 nodes.
func clusterOf(nodes int) *reconcile.Picture {
	p := &reconcile.Picture{
		At: time.Now(), Self: "fencing-controller-7d9f-x2k4p", Groups: map[string][]string{}, Storm: storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 40},
		Replicas: []reconcile.Replica{{Name: "fencing-controller-7d9f-x2k4p", Node: "node-1"}, {Name: "fencing-controller-7d9f-z8w2m", Node: "node-3"}},
	}
	for i := range nodes {
		group := fmt.Sprintf("group-%d", 1+i/75)
		p.Groups[group] = append(p.Groups[group], fmt.Sprintf("node-%d", i+1))
	}
	return p
}

// withDeaths adds the events of a bad night.
func withDeaths(p *reconcile.Picture) *reconcile.Picture {
	now := p.At
	told := func(by, boot, proof string) deaths.Death {
		return deaths.Death{By: by, Boot: boot, Proof: proof, At: now.Add(-20 * time.Second)}
	}
	p.Nodes = []reconcile.NodePicture{
		{Name: "node-2", Group: "group-1", Phase: recovery.InDispute, Since: now.Add(-2 * time.Minute), Text: "its kubelet was heard under the boot that was called dead: nothing is done", Told: []deaths.Death{told("node-1", "124bc581b3a34be3", "time")}},
		{Name: "node-3", Group: "group-1", Phase: recovery.Proven, Since: now.Add(-4 * time.Second), Text: "evictions from node-4 have to end first", Told: []deaths.Death{told("node-1", "224bc581b3a34be3", "sentence"), told("node-2", "224bc581b3a34be3", "sentence")}},
		{Name: "node-4", Group: "group-1", Phase: recovery.Draining, Since: now.Add(-9 * time.Second), Text: "7 pods are not evicted yet", Left: 7, Tainted: true, Told: []deaths.Death{told("node-1", "024bc581b3a34be3", "sentence"), told("node-2", "024bc581b3a34be3", "sentence")}},
	}
	p.Evicting = map[string]time.Time{"node-4": now.Add(-9 * time.Second)}
	return p
}

// TestTheClustersPage: the page loads without errors and changes by itself soon after a death, with 4 and with 300
// nodes.
func TestTheClustersPage(t *testing.T) {
	var dead atomic.Bool
	var nodes atomic.Int32
	nodes.Store(4)
	mux := http.NewServeMux()
	clusterpage.Register(mux, clusterpage.Config{Version: "v0.1.0", Picture: func() *reconcile.Picture {
		if dead.Load() {
			return withDeaths(clusterOf(int(nodes.Load())))
		}
		return clusterOf(int(nodes.Load()))
	}})
	srv := httptest.NewServer(mux)
	defer func() { srv.CloseClientConnections(); srv.Close() }() // the page keeps one connection open
	b := open(t)
	b.show(srv.URL)
	b.waitFor("h1", "nobody calls any of 4 nodes dead", slow)
	b.waitFor("#replicas", "this page is its", slow)
	dead.Store(true)
	died := time.Now()
	b.waitFor("h1", "3 of 4 nodes: 1 proven, 1 draining, 1 disputed", slow)
	t.Logf("the page showed a death after %v", time.Since(died))
	b.waitFor("#dead", "proof sentence: node-1 at", slow)
	b.shot("controller", true)
	if kind := eval[string](b, `document.querySelector("h1").className`); kind != "bad" {
		t.Errorf("a dispute is %q", kind)
	}
	nodes.Store(300)
	b.show(srv.URL)
	b.waitFor("h1", "3 of 300 nodes", slow)
	chips := eval[int](b, `document.querySelectorAll(".chips li").length`)
	if wide := eval[bool](b, `document.documentElement.scrollWidth > window.innerWidth`); chips != 300 || wide {
		t.Errorf("%d nodes, too wide: %v", chips, wide)
	}
	b.check()
}

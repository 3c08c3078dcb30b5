package members

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// follows begins the stream of an agent, and returns its first update.
func follows(t *testing.T, h *Hub, node string) (*pipe, *fencingv1.MembersUpdate) {
	t.Helper()
	p, _ := call(t, h, node, nil)
	p.reports <- &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": "10.0.0.1"}}
	return p, <-p.updates
}

func finding(node string) deaths.Death {
	return deaths.Death{Node: node, Boot: "024bc581b3a34be3", Proof: nodefence.ByPower, Reference: fencing.NameOf(node), At: time.Unix(1000, 0).UTC()}
}

// Agents receive the findings about other nodes of their group when they connect and when the findings change, and
// nothing in between. Guards: they receive none about their own node or another group, and no more than they read.
func TestFindingsAreTold(t *testing.T) {
	h := NewHub()
	for _, n := range []string{"n1", "n2", "n4"} {
		h.Seen(n, there("g", nil))
	}
	h.Seen("m1", there("h", nil))
	h.Synced()
	h.Found([]deaths.Death{finding("m1"), finding("n2"), finding("n4"), finding("unknown")})
	p, u := follows(t, h, "n2")
	d := u.GetFound().GetDeaths()
	if len(d) != 1 || d[0].GetNode() != "n4" || d[0].GetBoot() != "024bc581b3a34be3" || d[0].GetProof() != "power" || d[0].GetReference() != "node-fence-n4" || d[0].GetAt() != 1000 || d[0].GetContradicted() {
		t.Errorf("%v", d)
	}
	h.Found([]deaths.Death{finding("n4"), finding("n2"), finding("m1")}) // for this agent nothing has changed
	back := finding("n4")
	back.Contradicted = true
	h.Found([]deaths.Death{back})
	asked := time.Now()
	u = <-p.updates
	if d := time.Since(asked); d > heartbeat/2 {
		t.Errorf("it was told after %v", d)
	}
	if d := u.GetFound().GetDeaths(); len(d) != 1 || !d[0].GetContradicted() {
		t.Errorf("%v", d)
	}
	h.Found(nil)
	if u := <-p.updates; u.GetFound() == nil || len(u.GetFound().GetDeaths()) != 0 {
		t.Errorf("%v", u)
	}
	h.Found(nil)
	p.reports <- &fencingv1.MembersReport{Group: "g"} // nothing has changed

	var many []deaths.Death
	for i := range 100 {
		n := fmt.Sprintf("n%d", 100+i)
		h.Seen(n, there("g", nil))
		many = append(many, finding(n))
	}
	h.Found(many)
	if d := (<-p.updates).GetFound().GetDeaths(); len(d) != deaths.Most {
		t.Errorf("%d", len(d))
	}
	fresh := hubOf(t, "n1")
	if _, u := follows(t, fresh, "n1"); u.GetFound() != nil {
		t.Errorf("nothing was read: %v", u)
	}
	fresh.Found(nil)
	if _, u := follows(t, fresh, "n1"); u.GetFound() == nil || len(u.GetFound().GetDeaths()) != 0 {
		t.Errorf("nothing was found: %v", u)
	}
}

// Guards: a replica that no longer reads NodeFences sends no agent the findings of an earlier reading. Findings that
// are read again are sent at once.
func TestFindingsGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hubOf(t, "n1", "n4")
		s, _, ok := h.follow("n1", "g")
		if !ok {
			t.Fatal("n1 does not follow")
		}
		for range 60 {
			h.Found([]deaths.Death{finding("n4")})
			time.Sleep(time.Minute) // in the bubble's time
			if v := h.view(s); len(v.found) != 1 {
				t.Fatalf("%+v", v.found)
			}
		}
		<-s.wake
		time.Sleep(2 * time.Minute)
		if v := h.view(s); len(v.found) != 0 {
			t.Errorf("after minutes: %+v", v.found)
		}
		h.Found([]deaths.Death{finding("n4")})
		if v := h.view(s); len(v.found) != 1 || len(s.wake) != 1 {
			t.Errorf("read again: %+v, %d", v.found, len(s.wake))
		}
	})
}

// Guard: if there are more findings than agents read, those that are taken back come first: an agent that believed one
// must hear this.
func TestWhatIsTakenBackComesFirst(t *testing.T) {
	h := hubOf(t, "a1")
	var many []deaths.Death
	for i := range 100 {
		f := finding(fmt.Sprintf("n%d", 100+i))
		f.Contradicted = i == 99
		h.Seen(f.Node, there("g", nil))
		many = append(many, f)
	}
	h.Found(many)
	s, _, _ := h.follow("a1", "g")
	if v := h.view(s); len(v.found) != deaths.Most || v.found[0].Node != "n199" || !v.found[0].Contradicted || v.found[1].Node != "n100" {
		t.Errorf("%+v", v.found)
	}
}

// hubOf knows some Nodes of one group.
func hubOf(t *testing.T, nodes ...string) *Hub {
	t.Helper()
	h := NewHub()
	for _, n := range nodes {
		h.Seen(n, there("g", nil))
	}
	h.Synced()
	return h
}

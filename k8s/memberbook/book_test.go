package memberbook

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// at returns the addresses of a node.
func at(name string) Addresses {
	var n int
	_, _ = fmt.Sscanf(name, "n%d", &n)
	return Addresses{"a": fmt.Sprintf("10.0.0.%d", n), "b": fmt.Sprintf("10.0.1.%d", n)}
}

func reportsOf(names ...string) map[string]Addresses {
	out := map[string]Addresses{}
	for _, n := range names {
		out[n] = at(n)
	}
	return out
}

func nodes(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("n%d", i))
	}
	return out
}

func bookOf(epoch uint64, names ...string) *Book {
	b := &Book{Group: "g", Epoch: epoch, Reports: reportsOf(names...)}
	for _, n := range slices.Sorted(slices.Values(names)) {
		b.Members = append(b.Members, roster.Member{Name: n, Addresses: at(n)})
	}
	return b
}

func step(b *Book, f Facts) Outcome {
	f.Group = "g"
	return Step(b, f, new(Doubt))
}

func TestStep(t *testing.T) {
	for _, c := range []struct {
		name    string
		book    *Book
		facts   Facts
		epoch   uint64 // the epoch that is written; 0: nothing is written
		members int
		again   bool
		problem string
	}{
		{name: "nothing is known", facts: Facts{Wall: 100}, problem: "no Node has the label"},
		{name: "the first list is complete", facts: Facts{Wall: 100, Nodes: nodes(1, 3), Reports: reportsOf("n1", "n2")}, problem: "first list has to be complete"},
		{name: "first list", facts: Facts{Wall: 100, Nodes: nodes(1, 3), Reports: reportsOf(nodes(1, 3)...)}, epoch: 100, members: 3},
		{name: "nothing changes", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3)}},
		{name: "the clock goes back", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 50, Nodes: nodes(1, 4), Reports: reportsOf("n4")}, epoch: 101, members: 4},
		{name: "the book was lost", facts: Facts{Wall: 200, Floor: 150, Nodes: nodes(1, 3), Reports: reportsOf(nodes(1, 3)...)}, epoch: 200, members: 3},
		{name: "an old book came back", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 120, Floor: 150, Nodes: nodes(1, 3)}, epoch: 151, members: 3},
		{name: "one without addresses is left out", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 4)}, problem: "left out"},
		{name: "one leaves", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 2)}, again: true, problem: "shown for a while"},
		{name: "most leave", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 1)}, problem: "at most half of the members"},
		{name: "all leave", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200}, problem: "no Node has the label"},
		{name: "an address moves", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3), Reports: map[string]Addresses{"n1": at("n9")}}, epoch: 200, members: 3},
		{name: "an address twice", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3), Reports: map[string]Addresses{"n1": at("n2")}}, members: -1, problem: "the same address"},
		{name: "other networks", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3), Reports: map[string]Addresses{"n1": {"a": "10.0.0.1"}}}, members: -1, problem: "same systemNetworks"},
		{name: "another family", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3), Reports: map[string]Addresses{"n1": {"a": "fd00::1", "b": "10.0.1.1"}}}, members: -1, problem: "one family"},
		{name: "a stranger tells", book: bookOf(100, nodes(1, 3)...), facts: Facts{Wall: 200, Nodes: nodes(1, 3), Reports: reportsOf("n7")}},
	} {
		o := step(c.book, c.facts)
		switch {
		case c.epoch == 0 && c.members == 0 && o.Write != nil && o.Write.Epoch != 0 && (c.book == nil || o.Write.Epoch != c.book.Epoch):
			t.Errorf("%s: writes epoch %d", c.name, o.Write.Epoch)
		case c.epoch > 0 && (o.Write == nil || o.Write.Epoch != c.epoch || len(o.Write.Members) != c.members):
			t.Errorf("%s: writes %+v, want epoch %d of %d", c.name, o.Write, c.epoch, c.members)
		case c.members < 0 && (o.Write == nil || o.Write.Epoch != c.book.Epoch): // the reports are stored, and the list as well
			t.Errorf("%s: writes %+v", c.name, o.Write)
		}
		if (o.Again > 0) != c.again || !strings.Contains(o.Problem, c.problem) || c.problem == "" && o.Problem != "" {
			t.Errorf("%s: again %v, problem %q", c.name, o.Again, o.Problem)
		}
	}
}

// A list that removes members counts when it was shown for a while, and the removed members are remembered.
func TestRemovalHasToBeShownForAWhile(t *testing.T) {
	b, d := bookOf(100, nodes(1, 4)...), new(Doubt)
	look := func(now time.Duration, names ...string) Outcome {
		return Step(b, Facts{Group: "g", Nodes: names, Wall: 200, Now: now}, d)
	}
	if o := look(0, "n1", "n2", "n3"); o.Write != nil || o.Again != Patience {
		t.Fatalf("%+v", o)
	}
	// The removal of another member begins the wait again.
	if o := look(Patience-time.Second, "n1", "n2", "n4"); o.Write != nil || o.Again != Patience {
		t.Fatalf("%+v", o)
	}
	if o := look(Patience, "n1", "n2", "n3", "n4"); o.Write != nil || o.Again != 0 { // the removal is undone
		t.Fatalf("%+v", o)
	}
	look(Patience, "n1", "n2", "n3")
	o := look(2*Patience, "n1", "n2", "n3")
	if o.Write == nil || o.Write.Epoch != 200 || !slices.Equal(o.Write.Former, []string{"n4"}) || o.Write.Reports["n4"] == nil {
		t.Fatalf("%+v", o)
	}
	b = o.Write
	if o := Step(b, Facts{Group: "g", Nodes: nodes(1, 4), Reports: reportsOf("n4"), Wall: 300}, d); o.Write == nil || len(o.Write.Former) != 0 || o.Write.Epoch != 300 {
		t.Errorf("%+v", o.Write)
	}
}

// world is two replicas over one book that is written by compare-and-swap, and agents behind either of them.
type world struct {
	rng      *rand.Rand
	now      time.Duration
	wall     int64
	book     *Book // as the API server has it
	version  int
	names    []string // Nodes of the group
	replicas [2]replica
	lost     uint64 // the highest epoch of a book that was lost
	served   map[uint64]uint64
	agents   []*agent
}

type replica struct {
	floor   uint64
	doubt   Doubt
	served  *Book // what its watch has shown, which may be old
	read    *Book // a write that is under way: what was read
	nodes   []string
	version int
	busy    bool
}

type agent struct {
	gate    Gate
	self    string
	present *roster.Roster
	taken   []roster.Ref
}

// Random schedules of two replicas that pause between reading and writing, lose their memory, serve old books, and lose
// a book. No two lists ever have one epoch, and no later list has a lower one. The epoch that agents accept only rises.
// Each list that they accept was written by a replica, and never lacks more than half of the list before.
func TestReplicasThatDisagree(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(300) {
		if !t.Run(fmt.Sprintf("seed=%d", seed+run), func(t *testing.T) { disagree(t, seed+run) }) {
			return
		}
	}
}

func disagree(t *testing.T, seed uint64) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), wall: 1000, names: nodes(1, 6), served: map[uint64]uint64{}}
	for _, n := range w.names {
		w.agents = append(w.agents, &agent{self: n, gate: Gate{Group: "g", Self: n}})
	}
	for range 400 {
		step := time.Duration(w.rng.IntN(10)) * time.Second
		w.now += step
		w.wall += int64(step / time.Second)
		switch w.rng.IntN(12) {
		case 0: // a Node comes, or goes
			n := fmt.Sprintf("n%d", 1+w.rng.IntN(9))
			if i := slices.Index(w.names, n); i >= 0 && len(w.names) > 2 {
				w.names = slices.Delete(slices.Clone(w.names), i, i+1)
			} else if i < 0 {
				w.names = append(slices.Clone(w.names), n)
			}
		case 1: // the book is lost, some seconds after it was written
			if w.book != nil && w.book.Epoch < uint64(w.wall) && w.rng.IntN(4) == 0 {
				w.lost = max(w.lost, w.book.Epoch)
				w.book = nil
				w.version++
			}
		case 2: // a replica is killed
			w.replicas[w.rng.IntN(2)] = replica{served: w.book}
		case 3, 4, 5: // a watch shows the present book
			r := &w.replicas[w.rng.IntN(2)]
			if r.served = w.book; w.book != nil {
				r.floor = max(r.floor, w.book.Epoch)
			}
		case 6, 7, 8:
			w.scribe(t, &w.replicas[w.rng.IntN(2)])
		default:
			w.follow(t, w.agents[w.rng.IntN(len(w.agents))], w.replicas[w.rng.IntN(2)].served)
		}
	}
}

// scribe reads, or writes what it read a while ago.
func (w *world) scribe(t *testing.T, r *replica) {
	if !r.busy {
		r.read, r.version, r.nodes, r.busy = w.book, w.version, w.names, true
		return
	}
	r.busy = false
	o := Step(r.read, Facts{Group: "g", Nodes: r.nodes, Reports: reportsOf(nodes(1, 9)...), Floor: r.floor, Wall: w.wall, Now: w.now}, &r.doubt)
	if o.Write == nil || r.version != w.version {
		return
	}
	last := w.lost
	if w.book != nil {
		last = max(last, w.book.Epoch)
	}
	ref, err := roster.Of(o.Write.Epoch, o.Write.Members, "")
	if err != nil {
		t.Fatalf("writes no list: %v", err)
	}
	if was, there := w.served[ref.Epoch]; there && was != ref.Digest {
		t.Fatalf("epoch %d is that of two lists", ref.Epoch)
	}
	if ref.Epoch < last || ref.Epoch == last && w.served[ref.Epoch] != ref.Digest {
		t.Fatalf("epoch %d after %d", ref.Epoch, last)
	}
	w.served[ref.Epoch] = ref.Digest
	w.book = o.Write
	w.version++
}

func (w *world) follow(t *testing.T, a *agent, b *Book) {
	if b == nil || b.Epoch == 0 {
		return
	}
	r, err := roster.Of(b.Epoch, b.Members, a.self)
	if err != nil {
		t.Fatal(err)
	}
	o := &Offer{Group: "g", Epoch: b.Epoch, Digest: r.Digest, Members: b.Members}
	if why, _, _ := a.gate.Look(o, Here{Own: at(a.self), Present: a.present, Now: boottime.Instant(w.now + 1), Wall: w.wall}); why != Taken {
		return
	}
	if n := len(a.taken); n > 0 && (r.Epoch < a.taken[n-1].Epoch || r.Epoch == a.taken[n-1].Epoch && r.Digest != a.taken[n-1].Digest) {
		t.Fatalf("%s takes %v after %v", a.self, r.Ref(), a.taken[n-1])
	}
	if digest, there := w.served[r.Epoch]; !there || digest != r.Digest {
		t.Fatalf("%s takes %v, which nobody has written", a.self, r.Ref())
	}
	if a.present != nil {
		left := 0
		for _, m := range a.present.Members {
			if _, there := r.Index(m.Name); there {
				left++
			}
		}
		if 2*left < a.present.Size() {
			t.Fatalf("%s takes a list with %d of %d", a.self, left, a.present.Size())
		}
	}
	a.taken, a.present = append(a.taken, r.Ref()), r
}

// Guard: numbers continue above the one that most agents have, and a single agent that lies does not raise them.
func TestWhatMostAgentsHave(t *testing.T) {
	for _, c := range []struct {
		have    []uint64
		members int
		want    uint64
	}{
		{nil, 3, 0}, {[]uint64{9}, 3, 0}, {[]uint64{9}, 2, 9}, {[]uint64{9}, 1, 9}, {[]uint64{9, 5}, 4, 5}, {[]uint64{5, 9, 9}, 5, 9}, {[]uint64{9, 5, 5}, 3, 5},
		{[]uint64{5, 9, 1 << 40, 9}, 4, 9}, {[]uint64{1 << 40, 1 << 40}, 2, 0},
	} {
		if got := mostHave(c.have, c.members); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.have, c.members, got, c.want)
		}
	}
	b := bookOf(100, nodes(1, 3)...)
	o := Step(b, Facts{Group: "g", Nodes: nodes(1, 3), Wall: 200, Have: []uint64{5000, 5000, 100}}, new(Doubt))
	if o.Write == nil || o.Write.Epoch != 5001 || len(o.Write.Members) != 3 {
		t.Errorf("%+v", o)
	}
	if o := Step(o.Write, Facts{Group: "g", Nodes: nodes(1, 3), Wall: 201, Have: []uint64{5000, 5000, 100}}, new(Doubt)); o.Write != nil {
		t.Errorf("written again: %+v", o.Write)
	}
}

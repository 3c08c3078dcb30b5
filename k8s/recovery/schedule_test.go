package recovery

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// replica is one controller: a machine for each node, and at most one request under way for each.
type replica struct {
	name     string
	offset   time.Duration // the offset of its clock
	pace     *storm.Pace
	machines map[string]*Machine
	calls    map[string]*call
	backAt   time.Time // after a crash
	maxDead  int       // storm.maxDeadPercent; 0: 100
}

type call struct {
	request        Request
	asked          time.Time
	arrives, comes time.Time
	carried, lost  bool // carried out; lost on the way there
	answer         Reply
	silent         bool // the answer is lost
	gaveUp, unsent bool // gaveUp: its deadline has passed; unsent: before it was sent
}

func (w *world) replicaTick(c *replica, s belief.Settings) {
	if w.now.Before(c.backAt) {
		return
	}
	if c.machines == nil {
		c.machines, c.calls = map[string]*Machine{}, map[string]*call{}
		c.pace = storm.New(storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: cmp.Or(c.maxDead, 100)})
	}
	now := w.now.Add(c.offset)
	for _, n := range w.nodes {
		m := c.machines[n.name]
		if m == nil {
			m = New(Settings{Settle: time.Second}, n.name, c.pace)
			c.machines[n.name] = m
		}
		if w.chance(0.5) {
			m.Poke()
		}
		if k := c.calls[n.name]; k != nil {
			w.carry(k, n, s)
			if w.now.Before(k.comes) {
				continue
			}
			delete(c.calls, n.name)
			if k.gaveUp {
				w.giveUp(k, n.name)
			}
			wrote := k.request.Kind >= SetTaint
			m.Done(k.asked, now, k.answer)
			if w.faults && (wrote && w.r.IntN(10) == 0 || w.chance(0.02)) {
				w.crash(c)
				return
			}
		}
		if r := m.Next(now); r.Kind != Wait {
			c.calls[n.name] = w.call(r, now)
		}
	}
}

// crash ends a replica between any two requests. What it has sent may still arrive.
func (w *world) crash(c *replica) {
	w.log("%s crashes", c.name)
	for name, k := range c.calls {
		if !k.carried && w.r.IntN(2) == 0 {
			w.carryAt = append(w.carryAt, late{k, name})
		}
	}
	c.machines, c.backAt = nil, w.now.Add(w.span(0, 6*time.Second))
}

// call sends a request. It is sometimes slow on the way there or back; then its answer is old.
func (w *world) call(r Request, asked time.Time) *call {
	k := &call{request: r, asked: asked}
	k.arrives = w.now.Add(w.span(0, 60*time.Millisecond))
	if w.faults && w.r.IntN(15) == 0 {
		k.arrives = w.now.Add(w.span(0, 4*time.Second))
	}
	k.comes = k.arrives.Add(w.span(0, 60*time.Millisecond))
	if w.faults && w.r.IntN(15) == 0 {
		k.comes = k.arrives.Add(w.span(0, 4*time.Second))
	}
	if w.faults && w.r.IntN(25) == 0 {
		k.lost, k.silent = w.r.IntN(2) == 0, true
	}
	// At the deadline the replica stops waiting. A request that was sent before may still arrive.
	if left := r.Deadline.Sub(asked); !r.Deadline.IsZero() && k.comes.Sub(w.now) > left {
		k.comes, k.gaveUp, k.unsent = w.now.Add(left), true, k.arrives.Sub(w.now) > left && w.r.IntN(2) == 0
	}
	return k
}

// giveUp does what a replica does at the deadline of a request.
func (w *world) giveUp(k *call, node string) {
	k.answer = Reply{Outcome: Failed, Error: "deadline"}
	switch {
	case k.unsent:
		k.answer = Reply{Outcome: Late}
	case !k.carried:
		w.carryAt = append(w.carryAt, late{&call{request: k.request, arrives: k.arrives, lost: k.lost}, node})
	}
}

// carry has the API server do what was asked, when the request arrives.
func (w *world) carry(k *call, n *simNode, s belief.Settings) {
	if k.carried || k.unsent || w.now.Before(k.arrives) {
		return
	}
	k.carried = true
	k.lost = k.lost || w.down
	if !k.lost {
		k.answer = w.serve(k.request, n, s)
	}
	if k.lost || k.silent {
		k.answer = Reply{Outcome: Failed, Error: "no answer"}
	}
}

func (w *world) serve(r Request, n *simNode, s belief.Settings) Reply {
	switch r.Kind {
	case ReadPods:
		if w.faults && w.r.IntN(8) == 0 { // a cache
			return Reply{Pods: w.history[w.r.IntN(len(w.history))][n.name]}
		}
		return Reply{Pods: w.shown(n.name)}
	case ReadNode:
		if !n.exists {
			return Reply{}
		}
		return Reply{Node: Node{
			Exists: true, UID: strconv.Itoa(n.uid), Version: strconv.Itoa(n.version), Boot: n.boot, Ready: n.ready == "True",
			Unknown: n.ready == "Unknown", Tainted: n.tainted, Taint: n.taint, Note: n.note, Heartbeat: strconv.Itoa(n.heartbeat),
		}}
	case ReadReporters:
		return w.reporters(r, n, s)
	case ReadLease:
		return Reply{Lease: Lease{true, strconv.Itoa(n.leaseVersion), n.renewed.Add(-n.behind), leaseDuration}}
	case SetTaint, RemoveTaint:
		if !n.exists || strconv.Itoa(n.uid) != r.UID || strconv.Itoa(n.version) != r.Version {
			return Reply{Outcome: Conflict}
		}
		n.tainted, n.taint, n.version = r.Kind == SetTaint, r.Value, w.bump()
		w.log("taint %q on %s", r.Value, n.name)
		if r.Kind == SetTaint {
			w.tainted++
		} else {
			w.untaint++
		}
		return Reply{}
	case SetNote:
		if w.faults && w.noNotes { // by an admission policy, or a webhook
			return Reply{Outcome: Failed, Error: "refused"}
		}
		if !n.exists || strconv.Itoa(n.uid) != r.UID || strconv.Itoa(n.version) != r.Version {
			return Reply{Outcome: Conflict}
		}
		n.note, n.version = r.Value, w.bump()
		w.log("note %q on %s", r.Value, n.name)
		return Reply{}
	default:
		return w.delete(r)
	}
}

func (w *world) delete(r Request) Reply {
	uid, _ := strconv.Atoi(r.Pod.UID)
	p := w.byOrdinal(ordinal(r.Pod.Name))
	switch {
	case p == nil:
		return Reply{Outcome: Missing}
	case p.uid != uid || strconv.Itoa(p.version) != r.Pod.Version:
		return Reply{Outcome: Conflict}
	}
	w.deleted++
	if p.deleting, p.forced, p.version = true, true, w.bump(); !p.finalizer {
		w.remove(p, "a controller")
	}
	return Reply{}
}

func ordinal(name string) int {
	o, _ := strconv.Atoi(strings.TrimPrefix(name, "db-"))
	return o
}

func (w *world) reporters(r Request, n *simNode, s belief.Settings) Reply {
	q := belief.Question{Node: n.name, Group: "worker", Boot: r.Boot, GroupSize: len(w.nodes), Unknown: r.Unknown, Before: r.Before}
	var nodes []belief.Node
	dead := 1
	for _, o := range w.nodes {
		if !o.exists {
			continue
		}
		if o != n && o.tainted {
			dead++
		}
		b := belief.Node{Name: o.name, Group: "worker", Boot: o.boot, Fresh: w.now.Sub(o.renewed.Add(-o.behind)) <= leaseDuration/2}
		b.Ended = WordOf(o.boot, o.note, []string{o.taint}, nil) != Word{}
		for d, said := range o.told {
			b.Deaths = append(b.Deaths, deaths.Death{Node: d[0], Boot: d[1], Said: said, Proof: "time"})
		}
		nodes = append(nodes, b)
	}
	w.lie(&q, n)
	return Reply{Verdict: belief.Judge(s, q, nodes), Group: Group{"worker", len(w.nodes), dead}}
}

func (w *world) shown(node string) []Pod {
	var list []Pod
	for _, p := range w.podsOf(node) {
		list = append(list, Pod{
			Name: fmt.Sprintf("db-%d", p.ordinal), UID: strconv.Itoa(p.uid), Version: strconv.Itoa(p.version),
			Tolerates: p.tolerates, Deleting: p.deleting, Forced: p.forced,
		})
	}
	return list
}

func (w *world) snapshot() {
	all := map[string][]Pod{}
	for _, n := range w.nodes {
		all[n.name] = w.shown(n.name)
	}
	if w.history = append(w.history, all); len(w.history) > 60 {
		w.history = w.history[1:]
	}
}

type late struct {
	call *call
	node string
}

// lie makes the boards of some boots report off while they run, and two or more agents see that very boot and report
// it: otherwise nothing could reveal the error.
func (w *world) lie(q *belief.Question, n *simNode) {
	if !w.faults || !n.on || !n.gossip || n.real != q.Boot {
		return
	}
	lies, known := w.boards[q.Boot]
	if !known {
		if lies = w.r.IntN(4) == 0; w.boards == nil {
			w.boards = map[string]bool{}
		}
		w.boards[q.Boot] = lies
	}
	for _, o := range w.nodes {
		if lies && o != n && o.on && o.gossip {
			q.Seen = append(q.Seen, o.name)
		}
	}
	if q.Power = len(q.Seen) > 1; q.Power {
		w.withheld++
	} else {
		q.Seen = nil
	}
}

func (w *world) lateCalls(s belief.Settings) {
	w.carryAt = slices.DeleteFunc(w.carryAt, func(l late) bool {
		w.carry(l.call, w.nodeNamed(l.node), s)
		return l.call.carried
	})
}

// schedule runs one seed: two minutes of faults, then three of calm.
func schedule(seed uint64) *world {
	w := newWorld(seed)
	s := belief.Settings{MinReporters: 2, Unknown: true}
	if w.r.IntN(3) == 0 {
		w.nodes[w.r.IntN(len(w.nodes))].liar, s.Unknown = true, false
	}
	if w.r.IntN(3) == 0 {
		w.nodes[w.r.IntN(len(w.nodes))].behind = w.span(0, 2*leaseDuration)
	}
	w.noNotes = seed%4 == 0
	replicas := []*replica{{name: "a"}, {name: "b"}}
	for _, c := range replicas {
		c.offset = w.span(0, 8*time.Second) - 4*time.Second
	}
	run := func(d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end) && len(w.problems) == 0; {
			w.step()
			w.lateCalls(s)
			for _, c := range replicas {
				if w.crashAll && c.machines != nil {
					w.crash(c)
				}
			}
			w.crashAll = false
			for _, c := range replicas {
				w.replicaTick(c, s)
			}
		}
	}
	run(2 * time.Minute)
	w.faults, w.kcm = false, true
	for _, n := range w.nodes {
		n.refusesPatch, n.liar, n.behind = false, false, 0
		if n.on && !n.patched {
			continue
		}
		if n.on && n.boot != n.real { // its kubelet may report it at last
			n.boot, n.version = n.real, w.bump()
		}
	}
	run(4 * time.Minute)
	w.settled()
	return w
}

// settled checks the calm state: all ordinals run, and no taint is left except where a person has to look.
func (w *world) settled() {
	if len(w.problems) > 0 {
		return
	}
	for o := range w.ordinals {
		if !slices.ContainsFunc(w.running, func(c *container) bool { return c.ordinal == o }) {
			p := w.byOrdinal(o)
			w.problem("db-%d does not run in calm: %+v, attached to %q", o, p, w.attached[o])
		}
	}
	for _, n := range w.nodes {
		boot, inDispute := BootOf(n.taint)
		if n.tainted && (!inDispute || boot != n.boot) {
			w.problem("%s has the taint %q in calm, boot %s", n.name, n.taint, n.boot)
		}
	}
}

// RECOVERY_SEED=N replays from N on, RECOVERY_RUNS=N sets the number of schedules.
func TestRandomSchedules(t *testing.T) {
	runs, seed := 250, rand.Uint64N(1<<40)
	if testing.Short() {
		runs = 60
	}
	if n, err := strconv.Atoi(os.Getenv("RECOVERY_RUNS")); err == nil {
		runs = n
	}
	if n, err := strconv.ParseUint(os.Getenv("RECOVERY_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seeds from %d on", seed)
	var deleted, tainted, untainted, muted, withheld int
	for i := range uint64(runs) {
		w := schedule(seed + i)
		deleted, tainted, untainted = deleted+w.deleted, tainted+w.tainted, untainted+w.untaint
		muted, withheld = muted+w.muted, withheld+w.withheld
		if len(w.problems) > 0 {
			t.Fatalf("RECOVERY_SEED=%d RECOVERY_RUNS=1: %s\n%s", seed+i, w.problems[0], strings.Join(w.trace, "\n"))
		}
	}
	t.Logf("%d schedules: %d taints set, %d taken off, %d pods deleted without grace, %d nodes silent after a dispute, with new replicas, %d answers against boards that lie",
		runs, tainted, untainted, deleted, muted, withheld)
	if deleted < runs/2 || untainted < runs/4 || muted < runs/20 || withheld < runs/20 {
		t.Errorf("the schedules exercise little: %d pods deleted, %d taints taken off, %d answers against boards that lie in %d", deleted, untainted, withheld, runs)
	}
}

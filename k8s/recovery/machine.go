package recovery

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	// maxAge is the greatest age of the read of the Lease for a deletion, or for the barrier. If it is older, the
	// machine makes another round. A request within that time has as long again to be sent.
	maxAge = time.Second
	// disputeAfter is the time for which a Lease may be renewed before the boot that renews it shows in the Node.
	// Measured: the renewal comes 0.15 s before the boot, and 3.8 s before it on a slow node.
	disputeAfter = 15 * time.Second
	// seenLong is the time for which agents have to see a boot that is proven dead before it is in dispute. Meanwhile
	// it is not believed either. A report of an agent counts for 150 s (k8s/storm), so it was repeated after the proof.
	seenLong = 160 * time.Second
	// renewalDelay is the time that one request of a kubelet to renew its Lease may take.
	renewalDelay = time.Second
	// returnSettle is the time for which a new boot has to be there, Ready and without pods of the old boot, before the
	// taint is removed. A kubelet that starts may have listed pods that are deleted a moment later. Once it sees no
	// taint it starts them, although their objects are gone.
	returnSettle = 15 * time.Second
	// evictionPatience is the time for which evictions may make no progress before the pods that are left are deleted.
	evictionPatience = 10 * time.Second

	// The pauses between rounds. A node stays dead for days, so a state that only a change of the Node ends is checked
	// rarely.
	shortPause, pause, mediumPause, longPause = 200 * time.Millisecond, 2 * time.Second, 10 * time.Second, 30 * time.Second
)

// Settings are set by the operator.
type Settings struct {
	DryRun bool
	// Settle is the time between the barrier and the deletion of the first pod. A kubelet that listed its Node before
	// the barrier shows within that time that it runs.
	Settle time.Duration
}

// Machine is the recovery of one Node.
type Machine struct {
	settings Settings
	name     string
	pace     *storm.Pace

	// The machine's memory. All of it may be lost.
	uid       string
	boot      string    // the boot that all the following fields are about
	lease     string    // the version of the Lease when the proof was recorded; empty: there is no proof yet
	version   string    // the version of the Lease as it was last read
	leaseAt   time.Time // when that version was first read
	barrier   time.Time // when the taint was first seen
	refused   time.Time // when a sign showed that the boot may run; zero: there was none
	why       string
	sighted   time.Time // when agents began to see it, although it is proven dead
	noted     bool      // the Node's annotation has shown the dispute
	heartbeat string    // of the Node when the proof was recorded
	unknown   bool      // Ready has been Unknown since then
	reporters []string
	progress  time.Time // when evictions last made progress
	awaited   int
	lookBy    time.Time // when a node that waits for evictions is looked at in any case
	returned  time.Time // the time from which all conditions for removing the taint are fulfilled
	believed  bool
	refusals  map[string]int // of deletions, by the pod's UID
	struck    time.Time      // the round of the last refusal

	// The state of one round.
	asked   Request // the request that Done gets the answer to
	wake    time.Time
	idle    bool // there is nothing to do before something changes
	seen    bool // the Node has been read once
	whole   bool // this round has read the pods
	pods    []Pod
	node    Node
	verdict belief.Verdict
	group   Group
	looked  time.Time // when the Lease was asked for
	todo    []Request
	late    int // consecutive reads of the Lease that were too old for the writes that they allow
	fails   int
	failed  Kind // the kind of the last failed request that has not succeeded since
	skip    bool // the annotation could not be written: this round does everything else
	unnoted bool // this is such a round

	state State
}

// New creates the machine of a Node.
func New(s Settings, node string, p *storm.Pace) *Machine {
	return &Machine{settings: s, name: node, pace: p, asked: Request{Kind: Wait}, state: State{Phase: Watching}, refusals: map[string]int{}}
}

// Seen reports whether the Node has been read, so that [Machine.State] is meaningful.
func (m *Machine) Seen() bool { return m.seen }

// State returns the state to show to people.
func (m *Machine) State() State { return m.state }

// Poke wakes a machine that waits for something to change, such as another reporter.
func (m *Machine) Poke() {
	p := m.state.Phase
	if m.idle || (p == Unproven || p == Released || p == InDispute) && m.fails == 0 {
		m.wake, m.idle = time.Time{}, false
	}
}

// Next returns the next request. Its answer goes to [Machine.Done], unless it is Wait.
func (m *Machine) Next(now time.Time) Request {
	m.asked = m.next(now)
	return m.asked
}

func (m *Machine) next(now time.Time) Request {
	if m.asked.Kind != Wait { // a request of this round that Done has set
		return m.asked
	}
	if len(m.todo) > 0 {
		if r, ok := m.act(now); ok {
			return r
		}
	}
	switch {
	case m.idle:
		return Request{Kind: Wait}
	case now.Before(m.wake):
		return Request{Kind: Wait, Until: m.wake}
	case m.queued(now):
		m.sleep(now, pause)
		return Request{Kind: Wait, Until: m.wake}
	}
	m.whole = m.state.Tainted
	if m.whole {
		return Request{Kind: ReadPods}
	}
	return Request{Kind: ReadNode}
}

// queued reports whether evictions from other nodes still run. It needs no request: when 50 nodes die at once, looks at
// all of them would be hundreds of requests a second. What disputes the boot meanwhile shows at the next look.
func (m *Machine) queued(now time.Time) bool {
	_, busy := m.pace.Busy(m.name, now)
	return m.state.Held == storm.Evictions && now.Before(m.lookBy) && busy
}

// act returns the next write of the round. The barrier and deletions need a recent read of the Lease: the barrier's
// precondition does not see a new boot that may not patch its Node.
func (m *Machine) act(now time.Time) (Request, bool) {
	r := m.todo[0]
	if m.stale(now, r) {
		if m.todo = nil; m.fails == 0 { // otherwise the pause after a failure applies
			m.wake = time.Time{}
		}
		return Request{}, false
	}
	if r.Kind == DeletePod {
		if wait := m.pace.Delete(now); wait > 0 {
			return Request{Kind: Wait, Until: now.Add(wait)}, true
		}
	}
	m.todo = m.todo[1:]
	if m.byLook(r) {
		r.Deadline = m.looked.Add(2 * maxAge)
	}
	return r, true
}

// byLook reports whether a read of the Lease is what allows a write.
func (m *Machine) byLook(r Request) bool {
	return r.Kind == DeletePod || r.Kind == SetTaint && r.Value == Fenced(m.node.Boot)
}

// stale reports whether a write needs a more recent read of the Lease.
func (m *Machine) stale(now time.Time, r Request) bool {
	return m.byLook(r) && now.Sub(m.looked) > maxAge
}

// await drops the write for which the answer about the Lease came too late. The first time the machine reads it again
// at once. If that is late as well, the API server is overloaded and gets a pause. The pause does not grow, because a
// failover waits. If an answer takes longer than a request may, that is a failure, and its pauses do grow.
func (m *Machine) await(now time.Time) {
	if len(m.todo) == 0 {
		m.punctual()
		return
	}
	if r := m.todo[0]; m.stale(now, r) {
		m.slow(now, r)
	}
}

// slow ends a round whose writes came too late.
func (m *Machine) slow(now time.Time, r Request) {
	m.todo = nil
	m.late++
	p := Proven
	if r.Kind == DeletePod {
		p = Draining
	}
	m.state.set(p, fmt.Sprintf("the API server takes longer than %v to answer: trying again", maxAge))
	if m.late > 1 {
		m.state.Held = SlowAnswers
		m.sleep(now, pause)
	} else if m.fails == 0 { // otherwise the pause after a failure applies
		m.sleep(now, 0)
	}
}

// punctual ends the state that slow has set: a write was in time, or there is none.
func (m *Machine) punctual() {
	if m.late = 0; m.state.Held == SlowAnswers {
		m.state.Held = ""
	}
}

// Done handles the answer to the last request of Next. asked is when the request began, now when the answer came.
func (m *Machine) Done(asked, now time.Time, a Reply) {
	r := m.asked
	m.asked = Request{Kind: Wait}
	if a.Outcome == Late {
		m.slow(now, r)
		return
	}
	if r.Kind >= SetTaint {
		m.punctual()
	}
	if a.Outcome == Failed {
		if r.Kind != DeletePod || m.struck != m.looked { // once for each round
			m.fails++
		}
		if r.Kind == DeletePod { // the other pods have their turn
			m.refusals[r.Pod.UID]++
			m.struck = m.looked
		} else {
			m.todo, m.skip = nil, r.Kind == SetNote
		}
		m.state.Trouble, m.failed = a.Error, r.Kind
		m.sleep(now, min(longPause, shortPause<<min(m.fails, 8)))
		return
	}
	if r.Kind == m.failed {
		m.fails, m.state.Trouble, m.failed = 0, "", Wait
	}
	switch r.Kind {
	case ReadPods:
		m.pods = a.Pods
		m.asked = Request{Kind: ReadNode}
	case ReadNode:
		m.sawNode(now, a.Node)
	case ReadReporters:
		m.verdict, m.group = a.Verdict, a.Group
		m.asked = Request{Kind: ReadLease}
	case ReadLease:
		m.looked = asked
		m.decide(now, a.Lease)
		m.await(now)
	case SetTaint, RemoveTaint, SetNote:
		m.wrote(now, r, a.Outcome)
	case DeletePod:
		m.deleted(now, r, a.Outcome)
	}
}

// sawNode begins a round with its Node.
func (m *Machine) sawNode(now time.Time, n Node) {
	m.node, m.seen = n, true
	if n.UID != m.uid { // another object with this name: nothing that was known is about it
		m.forget()
		m.uid = n.UID
	}
	boot, _ := BootOf(n.Taint)
	switch {
	case !n.Exists:
		m.pace.End(m.name)
		m.rest(Gone, "the Node does not exist: kube-controller-manager deletes its pods")
		return
	case n.Tainted && boot == "":
		m.pace.End(m.name)
		m.rest(Foreign, fmt.Sprintf("the taint %s=%s on the Node was set by somebody else, so this program leaves the Node alone", TaintKey, n.Taint))
		return
	}
	m.state.Tainted = n.Tainted
	if n.Tainted && !m.whole {
		// The pods have to be read before the Node.
		m.sleep(now, 0)
		return
	}
	if n.Boot != m.boot {
		m.forget()
		m.uid, m.boot = n.UID, n.Boot
	}
	m.asked = Request{Kind: ReadReporters, Boot: n.Boot, Before: m.reporters, Unknown: n.Unknown}
}

// forget drops what was known about a boot.
func (m *Machine) forget() {
	m.uid, m.boot, m.lease, m.why, m.reporters, m.believed, m.awaited = "", "", "", "", nil, false, 0
	m.barrier, m.refused, m.progress, m.returned, m.leaseAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	m.sighted, m.version = time.Time{}, ""
	m.refusals, m.noted, m.heartbeat, m.unknown = map[string]int{}, false, "", false
}

func (m *Machine) wrote(now time.Time, r Request, o Outcome) {
	switch {
	case o != Done:
		m.state.Writes.Conflicts++
	case r.Kind == SetTaint:
		m.state.Tainted = true
		m.state.Writes.Tainted++
	case r.Kind == RemoveTaint:
		m.state.Tainted = false
		m.state.Writes.Removed++
		m.forget()
	}
	m.sleep(now, 0)
}

func (m *Machine) deleted(now time.Time, r Request, o Outcome) {
	switch o {
	case Conflict:
		// The object has changed since it was read, perhaps by a kubelet: everything is read again.
		m.state.Writes.Conflicts++
		m.todo = nil
		m.sleep(now, shortPause)
	case Done:
		m.state.Writes.Deleted++
		m.state.Last = r.Pod
	case Missing, Failed, Late: // somebody else was faster
	}
}

// sleep ends the round.
func (m *Machine) sleep(now time.Time, d time.Duration) { m.wake, m.idle = now.Add(d), false }

// rest ends the round until something changes.
func (m *Machine) rest(p Phase, text string) {
	m.state.set(p, text)
	m.idle = true
	m.state.Tainted = false
}

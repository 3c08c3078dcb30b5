package recovery

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	// maxAge is how old a look at the Lease may be for a deletion, or for the barrier. Older than that, another round is
	// made. What is asked for in time has as long to be sent.
	maxAge = time.Second
	// disputeAfter is how long a Lease may be renewed before the boot that renews it shows in the Node. It comes
	// 0.15 s before it, 3.8 s on a slow node.
	disputeAfter = 15 * time.Second
	// seenLong is how long agents have to see a boot that is proven dead until it is in dispute. Meanwhile it is not believed
	// either. What an agent says counts for 150 s (k8s/storm): so it was said again after the proof.
	seenLong = 160 * time.Second
	// renewalDelay is what one request of a kubelet to renew its Lease may take.
	renewalDelay = time.Second
	// returnSettle is how long a new boot has to be there, Ready and without pods of before, until the taint comes
	// off. A kubelet that starts has listed pods that are deleted a moment later; what it starts of them, once it sees
	// no taint, it starts although their objects are gone.
	returnSettle = 15 * time.Second
	// evictionPatience is how long evictions may make no progress before the pods that are left are deleted.
	evictionPatience = 10 * time.Second

	// The pauses between rounds. A node stays dead for days: what a change of the Node ends is looked at rarely.
	shortPause, pause, mediumPause, longPause = 200 * time.Millisecond, 2 * time.Second, 10 * time.Second, 30 * time.Second
)

// Settings are what the operator decides.
type Settings struct {
	DryRun bool
	// Settle is how long after the barrier the first pod is deleted. A kubelet that listed its Node before the
	// barrier shows within it that it runs.
	Settle time.Duration
}

// Machine is the recovery of one Node.
type Machine struct {
	settings Settings
	name     string
	pace     *storm.Pace

	// what it remembers. All of it may be lost.
	uid       string
	boot      string    // that all of the following is about
	lease     string    // version of the Lease when the proof was taken up; empty: not yet
	version   string    // of the Lease as it was read last
	leaseAt   time.Time // since when it has that version
	barrier   time.Time // when the taint was first seen
	refused   time.Time // when something showed that the boot may run; zero: nothing has
	why       string
	sighted   time.Time // since when agents see it, although it is proven dead
	noted     bool      // and the Node's annotation has said so
	heartbeat string    // of the Node when the proof was taken up
	unknown   bool      // Ready was Unknown since then
	reporters []string
	progress  time.Time // of evictions
	awaited   int
	lookBy    time.Time // when a node that waits for evictions is looked at all the same
	returned  time.Time // since when all holds that lets the taint come off
	believed  bool
	refusals  map[string]int // of deletions, by the pod's UID
	struck    time.Time      // the round in which the last of them was

	// one round
	asked   Request // what Done is the answer to
	wake    time.Time
	idle    bool // nothing is to be done before something changes
	seen    bool // the Node was read once
	whole   bool // this round has read the pods
	pods    []Pod
	node    Node
	verdict belief.Verdict
	group   Group
	looked  time.Time // when the Lease was asked for
	todo    []Request
	late    int // looks in a row that were too old for what they allowed
	fails   int
	failed  Kind // what failed last and has not worked since
	skip    bool // the annotation could not be written: this round is about all else
	unnoted bool // this is that round

	state State
}

// New makes the machine of a Node.
func New(s Settings, node string, p *storm.Pace) *Machine {
	return &Machine{settings: s, name: node, pace: p, asked: Request{Kind: Wait}, state: State{Phase: Watching}, refusals: map[string]int{}}
}

// Seen reports whether the Node was read, so that [Machine.State] says something about it.
func (m *Machine) Seen() bool { return m.seen }

// State is what to tell people.
func (m *Machine) State() State { return m.state }

// Poke wakes a machine that waits for something to change, such as another reporter.
func (m *Machine) Poke() {
	p := m.state.Phase
	if m.idle || (p == Unproven || p == Released || p == InDispute) && m.fails == 0 {
		m.wake, m.idle = time.Time{}, false
	}
}

// Next is what to ask for now. The answer goes to [Machine.Done], except that of Wait.
func (m *Machine) Next(now time.Time) Request {
	m.asked = m.next(now)
	return m.asked
}

func (m *Machine) next(now time.Time) Request {
	if m.asked.Kind != Wait { // a question of this round, which Done has put there
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

// queued reports whether evictions from other nodes still go on. To know that takes no request: when 50 nodes die at
// once, their looks would be hundreds of requests a second. What disputes the boot meanwhile shows at the next look.
func (m *Machine) queued(now time.Time) bool {
	_, busy := m.pace.Busy(m.name, now)
	return m.state.Held == storm.Evictions && now.Before(m.lookBy) && busy
}

// act is the next write of the round. The barrier and deletions need a Lease that was looked at a moment ago: the
// barrier's precondition sees no new boot that may not patch its Node.
func (m *Machine) act(now time.Time) (Request, bool) {
	r := m.todo[0]
	if m.stale(now, r) {
		if m.todo = nil; m.fails == 0 { // else the pause after a failure holds
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

// byLook reports whether a look at the Lease is what allows a write.
func (m *Machine) byLook(r Request) bool {
	return r.Kind == DeletePod || r.Kind == SetTaint && r.Value == Fenced(m.node.Boot)
}

// stale reports whether a write needs a younger look at the Lease than there is.
func (m *Machine) stale(now time.Time, r Request) bool {
	return m.byLook(r) && now.Sub(m.looked) > maxAge
}

// await drops the write for which the answer about the Lease came too late. The first time another look follows at once; then the
// API server is overloaded, and gets a pause. It does not grow: what waits is a failover, and an answer that takes longer
// than a request may is a failure, after which the pauses do.
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
	m.state.set(p, fmt.Sprintf("the API server takes longer than %v to answer: looks again", maxAge))
	if m.late > 1 {
		m.state.Held = SlowAnswers
		m.sleep(now, pause)
	} else if m.fails == 0 { // else the pause after a failure holds
		m.sleep(now, 0)
	}
}

// punctual ends what slow has begun: a write was in time, or there is none.
func (m *Machine) punctual() {
	if m.late = 0; m.state.Held == SlowAnswers {
		m.state.Held = ""
	}
}

// Done takes the answer to what Next asked for last. asked is when it was asked, now when the answer came.
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
		if r.Kind != DeletePod || m.struck != m.looked { // once a round
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

// sawNode begins with the Node of a round.
func (m *Machine) sawNode(now time.Time, n Node) {
	m.node, m.seen = n, true
	if n.UID != m.uid { // another object of this name: nothing that was known is about it
		m.forget()
		m.uid = n.UID
	}
	boot, _ := BootOf(n.Taint)
	switch {
	case !n.Exists:
		m.pace.End(m.name)
		m.rest(Gone, "the Node does not exist: kube-controller-manager takes its pods away")
		return
	case n.Tainted && boot == "":
		m.pace.End(m.name)
		m.rest(Foreign, fmt.Sprintf("somebody else put the taint %s=%s on the Node: it is left to them", TaintKey, n.Taint))
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

// forget drops what was known of a boot.
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
		// It has changed since it was read, by a kubelet, perhaps: all is read again.
		m.state.Writes.Conflicts++
		m.todo = nil
		m.sleep(now, shortPause)
	case Done:
		m.state.Writes.Deleted++
		m.state.Last = r.Pod
	case Missing, Failed, Late: // somebody was faster
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

package recovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The world of the random schedules: an API server, its controllers, kubelets, agents and workloads, on virtual time
// in steps of tick. It knows nothing of the machine but its requests and replies; it finds errors by looking only at
// containers.
const (
	tick          = 50 * time.Millisecond
	leaseDuration = 10 * time.Second // a quarter of the usual 40 s, like the other times
	renewEvery    = 2500 * time.Millisecond
	// heartbeatTimeout is the timeout of one request to renew the Lease: nodeStatusUpdateFrequency.
	heartbeatTimeout = 2 * time.Second
)

var epoch = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

type simPod struct {
	uid, version int
	ordinal      int
	node         string // empty: not scheduled
	deleting     bool
	tolerates    bool
	finalizer    bool
	forced       bool
	failedAt     time.Time // when a rejected pod is reported
	removed      time.Time
}

// container is what the oracle looks at.
type container struct {
	ordinal, uid int
	node, boot   string
	killAt       time.Time
}

type simNode struct {
	name string
	// the Node as the API server has it
	exists       bool
	uid, version int
	boot         string
	ready        string
	tainted      bool
	taint        string
	leaseVersion int
	renewed      time.Time            // by the clock of the API server
	behind       time.Duration        // by how much the kubelet's clock, with which it writes Leases, is behind
	told         map[[2]string]string // deaths on its Node, and the boot of this node in which each was reported
	missing      time.Time
	note         string // the annotation of a dispute
	heartbeat    int    // when its kubelet wrote Ready

	// the node as it really is
	on            bool
	real, past    string // boot, and the one before
	api, gossip   bool
	watchdog      bool
	cutAt         time.Time
	bootAt        time.Time
	refusesPatch  bool
	agentAt       time.Time
	tNode, tPods  time.Time
	tStatus       time.Time
	tStart        time.Time
	nextRenewal   time.Time
	attempt       time.Time // when the unanswered request to renew the Lease was sent; zero: there is none
	failures      int       // consecutive failures of such requests
	stuck         bool      // its connection is to an API server that is not there any more
	stuckAt       time.Time // when that will happen
	listed        bool
	patched       bool
	seenTaint     bool
	found         []int // pods that it listed at its start
	podsListed    bool
	statusPatched bool
	started       bool
	knows         map[int]bool
	liar          bool
}

type world struct {
	r        *rand.Rand
	now      time.Time
	rv, id   int
	nodes    []*simNode
	pods     map[int]*simPod
	ghosts   map[int]*simPod // deleted a moment ago: a kubelet may not know yet
	attached map[int]string  // by ordinal
	running  []*container
	made     map[int]time.Time // when an ordinal is made again
	evict    map[int]time.Time // by ordinal: the queue of evictions works by name
	ended    map[string]time.Time
	history  []map[string][]Pod
	problems []string
	faults   bool
	kcm      bool
	ordinals int
	carryAt  []late
	trace    []string
	deleted  int // without grace, by the controllers
	tainted  int
	untaint  int
	muted    int             // nodes that went silent after a dispute
	boards   map[string]bool // by boot: whether its board says off while agents see it run
	withheld int             // answers in which such a report does not count
	grace    time.Duration   // of all pods, in a story that heals nothing by itself; zero: up to 5 s
	crashAll bool            // all replicas crash
	noNotes  bool            // notes of disputes are refused while there are faults
	down     bool            // the API server is down
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%7.2f ", w.now.Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) span(from, to time.Duration) time.Duration {
	return from + time.Duration(w.r.Int64N(int64(to-from)+1))
}

func (w *world) chance(perSecond float64) bool { return w.r.Float64() < perSecond*tick.Seconds() }

func (w *world) bump() int { w.rv++; return w.rv }

func newWorld(seed uint64) *world { return newWorldOf(seed, 4, 4) }

func newWorldOf(seed uint64, nodes, ordinals int) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 17)), now: epoch, pods: map[int]*simPod{}, ghosts: map[int]*simPod{}, attached: map[int]string{},
		made: map[int]time.Time{}, evict: map[int]time.Time{}, ended: map[string]time.Time{}, faults: true, kcm: true, ordinals: ordinals,
	}
	for i := range nodes {
		n := &simNode{name: fmt.Sprintf("n%d", i), told: map[[2]string]string{}}
		w.nodes = append(w.nodes, n)
		w.bootUp(n)
		n.exists, n.uid, n.version, n.boot, n.ready, n.agentAt = true, w.bump(), w.bump(), n.real, "True", w.now
		n.renewed, n.leaseVersion = w.now, w.bump()
		n.listed, n.patched, n.podsListed, n.statusPatched, n.started = true, true, true, true, true
		n.nextRenewal = w.now.Add(w.span(0, renewEvery))
	}
	return w
}

// bootUp switches a node on, with all the delays of a kubelet that starts.
func (w *world) bootUp(n *simNode) {
	n.past = n.real
	n.on, n.real, n.api, n.gossip, n.watchdog = true, fmt.Sprintf("%016x", w.r.Uint64()|1), true, true, true
	n.nextRenewal = w.now.Add(w.span(300*time.Millisecond, 3*time.Second))
	n.tNode = n.nextRenewal.Add(w.span(0, time.Second))
	n.tPods = n.tNode.Add(w.span(time.Second, 1500*time.Millisecond))
	n.tStatus = n.tPods.Add(w.span(0, 300*time.Millisecond))
	n.tStart = n.tStatus.Add(w.span(500*time.Millisecond, 900*time.Millisecond))
	n.agentAt = n.tStart.Add(w.span(time.Second, 10*time.Second))
	n.listed, n.patched, n.podsListed, n.statusPatched, n.started, n.seenTaint = false, false, false, false, false, false
	n.found, n.knows = nil, map[int]bool{}
	n.attempt, n.failures, n.stuck, n.stuckAt = time.Time{}, 0, false, time.Time{}
	w.log("%s boots %s", n.name, n.real)
}

func (w *world) powerOff(n *simNode) {
	if !n.on {
		return
	}
	w.log("%s off", n.name)
	n.on = false
	w.ended[n.real] = w.now
	n.bootAt = w.now.Add(w.span(2*time.Second, 60*time.Second))
	w.running = slices.DeleteFunc(w.running, func(c *container) bool { return c.node == n.name })
}

// step advances by one tick everything but the controllers under test.
func (w *world) step() {
	w.now = w.now.Add(tick)
	if w.faults {
		w.fault()
	}
	for _, n := range w.nodes {
		w.hardware(n)
		if n.on {
			w.kubelet(n)
		}
		w.agent(n)
	}
	w.manager()
	w.look()
	w.snapshot()
}

func (w *world) fault() {
	n := w.nodes[w.r.IntN(len(w.nodes))]
	off := 0
	for _, o := range w.nodes {
		if !o.on || !o.gossip {
			off++
		}
	}
	if off >= len(w.nodes)/2 { // without a majority agents prove nothing
		return
	}
	switch {
	case w.chance(0.04):
		w.powerOff(n)
	case n.on && n.api && !n.gossip && !n.watchdog && n.note == n.real && n.real != "":
		// It was heard, and that was noted. Now all who have heard it die, and it goes silent for long: what a replica
		// that starts sees is what a dead node looks like. This is not done while the taint is set: Kubernetes itself
		// takes the volumes of such a node away, as docs/controller.md says (Disputed), whatever replicas do.
		if w.chance(2) && !n.tainted {
			n.api, n.stuck, n.cutAt, w.muted, w.crashAll = false, true, w.now, w.muted+1, true
			w.log("%s goes silent after its dispute", n.name)
		}
	case n.on && (!n.api || !n.gossip): // nobody can notice a node that is cut off from all and whose watchdog fails
	case w.chance(0.03) && n.on: // cut off from everything: its watchdog resets it
		n.api, n.gossip, n.stuck, n.cutAt = false, false, true, w.now
		w.log("%s cut off", n.name)
	case w.chance(0.03) && n.on && !w.wronged(): // the others do not see it, the API server does, and its watchdog does not fire
		n.gossip, n.watchdog, n.cutAt = false, false, w.now
		w.log("%s is not seen, and runs", n.name)
		if n.behind == 0 && w.r.IntN(2) == 0 { // the fault that cuts it off also takes its API server
			n.stuckAt = w.now.Add(w.span(0, 6*time.Second))
		}
	// The kubelet alone is cut off. With the taint of a dispute Kubernetes takes its volumes, as above.
	case w.chance(0.03) && n.on && n.taint != Disputed(n.real):
		n.api, n.stuck, n.cutAt = false, true, w.now
		w.log("%s has no API server", n.name)
	case w.chance(0.03) && n.on && n.behind == 0: // an API server dies; its kubelets notice by their timeouts
		n.stuckAt = w.now
	case w.chance(0.02):
		n.refusesPatch = !n.refusesPatch
	case w.chance(0.02) && !n.on && n.exists: // a person deletes the Node of a dead machine
		n.exists, n.missing, n.told = false, w.now, map[[2]string]string{}
		w.log("Node %s deleted", n.name)
	case w.chance(0.02):
		w.kcm = !w.kcm
		w.log("kube-controller-manager runs: %v", w.kcm)
	}
}

// wronged reports whether some node still names a boot that runs, so the watchdog of the named node has failed already.
// Then no second watchdog may fail. Otherwise, if every other node that knows better has lost its API server, the node
// that names the boot would be the only reporter, and would be believed if Ready is Unknown (seed 644377764876;
// docs/attacks.md).
func (w *world) wronged() bool {
	for _, o := range w.nodes {
		for _, n := range w.nodes {
			if _, names := o.told[[2]string{n.name, n.real}]; names && n.on && !o.liar {
				return true
			}
		}
	}
	return false
}

// hardware resets, boots and heals.
func (w *world) hardware(n *simNode) {
	if !n.on {
		if !w.now.Before(n.bootAt) {
			w.bootUp(n)
		}
		return
	}
	switch since := w.now.Sub(n.cutAt); {
	case n.api && n.gossip:
	case w.grace > 0:
	case !n.gossip && n.watchdog && since > 4*time.Second:
		w.powerOff(n)
	case (n.gossip || !n.watchdog) && (w.chance(0.03) || since > 30*time.Second):
		n.api, n.gossip, n.watchdog = true, true, true
		w.log("%s healed", n.name)
	}
}

// agent reports the deaths that a node's agent has proven about the other nodes, and withdraws those of nodes that are
// back.
func (w *world) agent(n *simNode) {
	if !n.on || !n.api || !n.gossip || !n.exists || w.now.Before(n.agentAt) || !w.chance(4) {
		return
	}
	told := map[[2]string]string{}
	for death, said := range n.told {
		i := slices.IndexFunc(w.nodes, func(o *simNode) bool { return o.name == death[0] })
		if o := w.nodes[i]; o.on && o.gossip && !w.now.Before(o.agentAt) && !n.liar {
			continue // it is back, by another boot or by the same
		}
		told[death] = said
	}
	for _, o := range w.nodes {
		if o == n {
			continue
		}
		at, over := w.ended[o.real]
		if !over && !o.gossip && !o.watchdog { // all of them are wrong
			at, over = o.cutAt, true
		}
		if over && (!o.on || !o.gossip) && w.now.Sub(at) > 5*time.Second {
			told[[2]string{o.name, o.real}] = n.real
		}
		if past, over := w.ended[o.past]; over && w.now.Before(o.agentAt) && w.now.Sub(past) > 5*time.Second {
			told[[2]string{o.name, o.past}] = n.real // reported although the node has come back
		}
		if n.liar && w.r.IntN(40) == 0 {
			told[[2]string{o.name, o.real}] = n.real
		}
	}
	if fmt.Sprint(told) != fmt.Sprint(n.told) {
		n.told, n.version = told, w.bump()
	}
}

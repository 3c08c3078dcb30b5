package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum/leasequorumtest"
)

// leaseTiming returns the times of a Lease in these simulations. They are short, so that grants run out and are taken
// over within a schedule, and have the smallest allowed gap between Term and Expire.
func (t *Times) leaseTiming() leasequorum.Timing {
	const term = 20 * time.Second
	return leasequorum.Timing{
		MaxAge: t.Timing.MaxAge, Term: term, Expire: term + term/8, Longest: time.Hour, Stagger: 200 * time.Millisecond,
		Retry: 500 * time.Millisecond, Poll: 500 * time.Millisecond, Refresh: time.Minute,
	}
}

// requestTimeout is the time after which a node gives up a request to the API server.
const requestTimeout = 2 * time.Second

// kubeLease is the Lease behind an API server.
type kubeLease struct {
	c      *Cluster
	lease  leasequorumtest.Lease
	faults []APIFaults // by node
}

// APIFaults describes the path from a node to the API server. If it is down, no request arrives. Otherwise Lost is the
// share of requests whose answer arrives too late or not at all. Half of these requests take effect, at any time within
// LateBy.
type APIFaults struct {
	Down   bool
	Slow   time.Duration
	Lost   float64
	LateBy time.Duration
}

func newKubeLease(c *Cluster) *kubeLease {
	return &kubeLease{c: c, faults: make([]APIFaults, c.cfg.Nodes)}
}

func (c *Cluster) openLease(n *Node) {
	a, err := leasequorum.New(leasequorum.Config{
		Roster: n.roster, Evidence: n.core.Merger(), Boot: n.boot, Process: n.process, Log: 1 << 50, Timing: c.times(n).leaseTiming(),
	}, c.now)
	if err != nil {
		panic(err)
	}
	n.lease = a
	n.core.BreakTiesBy(a)
}

// APIFaults sets the faults of the path from a node to the API server; the zero value has none.
func (c *Cluster) APIFaults(i int, f APIFaults) {
	c.trace("n%d: API server %+v", i+1, f)
	c.kube.faults[i] = f
	if n := c.nodes[i]; n.up {
		n.core.APIChecked(!f.Down && f.Lost < 1, c.now)
	}
}

// DeleteLease deletes the Lease, as a careless person may do.
func (c *Cluster) DeleteLease() {
	c.trace("somebody deletes the Lease")
	c.kube.lease.Delete()
}

// perform carries out what the last step of a node requests.
func (l *kubeLease) perform(n *Node) {
	if op := n.lease.Op(); op != nil {
		l.submit(n, *op)
	}
}

// submit sends one request for a node. If the node dies in the meantime, the request can still land.
func (l *kubeLease) submit(n *Node, op leasequorum.Op) {
	c, f, started := l.c, l.faults[n.Index], l.c.now
	answer := func(d time.Duration, done leasequorum.Completion) {
		c.during(n, d, func() {
			done.ID, done.Started, done.Ended = op.ID, started, c.now
			n.lease.Complete(&done)
			c.wakeNode(n, 0)
		})
	}
	unknown := leasequorum.Completion{Outcome: leasequorum.Unknown, Err: fmt.Errorf("no answer")}
	there := c.delay() + time.Duration(c.rng.Int64N(int64(f.Slow)+1))
	switch {
	case f.Down:
		answer(requestTimeout, unknown)
	case c.rng.Float64() < f.Lost || there >= requestTimeout:
		if c.rng.IntN(2) == 0 {
			c.at(time.Duration(c.rng.Int64N(int64(f.LateBy)+1)), func() { l.apply(n, &op) })
		}
		answer(requestTimeout, unknown)
	default:
		back := c.delay()
		c.at(there, func() { answer(back, l.apply(n, &op)) })
	}
}

// apply lets the API server perform an operation, and checks what a write replaces.
func (l *kubeLease) apply(n *Node, op *leasequorum.Op) leasequorum.Completion {
	before := l.lease.Record()
	done := l.lease.Apply(op)
	if done.Outcome == leasequorum.Done && op.Kind != leasequorum.Read {
		if op.Kind == leasequorum.Write {
			l.checkReplaced(n, &before, &op.Record.Grant)
		}
		l.c.trace("%s writes the Lease: %v", n.Name, op.Record.Grant.Holders)
	}
	return done
}

// checkReplaced checks the promise of a write that names other nodes: each previous holder whose token has not moved on
// has been reset.
func (l *kubeLease) checkReplaced(by *Node, before *leasequorum.Record, g *leasequorum.Grant) {
	named := func(name string) bool {
		return slices.ContainsFunc(g.Holders, func(h leasequorum.Holder) bool { return h.Node == name })
	}
	for _, h := range before.Grant.Holders {
		n := l.c.named(h.Node)
		if !named(h.Node) && n.armed && n.boot == h.Token.Nonce && n.core.Split().Token == h.Token {
			l.c.check.add("%v: %s replaces %s in the Lease, and that node still runs", l.c.Now(), by.Name, n.Name)
		}
	}
}

// disturb makes one random change of the API server, or of the paths to it.
func (l *kubeLease) disturb(rng *rand.Rand) {
	c, n := l.c, len(l.faults)
	bad := func() APIFaults {
		return APIFaults{Down: rng.IntN(2) == 0, Slow: time.Duration(rng.Int64N(int64(3 * time.Second))), Lost: rng.Float64(), LateBy: 30 * time.Second}
	}
	switch rng.IntN(6) {
	case 0:
		c.APIFaults(rng.IntN(n), bad())
	case 1, 2:
		for i := range n {
			c.APIFaults(i, APIFaults{})
		}
	case 3:
		f := bad()
		for i := range n {
			c.APIFaults(i, f)
		}
	case 4:
		if rng.IntN(4) == 0 {
			c.DeleteLease()
		}
	case 5:
		// One half of the nodes loses the API server, while the halves are split differently.
		p := rng.Perm(n)
		for _, i := range p[:n/2] {
			c.APIFaults(i, APIFaults{Down: true})
		}
		c.Heal()
		p = rng.Perm(n)
		c.Split([][]int{p[:n/2], p[n/2:]})
	}
}

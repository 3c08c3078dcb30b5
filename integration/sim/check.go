package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// slack is what a check allows for the granularity of the simulator.
const slack = 10 * time.Millisecond

type checker struct {
	touched    []*Node          // nodes to which something has happened since the last check
	due        boottime.Instant // all nodes are checked then, because of what time alone changes
	bounds     [2]time.Duration // of an overlap, by the number of the two nodes that hold
	both       []overlap        // [a*nodes + b]: of two nodes that both feed and whose views have no common member
	decided    map[uint64]*diskquorum.Grant
	violations []string
	Attempts   []diskquorum.Attempt
	Proofs     map[watchdog.Proof]int
	Grants     int // how often a node began to feed under a grant of the Lease
	Sentences  int // how many boots were condemned
	Strikes    int // how often a node that can learn through the LUN who is alive took itself down
	ByOrder    int // Strikes that followed an order
	Obeyed     int // how many orders were obeyed
	Forbidden  map[watchdog.Refusal]int
	ByLUN      int // how often a node began to stay up by the LUN while no network reached a majority
	Bridged    int // how often a node began to feed with a partner that has a majority (L14)

	links   boottime.Instant // when all links are to be checked next
	Probes  int
	Asked   int // peers that were asked for their claims
	Vouches int // Vouches and Sweeps occur in groups that take samples
	Sweeps  int
	// Stretched counts how often a quorum lasted a little longer than allowed, see checkQuorum.
	Stretched int
	Links     int // how often two nodes on a whole link were found to have young evidence
}

func (k *checker) begin(nodes int) {
	k.both = make([]overlap, nodes*nodes)
	k.decided, k.Proofs = map[uint64]*diskquorum.Grant{}, map[watchdog.Proof]int{}
	k.Forbidden = map[watchdog.Refusal]int{}
}

func (k *checker) attempt(a *diskquorum.Attempt) { k.Attempts = append(k.Attempts, *a) }

// Violations lists what broke safety, in words; it must be empty.
//
//   - Two nodes whose views have no common member both have permission to feed for longer than the part of the tie's
//     budget that precedes the watchdog: max(D_max+A, G), or D_lun + D_max + G if one of them holds by the LUN. If both
//     hold, neither has a quorum, and there is no limit. Only the policy fence promises this.
//   - One instance of the log has two values.
//   - Two halves feed by grants of the Lease at the same moment.
//   - A grant of the Lease is replaced while a holder still runs and its token has not moved on.
//   - A node is published as fenced, or its boot as ended, while that boot is still running.
//   - A node that can learn through the LUN who is alive takes itself down although no other node has been alive for
//     D_max.
//   - Evidence of a peer, a vouch or a quorum is dated later than the network's packets prove.
//   - Two nodes with a working path on a network have no recent evidence of each other there.
//   - A node obeys an order that nobody has given for its boot, or obeys one under maintenance, while another node ends
//     by an order, or when no majority would be left.
//   - A peer is probed without a limit on the rate.
func (c *Cluster) Violations() []string { return c.check.violations }

// Grants counts how often a node began to feed under a grant of the Lease.
func (c *Cluster) Grants() int { return c.check.Grants }

// Bridged counts how often a node went on under a grant with a partner that counts a majority again.
func (c *Cluster) Bridged() int { return c.check.Bridged }

// Attempts lists the ballots that ended.
func (c *Cluster) Attempts() []diskquorum.Attempt { return c.check.Attempts }

// undecided limits how long a node may feed that has no majority and no grant.
func (c *Config) undecided(t *Times) time.Duration {
	return max(max(t.Timing.MaxAge+c.sampling(t), c.voices(t))+t.Timing.Arbitrate, t.Timing.Grant)
}

// feeding reports whether the node has permission to feed at this moment.
func (c *Cluster) feeding(n *Node) bool {
	a := n.decision.Action
	return n.up && (a == watchdog.Feed || a == watchdog.Hold) && c.now < n.decision.Until
}

// right is the reason for which a node has permission to feed.
type right uint8

const (
	rightNone    right = iota
	rightView          // it does not depend on the nodes that others count
	rightGranted       // an equal split was decided for it
	rightHolds         // it holds by the LUN, and has no other reason
)

func (c *Cluster) right(n *Node) right {
	switch r := n.decision.Reason; {
	case !c.feeding(n):
		return rightNone
	case r == watchdog.ReasonSplitWon:
		return rightGranted
	case r == watchdog.ReasonNobodyLives || r == watchdog.ReasonLUNAsking:
		return rightHolds
	default:
		return rightView
	}
}

// touch makes the next check look at a node. An event happens to one node, and only that node can change its actions,
// except for changes by time (due). Looking at all nodes and pairs after each event took most of the time of a run.
func (c *Cluster) touch(n *Node) { c.check.touched = append(c.check.touched, n) }

func (c *Cluster) checkStep() {
	k := &c.check
	c.checkLinks()
	if c.now >= k.due {
		k.due, k.touched = boottime.Never, append(k.touched[:0], c.nodes...)
		for _, n := range c.nodes {
			n.moved = true
		}
	}
	for _, n := range k.touched {
		c.checkNode(n)
	}
	for _, n := range k.touched {
		if n.moved {
			n.moved = false
			for _, m := range c.nodes {
				if m != n {
					c.checkPair(c.nodes[min(n.Index, m.Index)], c.nodes[max(n.Index, m.Index)])
				}
			}
		}
	}
	k.touched = k.touched[:0]
}

// checkNode finds the right by which a node feeds at this moment.
func (c *Cluster) checkNode(n *Node) {
	k := &c.check
	if !c.older.unpromised {
		c.checkLog(n)
	}
	if is := c.right(n); is != n.right {
		if n.right, n.moved = is, true; is == rightGranted && c.kube != nil {
			k.Grants++
		}
	}
	if n.right != rightNone {
		k.due = min(k.due, n.decision.Until)
	}
	if n.judged && n.right != rightNone {
		k.add("%v: %s is condemned, and has permission to feed: %v", c.Now(), n.Name, n.decision.Reason)
	}
}

// checkPair compares two nodes. It is called when one of them has begun or stopped feeding, when the nodes that it
// counts have changed, and when the pair is due.
func (c *Cluster) checkPair(a, b *Node) {
	k := &c.check
	was, now := &k.both[a.Index*len(c.nodes)+b.Index], overlap{since: c.now}
	if a.right == rightNone || b.right == rightNone || a.counts.Intersects(b.counts) {
		*was = overlap{}
		return
	}
	// Two halves must never feed under grants of a Lease, not even for a moment.
	if c.kube != nil && a.right == rightGranted && b.right == rightGranted {
		k.add("%v: %s and %s both feed under grants of the Lease, of different halves", c.Now(), a.Name, b.Name)
	}
	for _, n := range [...]*Node{a, b} {
		if n.right == rightHolds {
			now.holders++
		}
	}
	if c.cfg.OnLoss != watchdog.LossFence || c.older.unpromised || now.holders == 2 {
		*was = now
		return
	}
	if was.since == 0 || was.holders != now.holders {
		*was = now
	} else if c.now.Sub(was.since) > k.bounds[now.holders] {
		k.add("%v: %s (%v) and %s (%v) have both been feeding for %v with disjoint views",
			c.Now(), a.Name, a.decision.Reason, b.Name, b.decision.Reason, c.now.Sub(was.since))
		*was = now
	}
	k.due = min(k.due, was.since.Add(k.bounds[now.holders])+1)
}

// recount records which nodes a node counts. Only a step of its core or another roster can change this.
func (c *Cluster) recount(n *Node) {
	if counts := c.counted(n); counts != n.counts {
		n.counts, n.moved = counts, true
	}
}

// overlap is a period in which two nodes feed whose views have no common member.
type overlap struct {
	since   boottime.Instant
	holders int // how many of the two hold by the LUN and have no other reason
}

// overlap limits how long two such nodes may both feed.
func (c *Cluster) overlap(holders int) (bound time.Duration) {
	for _, t := range []*Times{&c.cfg.Times, c.cfg.Odd} {
		switch {
		case t == nil:
		case holders == 0:
			bound = max(bound, c.cfg.undecided(t))
		default:
			evidence := t.Timing.MaxAge + c.cfg.sampling(t)
			bound = max(bound, evidence+t.Timing.Arbitrate+max(evidence, c.cfg.voices(t))+t.Timing.Grant)
		}
	}
	return bound + slack
}

// checkDeaths compares newly published proofs of death with the truth: the boot that is called dead must have ended.
func (c *Cluster) checkDeaths(n *Node, fenced roster.Set) {
	if fenced != n.fenced {
		c.checkFenced(n, fenced)
	}
	for _, victim := range c.nodes {
		p, ok := n.indices.of(victim)
		if !ok {
			continue
		}
		death := n.core.Deaths().Of(p)
		if (death.Proof == watchdog.ProofBoot || death.Proof == watchdog.ProofSentence) && death.Boot == victim.boot && n.ended[p] != death {
			c.check.add("%v: %s reports that the boot of %s has ended, and it has not", c.Now(), n.Name, victim.Name)
		}
		n.ended[p] = death
	}
}

func (c *Cluster) checkFenced(n *Node, fenced roster.Set) {
	for p := range fenced.Minus(n.fenced).All() {
		death, victim := n.core.Deaths().Of(p), c.named(n.roster.Name(p))
		c.trace("%s: %s is fenced, proof by %v", n.Name, victim.Name, death.Proof)
		c.check.Proofs[death.Proof]++
		if death.Boot == victim.boot || death.Boot == 0 && victim.Resets == 0 {
			c.check.add("%v: %s calls %s fenced by %v, and that boot was not reset", c.Now(), n.Name, victim.Name, death.Proof)
		}
	}
	n.fenced = fenced
}

// checkStrike checks a node that takes itself down. If it could not learn who is alive, its own silence is reason
// enough.
func (c *Cluster) checkStrike(n *Node) {
	c.trace("%s takes itself down", n.Name)
	if !n.core.Holds() {
		return
	}
	c.check.Strikes++
	if n.judged {
		return // checkSentence has checked the reason; the node is dead in any case
	}
	latest := boottime.Instant(0)
	for _, m := range c.nodes {
		if m != n {
			latest = max(latest, m.lived)
		}
	}
	bound := time.Duration(0)
	for _, t := range []*Times{&c.cfg.Times, c.cfg.Odd} {
		if t != nil {
			bound = max(bound, t.Timing.MaxAge+c.cfg.sampling(t)+slack)
		}
	}
	if c.now.Sub(latest) > bound {
		c.check.add("%v: %s takes itself down, and nobody has lived for %v", c.Now(), n.Name, c.now.Sub(latest))
	}
}

func (c *Cluster) named(name string) *Node {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *Node) bool { return n.Name == name })]
}

// Proofs returns the number of published proofs of death of each kind.
func (c *Cluster) Proofs() map[watchdog.Proof]int { return c.check.Proofs }

func (c *Cluster) checkLog(n *Node) {
	if !n.up || n.core.Arbiter() == nil {
		return
	}
	inst, grant := n.core.Arbiter().Decision()
	if inst == 0 {
		return
	}
	k := &c.check
	if n.logged.inst != inst {
		known, ok := k.decided[inst]
		if !ok {
			known, k.decided[inst] = grant, grant
		}
		n.logged = logged{inst, known}
	}
	if known := n.logged.known; known != grant && !known.Equal(grant) {
		k.add("%v: instance %d decided twice: %+v and, at %s, %+v", c.Now(), inst, *known, n.Name, *grant)
		k.decided[inst] = grant
		for _, m := range c.nodes {
			m.logged = logged{} // the node may hold that instance
		}
		k.due = c.now
	}
}

// logged is the last instance that a node has decided, with the value that it knows.
type logged struct {
	inst  uint64
	known *diskquorum.Grant
}

// noteBridge counts how often a node continues because its partner has a majority.
func (c *Cluster) noteBridge(n *Node) {
	was := n.bridged
	n.bridged = n.decision.Reason == watchdog.ReasonSplitWon && n.core.Split().Why != ""
	if n.bridged && !was {
		c.check.Bridged++
		c.trace("%s: continues under the grant; %s", n.Name, n.core.Split().Why)
	}
}

func (k *checker) add(format string, args ...any) {
	if len(k.violations) < 20 {
		k.violations = append(k.violations, fmt.Sprintf(format, args...))
	}
}

// Feeding lists the nodes that have permission to feed now.
func (c *Cluster) Feeding() []int {
	var out []int
	for _, n := range c.nodes {
		if c.feeding(n) {
			out = append(out, n.Index)
		}
	}
	return out
}

// Resets counts how often watchdogs fired.
func (c *Cluster) Resets() int {
	total := 0
	for _, n := range c.nodes {
		total += n.Resets
	}
	return total
}

// Report prints one line per node, for scenario files and people.
func (c *Cluster) Report() string {
	var b strings.Builder
	for _, n := range c.nodes {
		if !n.up {
			fmt.Fprintf(&b, "%s: down, resets %d\n", n.Name, n.Resets)
			continue
		}
		d := n.decision
		fmt.Fprintf(&b, "%s: %-6v %-22v view [%s] %v\n", n.Name, d.Action, d.Reason,
			strings.Join(n.roster.Names(n.core.View().Counted), " "), n.core.Outcome())
	}
	return b.String()
}

// Events returns the LEFT and JOIN events that a node has published since the last call.
func (c *Cluster) Events(i int) []string {
	e := c.nodes[i].events
	c.nodes[i].events = nil
	return e
}

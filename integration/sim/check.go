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

// slack is what a check allows for the simulator's own granularity.
const slack = 10 * time.Millisecond

type checker struct {
	moved      bool      // somebody counts others than when apart was found
	apart      [][2]int  // the pairs of nodes whose views have no common member
	both       []overlap // [a*nodes + b] of those that both feed
	decided    map[uint64]*diskquorum.Grant
	violations []string
	Attempts   []diskquorum.Attempt
	Proofs     map[watchdog.Proof]int
	granted    []bool // nodes that feed under a grant of the Lease
	Grants     int    // how often one began to
	Sentences  int    // how many boots were condemned
	Strikes    int    // how often a node that hears by the LUN who lives took itself down
	ByOrder    int    // of these, this many by an order
	Obeyed     int    // so many orders were answered with that,
	Forbidden  map[watchdog.Refusal]int
	ByLUN      int // how often a node began to live by the LUN where no network reached a majority
	Bridged    int // how often a node began to feed beside a partner that has a majority (L14)

	links   boottime.Instant // when all links are checked next
	Probes  int
	Asked   int // peers, for their claims
	Vouches int // and Sweeps: of groups where samples are taken
	Sweeps  int
	// Stretched counts how often a quorum lasted a little longer than it may, see checkQuorum.
	Stretched int
	Links     int // how often a link that was whole was found to have young evidence
}

func (k *checker) begin(nodes int) {
	k.moved, k.both, k.granted = true, make([]overlap, nodes*nodes), make([]bool, nodes)
	k.decided, k.Proofs = map[uint64]*diskquorum.Grant{}, map[watchdog.Proof]int{}
	k.Forbidden = map[watchdog.Refusal]int{}
}

func (k *checker) attempt(a *diskquorum.Attempt) { k.Attempts = append(k.Attempts, *a) }

// Violations lists what broke safety, in words; empty is what it must be.
//
//   - Two nodes whose views have no common member both have permission to feed for longer
//     than the tie's budget before the watchdog: max(D_max+A, G), or, where one of them holds by the LUN,
//     D_lun + D_max + G. Where both do, nobody lives. Only the policy fence promises that.
//   - One instance of the log has two values.
//   - Two halves feed by grants of the Lease at one moment.
//   - A grant of the Lease is replaced while a holder runs whose token has not moved on.
//   - A node is published as fenced that is still running as it was, or its boot as ended.
//   - A node that hears by the LUN who lives takes itself down for nobody: nobody has lived for D_max.
//   - Evidence of a peer, a vouch or a quorum is dated later than the network's packets bear out.
//   - Two nodes that nothing keeps from talking on a network have no young evidence of each other there.
//   - A node obeys an order that nobody has given for its boot, under maintenance, beside another one, or so that no majority is left.
//   - A peer is probed at a rate that has no bound.
func (c *Cluster) Violations() []string { return c.check.violations }

// Grants counts how often a node began to feed under a grant of the Lease.
func (c *Cluster) Grants() int { return c.check.Grants }

// Bridged counts how often a node went on under a grant beside a partner that counts a majority again.
func (c *Cluster) Bridged() int { return c.check.Bridged }

// Attempts lists the ballots that ended.
func (c *Cluster) Attempts() []diskquorum.Attempt { return c.check.Attempts }

// undecided bounds how long a node feeds that has no majority and is granted nothing.
func (c *Config) undecided(t *Times) time.Duration {
	return max(max(t.Timing.MaxAge+c.sampling(t), c.voices(t))+t.Timing.Arbitrate, t.Timing.Grant)
}

func (c *Cluster) checkStep() {
	k := &c.check
	c.checkGrants()
	c.checkLinks()
	for _, n := range c.nodes {
		if !c.older.unpromised {
			c.checkLog(n)
		}
		if n.judged && c.feeding(n) {
			k.add("%v: %s is condemned, and has permission to feed: %v", c.Now(), n.Name, n.decision.Reason)
		}
	}
	if c.cfg.OnLoss != watchdog.LossFence || c.older.unpromised {
		return
	}
	if k.moved {
		c.findApart()
	}
	for _, pair := range k.apart {
		a, b := c.nodes[pair[0]], c.nodes[pair[1]]
		was := &k.both[pair[0]*len(c.nodes)+pair[1]]
		if !c.feeding(a) || !c.feeding(b) {
			*was = overlap{}
			continue
		}
		now := overlap{holders: holders(a, b), since: c.now}
		if was.since == 0 || was.holders != now.holders {
			*was = now
		} else if c.now.Sub(was.since) > c.overlap(now.holders) && now.holders < 2 {
			k.add("%v: %s (%v) and %s (%v) have both been feeding for %v with disjoint views",
				c.Now(), a.Name, a.decision.Reason, b.Name, b.decision.Reason, c.now.Sub(was.since))
			*was = now
		}
	}
}

// recount notes whom a node counts, which nothing changes but a step of its core and another roster. To compare
// the large sets of all pairs with each event was most of the time of a run.
func (c *Cluster) recount(n *Node) {
	if counts := c.counted(n); counts != n.counts {
		n.counts, c.check.moved = counts, true
	}
}

// findApart finds the pairs whose views have no common member.
func (c *Cluster) findApart() {
	k := &c.check
	k.moved, k.apart = false, k.apart[:0]
	for i, a := range c.nodes {
		for j := i + 1; j < len(c.nodes); j++ {
			if a.counts.Intersects(c.nodes[j].counts) {
				k.both[i*len(c.nodes)+j] = overlap{}
			} else {
				k.apart = append(k.apart, [2]int{i, j})
			}
		}
	}
}

// overlap is that two nodes feed whose views have no common member.
type overlap struct {
	since   boottime.Instant
	holders int // this many of them hold by the LUN, and live by nothing else
}

func holders(nodes ...*Node) (n int) {
	for _, f := range nodes {
		if r := f.decision.Reason; r == watchdog.ReasonNobodyLives || r == watchdog.ReasonLUNAsking {
			n++
		}
	}
	return n
}

// overlap bounds how long two such nodes may go on.
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

// checkDeaths holds a newly published proof of death against the truth: the victim must
// have been reset since.
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
			c.check.add("%v: %s says that the boot of %s has ended, which it has not", c.Now(), n.Name, victim.Name)
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
			c.check.add("%v: %s calls %s fenced by %v, which was not reset since", c.Now(), n.Name, victim.Name, death.Proof)
		}
	}
	n.fenced = fenced
}

// checkStrike judges a node that takes itself down. Where it cannot hear who lives, silence has to do.
func (c *Cluster) checkStrike(n *Node) {
	c.trace("%s takes itself down", n.Name)
	if !n.core.Holds() {
		return
	}
	c.check.Strikes++
	if n.judged {
		return // checkSentence has judged its ground. It is dead in any case, and takes itself down when its word has had time to land
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

// Proofs counts the published proofs of death by their kind.
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
			m.logged = logged{} // which may be that instance
		}
	}
}

// logged is the instance that a node has decided last, with the value that is known of it.
type logged struct {
	inst  uint64
	known *diskquorum.Grant
}

// checkGrants holds the Lease to what it promises: two halves do not feed by grants of it at one
// moment, however short.
func (c *Cluster) checkGrants() {
	if c.kube == nil {
		return
	}
	k := &c.check
	for i, a := range c.nodes {
		by := c.feeding(a) && a.decision.Reason == watchdog.ReasonSplitWon
		if by && !k.granted[i] {
			k.Grants++
		}
		k.granted[i] = by
		for j, b := range c.nodes[:i] {
			if by && k.granted[j] && !a.counts.Intersects(b.counts) {
				k.add("%v: %s and %s both feed under grants of the Lease, of different halves", c.Now(), b.Name, a.Name)
			}
		}
	}
}

// noteBridge counts how often a node goes on by the majority of a partner.
func (c *Cluster) noteBridge(n *Node) {
	was := n.bridged
	n.bridged = n.decision.Reason == watchdog.ReasonSplitWon && n.core.Split().Why != ""
	if n.bridged && !was {
		c.check.Bridged++
		c.trace("%s: goes on under the grant; %s", n.Name, n.core.Split().Why)
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

// Report prints one line a node, for scenario files and people.
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

// Events returns and forgets the LEFT and JOIN edges a node published.
func (c *Cluster) Events(i int) []string {
	e := c.nodes[i].events
	c.nodes[i].events = nil
	return e
}

package agentsim

import (
	"fmt"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// checker judges the agents by the packets that the simulated networks let through. Callers of its methods hold the
// world's mu, unless a method says otherwise.
type checker struct {
	w *world

	conn  [][]bool          // whether the first hears the second on enough networks; see hears
	since [][]time.Duration // since when conn has been true; meaningless while it is false
	last  [][]time.Duration // when conn was last true; far in the past if it never was

	together [][]bool // whether two nodes had long been in contact when one of them obeyed an order

	lastFeed []time.Duration // by node; zero: not fed since its last reset
	heldFeed []bool          // whether the agent held at that feed, and so did not claim quorum
	fedBy    []breaking      // how the agent of that feed breaks ties
	fedSince []time.Duration // since when the node has been fed without a break
	firedAt  []time.Duration // zero: it has never fired
	lossy    time.Duration   // when the networks last lost more packets than the rule calm allows
	lunBad   time.Duration   // when a path to the LUN was last bad
	apiBad   time.Duration   // when a path to the API server was last bad

	tie  *tie
	left map[[2]int]time.Duration // when one node reported the other as LEFT without good reason

	feeds, events, lefts, ties, deaths int
	orders                             int // orders that were obeyed
	stale                              int // answers that agents gave when their verdict must have ended
	violations                         []string
}

// tie is an equal split of a healthy group, while nothing else has disturbed it.
type tie struct {
	at     time.Duration
	halves [2][]int
}

const (
	longAgo = -time.Hour
	// settle is the longest time that joining, or being counted again after a heal, can take.
	settle = 8 * time.Second
	// fewLosses is the share of lost packets that must not cause a reset.
	fewLosses = 0.05
	// speaksOn is the time for which an agent whose loop hangs repeats its last statement.
	speaksOn = 1500 * time.Millisecond
	// healthyFor is the time for which a group is left alone before the result of a split is judged.
	healthyFor = 35 * time.Second
)

func newChecker(w *world) *checker {
	n := w.s.Nodes
	c := &checker{w: w, lastFeed: make([]time.Duration, n), heldFeed: make([]bool, n), fedBy: make([]breaking, n), fedSince: make([]time.Duration, n), firedAt: make([]time.Duration, n), left: map[[2]int]time.Duration{}, lossy: longAgo, lunBad: longAgo, apiBad: longAgo}
	for range n {
		c.conn = append(c.conn, make([]bool, n))
		c.since = append(c.since, make([]time.Duration, n))
		c.together = append(c.together, make([]bool, n))
		last := make([]time.Duration, n)
		for i := range last {
			last[i] = longAgo
		}
		c.last = append(c.last, last)
	}
	return c
}

func (c *checker) failed(format string, args ...any) {
	if !c.w.ended && !c.w.s.Unjudged && len(c.violations) < 10 {
		c.violations = append(c.violations, fmt.Sprintf("%.3fs: ", c.w.now().Seconds())+fmt.Sprintf(format, args...))
	}
}

// Callers enclose a change of conditions in before and after.
func (c *checker) before() {
	now := c.w.now()
	for x := range c.conn {
		for y, on := range c.conn[x] {
			if on {
				c.last[x][y] = now
			}
		}
	}
	if c.w.loss > fewLosses {
		c.lossy = now
	}
	for _, m := range c.w.machines {
		if m.path.bad {
			c.lunBad = now
		}
		if m.api != apiReachable {
			c.apiBad = now
		}
	}
}

func (c *checker) after() {
	now := c.w.now()
	for x := range c.conn {
		for y := range c.conn[x] {
			on := x != y && c.hears(x) && c.speaks(y) && c.linked(x, y)
			if on && !c.conn[x][y] {
				c.since[x][y] = now
			}
			c.conn[x][y] = on
		}
	}
}

// hears reports whether a node receives the statements of others. Its sockets receive them even while its loop hangs,
// and date them by the node's own questions. The loop finds them when it continues.
func (c *checker) hears(i int) bool {
	m := c.w.machines[i]
	return m.powered && m.proc != nil && !m.proc.stop.isShut()
}

// speaks reports whether a node's answers count. Those of a node that is ending because of an order do not.
func (c *checker) speaks(i int) bool {
	return c.hears(i) && !c.w.machines[i].obeyed && (!c.w.machines[i].proc.loop.isShut() || c.w.now() < c.w.machines[i].proc.hungAt+speaksOn)
}

// linked reports whether two nodes reach each other both ways on enough networks.
func (c *checker) linked(x, y int) bool {
	good := 0
	for k := range c.w.cut {
		if !c.w.cut[k][x][y] && !c.w.cut[k][y][x] && c.w.machines[x].carrier[k] && c.w.machines[y].carrier[k] {
			good++
		}
	}
	return good == len(c.w.cut) || good > 0 && !c.w.s.AllNetworks
}

// world returns the nodes from which x can have heard within the given time, including x.
func (c *checker) world(x int, within time.Duration) map[int]bool {
	heard := map[int]bool{x: true}
	for y := range c.conn[x] {
		if c.conn[x][y] || c.last[x][y] >= c.w.now()-within {
			heard[y] = true
		}
	}
	return heard
}

func (c *checker) apart(x, y int, within time.Duration) bool {
	other := c.world(y, within)
	for z := range c.world(x, within) {
		if other[z] {
			return false
		}
	}
	return true
}

// slack is the time allowed for the round trip, the loop and the feeder.
func (c *checker) slack() time.Duration { return 300*time.Millisecond + 4*c.w.delay }

// fed judges a feed that has just taken effect.
func (c *checker) fed(p *process) {
	x, now, t := p.m.index, c.w.now(), c.w.times
	c.feeds++
	if c.lastFeed[x] == 0 || now-c.lastFeed[x] > 2*t.feed || c.fedBy[x] != p.breaks {
		c.fedSince[x] = now
	}
	c.lastFeed[x], c.heldFeed[x], c.fedBy[x] = now, p.holding, p.breaks
	if longest := max(t.maxAge+t.arbitrate, t.grant) + c.slack(); p.loop.isShut() && now > p.hungAt+longest {
		c.failed("stale: %s is fed, and its loop has decided nothing for %v", p.m.name, now-p.hungAt)
	}
	if c.w.s.OnLoss != "fence" {
		if !c.w.lists.anyHas(c.world(x, now-p.startedAt), true) {
			c.failed("bootgate: %s is fed, and its agent was never in contact with half of the group", p.m.name)
		}
		return
	}
	if heard := c.world(x, t.maxAge+c.slack()); !p.holding && !c.w.lists.anyHas(heard, c.w.s.oneHalf() || c.w.s.API) {
		c.failed("lonely: %s is fed, and can have heard from no more than %d nodes for %v", p.m.name, len(heard), t.maxAge)
	}
	if c.w.s.API && !c.w.s.oneHalf() {
		return // both halves may live
	}
	for y, m := range c.w.machines {
		if y == x || !m.powered {
			continue
		}
		tie := max(t.maxAge+t.arbitrate, t.grant)
		if c.fedBy[y] == apiAlone && p.breaks == apiAlone {
			continue // both halves may live
		}
		since := max(c.fedSince[x], p.saidSince) // and has had quorum or held since then
		other := c.heldFeed[y]
		if other || p.holding {
			tie = c.overlap()
			since = max(since, c.livedSince(x, y))
		}
		if p.holding && (other || m.proc == nil) {
			continue // neither has quorum
		}
		// One node may begin to be fed just after the other has renounced. Only the time in which both are fed counts.
		if fed := c.lastFeed[y]; fed > c.fedSince[x] && fed >= now-2*t.feed && now-since > tie+2*t.feed && c.apart(x, y, tie+2*t.feed+c.slack()) {
			c.failed("split: %s and %s are both fed, and nobody could be heard by both for %v", p.m.name, m.name, tie+2*t.feed)
		}
		if dead := t.dead + c.slack(); !p.holding && now-since > dead && c.apart(x, y, dead) && m.dog.Running() {
			c.failed("horizon: the watchdog of %s has not fired, and %s has been fed for T_dead = %v in which nobody could be heard by both", m.name, p.m.name, t.dead)
		}
	}
}

// decided records whether an agent reports that it holds. The agent reports the same to its subscribers; one that
// reports quorum acts on it and is judged by it.
func (c *checker) decided(p *process, holding bool) {
	if holding != p.holding {
		p.holding, p.saidSince = holding, c.w.now()
	}
}

// overlap limits how long a node can hold beside one that has quorum: until what the holder has heard of the others is
// too old, and the nodes that the other one counts have missed the holder.
func (c *checker) overlap() time.Duration {
	t := c.w.times
	return 2*t.maxAge + t.arbitrate + t.grant + 2*time.Second
}

// livedSince returns since when the node of the two that did not hold at its last feed has had quorum.
func (c *checker) livedSince(x, y int) (since time.Duration) {
	for _, i := range []int{x, y} {
		if p := c.w.machines[i].proc; p != nil && !c.heldFeed[i] {
			since = max(since, p.saidSince, c.fedSince[i])
		}
	}
	return since
}

// answered judges an agent's report about its own node: a verdict ends with its deadline, and continues only after the
// loop has decided again.
func (c *checker) answered(p *process, said fencingv1.Permission, listed bool) {
	t := c.w.times
	longest := max(t.maxAge+t.arbitrate, t.grant)
	if 2*p.hungIn > c.w.s.Nodes && len(c.w.lists.all) == 1 {
		// The agent counted a majority, and that verdict ends with its evidence.
		longest = t.maxAge
	}
	if !p.loop.isShut() || c.w.now() <= p.hungAt+longest+c.slack() {
		return
	}
	c.stale++
	if said == fencingv1.Permission_PERMISSION_FEED || said == fencingv1.Permission_PERMISSION_HOLD || listed {
		c.failed("stale: %s answers %v, listed %t, and its loop has decided nothing for %v", p.m.name, said, listed, c.w.now()-p.hungAt)
	}
}

// contacts counts the nodes, including x, with which x has been in contact for long enough to count them.
func (c *checker) contacts(x int) int {
	n := 1
	for y, on := range c.conn[x] {
		if on && c.since[x][y]+settle <= c.w.now() {
			n++
		}
	}
	return n
}

// steady lists the nodes, including x, that x could hear for the given time without a break, and whose processes were
// not touched. It is empty if x's own process was touched.
func (c *checker) steady(x int, within time.Duration) []int {
	from := c.w.now() - within
	untouched := func(i int) bool {
		p := c.w.machines[i].proc
		return c.speaks(i) && p.startedAt+settle <= from && p.disturbed <= from && !p.planned
	}
	if !untouched(x) || c.lossy > from || c.w.loss > fewLosses {
		return nil
	}
	with := []int{x}
	for y := range c.conn[x] {
		if c.conn[x][y] && c.since[x][y] <= from && untouched(y) {
			with = append(with, y)
		}
	}
	return with
}

func (c *checker) fired(m *machine) {
	t := c.w.times
	c.firedAt[m.index], c.lastFeed[m.index], c.heldFeed[m.index] = c.w.now(), 0, false
	if with := c.steady(m.index, t.watchdog+t.feed+t.maxAge+settle); c.w.lists.allHave(m.index, with) {
		c.failed("calm: %s was reset, and could hear from the same %d nodes all the time", m.name, len(with))
	}
}

// stillHeard returns how long a node may still be heard after it was reported as LEFT. A node that has condemned itself
// is rightly reported at once. It is heard until its last countdown of one second ends, which an IB700 does late.
func (c *checker) stillHeard(y int) time.Duration {
	if dog := c.w.machines[y].dog; dog != nil && dog.Stats().Shortened > 0 {
		return watchdog.LatestOfAny(time.Second) + 500*time.Millisecond
	}
	return time.Second
}

// tick looks for events that are missing. It takes mu.
func (c *checker) tick() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.ended {
		return
	}
	t := c.w.times
	for i, m := range c.w.machines {
		if m.dog != nil && m.dog.Stats().Broken > 0 {
			c.failed("sentence: the watchdog of %s was fed, armed or disarmed after its countdown was made short for good", m.name)
		}
		idle := c.w.now() - c.lastFeed[i]
		if c.w.s.Quiet {
			continue // an agent arms when most nodes have received its report, which can be late
		}
		if with := c.steady(i, 20*time.Second); idle > 2*t.feed+time.Second && c.w.lists.allHave(i, with) {
			c.failed("survival: %s is not fed for %v, and could hear from the same %d nodes for 20s", m.name, idle, len(with))
		}
	}
	for pair, at := range c.left {
		switch x, y := pair[0], pair[1]; {
		case !c.conn[x][y] || c.since[x][y] > at || !c.conn[y][x] || c.since[y][x] > at:
			delete(c.left, pair)
		case c.w.now()-at > c.stillHeard(y):
			c.failed("left: %s said LEFT %s at %v, and both could hear each other for 15s", c.w.machines[x].name, c.w.machines[y].name, at)
		}
	}
	if c.tie != nil && c.w.now() > c.tie.at+t.dead+2*time.Second {
		c.judgeTie()
	}
}

// watchTie begins to watch an equal split, if the group was healthy. It takes mu.
func (c *checker) watchTie(halves [2][]int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	now, quiet := c.w.now(), 25*time.Second
	if c.w.s.Lease {
		quiet = c.w.s.seasoned() - 10*time.Second
	}
	for i, m := range c.w.machines {
		if !c.w.allAlike() || m.way() == apiAlone || len(c.w.lists.all) > 1 || len(c.steady(i, quiet)) != c.w.s.Nodes || m.path.bad || c.w.s.Lease && m.api != apiReachable || c.lastFeed[i] == 0 {
			return
		}
	}
	good := c.w.s.LUN && c.lunBad < now-quiet || c.w.s.Lease && c.apiBad < now-quiet
	if good && c.w.loss == 0 && c.w.s.OnLoss == "fence" {
		c.tie = &tie{now, halves}
	}
}

// lately reports whether a node has been fed recently.
func (c *checker) lately(i int) bool {
	return c.lastFeed[i] > 0 && c.w.now()-c.lastFeed[i] < 2*c.w.times.feed+time.Second
}

func (c *checker) judgeTie() {
	lives := func(half []int) int {
		count := 0
		for _, i := range half {
			if c.firedAt[i] < c.tie.at && c.lately(i) {
				count++
			}
		}
		return count
	}
	a, b := lives(c.tie.halves[0]), lives(c.tie.halves[1])
	if size := len(c.tie.halves[0]); !(a == size && b == 0 || a == 0 && b == size) {
		c.failed("tie: of the halves of a healthy group %d and %d of %d nodes live after T_dead", a, b, size)
	}
	c.tie = nil
	c.ties++
}

// disturbedNow stops watching an equal split. It takes mu.
func (c *checker) disturbedNow() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.tie = nil
}

// gone judges the end of an agent that nobody has stopped.
func (c *checker) gone(p *process, err error) {
	c.failed("gone: the agent of %s ended although nobody stopped it: %v", p.m.name, err)
}

// fenced judges a proof of death. The incarnation that it names, or the first one if it names none, must not be
// running.
func (c *checker) fenced(p *process, name, nonce string) {
	c.deaths++
	m := c.w.machines[nodeIndex(name)]
	if m.powered && (nonce == fmt.Sprintf("%016x", m.boot) || nonce == "" && m.resets == 0) {
		c.failed("fenced: %s says FENCED %s, and its watchdog has not fired (running: %v)", p.m.name, name, m.dog.Running())
	}
}

func (c *checker) published(p *process, e *fencingv1.Event) {
	c.events++
	if e.GetType() == fencingv1.EventType_LEFT {
		c.lefts++
	}
	x := p.m.index
	y := nodeIndex(e.GetNode().GetName())
	if e.GetType() == fencingv1.EventType_JOIN {
		delete(c.left, [2]int{x, y})
	}
	if e.GetType() != fencingv1.EventType_LEFT || x == y || y < 0 || y >= c.w.s.Nodes {
		return
	}
	from := c.w.now() - 15*time.Second
	if c.conn[x][y] && c.since[x][y] <= from && c.w.lists.everywhere(x) && c.w.lists.everywhere(y) &&
		len(c.steady(x, 15*time.Second)) > 1 && len(c.steady(y, 15*time.Second)) > 1 {
		c.left[[2]int{x, y}] = c.w.now()
	}
}

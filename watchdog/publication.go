package watchdog

import (
	"math"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// LeftReason is the reason why a node is no longer published as available. Its strings are the vocabulary of logs,
// metrics and status.
type LeftReason uint8

const (
	LeftUnreachable    LeftReason = iota + 1 // there is no evidence of it any more
	LeftLeaving                              // it announced that it leaves
	LeftRestartOverdue                       // it announced a restart, and was not back before the grace ended
	LeftRebooted                             // it came back with another boot: its earlier workloads are gone
	LeftNoQuorum                             // this node itself, for want of quorum
	LeftDoubted                              // several members miss it, each by its own probes, although evidence of it has not run out
	LeftFlapping                             // it is back, but leaves and returns too often to be published: not a LEFT reason by itself, see LeftReason
)

var leftNames = [...]string{
	LeftUnreachable:    "unreachable",
	LeftLeaving:        "leaving",
	LeftRestartOverdue: "restart_overdue",
	LeftRebooted:       "rebooted",
	LeftNoQuorum:       "no_quorum",
	LeftDoubted:        "doubted",
	LeftFlapping:       "flapping",
}

// String returns the reason's name in logs, metrics and the API.
func (r LeftReason) String() string { return nameOf(leftNames[:], r, "none") }

// LeftReasons lists all reasons with which a LEFT is published, for metrics that must exist from the start.
func LeftReasons() []LeftReason { return allOf[LeftReason](leftNames[:LeftFlapping]) }

// publication evaluates what the peers announce about leaving and returning. A node that restarts its agent is not
// LEFT. A node that leaves is LEFT before evidence of it runs out. A node that was rebooted is LEFT even if no node
// missed it.
//
// Nothing here affects the quorum. A node whose grace delays its LEFT is seen by nobody and counted by nobody; the
// grace only affects subscribers.
type publication struct {
	grace time.Duration
	peers []peerLife

	leaving    roster.Set
	restarting roster.Set
	rebooted   roster.Set // since the step before
	twins      roster.Set // two machines answer under one name, see followBoot
	held       roster.Set // published as available only because of the grace

	silent  []netgossip.Silence // as passed to SetSilent
	doubted roster.Set          // not available, although they are seen

	present  roster.Set // the members that would be published as available if none were held for flapping
	flapping roster.Set // members whose JOIN is held, see damp
}

type peerLife struct {
	statement *netgossip.Statement // the latest statement that the sets reflect
	boot      uint64
	former    uint64     // the boot before the latest one; 0: none is known
	why       LeftReason // reason of its latest LEFT, or of a LEFT that was not published while it flapped
	flaps     flaps
}

func newPublication(size int, grace time.Duration) publication {
	return publication{grace: grace, peers: make([]peerLife, size)}
}

func (p *publication) renumber(n roster.Renumbering, size int) {
	peers := make([]peerLife, size)
	for i, k := range n {
		if k >= 0 {
			peers[k] = p.peers[i]
		}
	}
	p.peers = peers
	p.leaving, p.restarting = n.Set(p.leaving), n.Set(p.restarting)
	p.rebooted, p.held, p.twins = n.Set(p.rebooted), n.Set(p.held), n.Set(p.twins)
	p.doubted = n.Set(p.doubted)
	p.present, p.flapping = n.Set(p.present), n.Set(p.flapping)
	var silent []netgossip.Silence
	for _, s := range p.silent {
		if k := n[s.Peer]; k >= 0 {
			silent = append(silent, netgossip.Silence{Peer: k, Since: s.Since})
		}
	}
	p.silent = silent
}

// follow evaluates the peers' new statements. It skips statements that it has already examined, because most steps
// bring no new ones.
func (p *publication) follow(m *netgossip.Merger) {
	p.rebooted = roster.Set{}
	for i := range p.peers {
		l := &p.peers[i]
		st, _ := m.Statement(i)
		if st == l.statement || st == nil {
			continue
		}
		l.statement = st
		p.followBoot(i, st.Boot)
		put(&p.leaving, i, st.Leaving())
		put(&p.restarting, i, st.Restarting())
	}
}

// followBoot finds reboots. A boot of 0 is not known and shows nothing. A boot that has ended does not come back. If
// one seems to come back, two machines have the peer's name and address, like two copies of one machine. Each change
// between their answers would look like a reboot; such changes are ignored until a third boot answers.
func (p *publication) followBoot(i int, boot uint64) {
	l := &p.peers[i]
	switch {
	case boot == 0 || boot == l.boot:
	case boot == l.former:
		p.twins.Add(i)
		l.boot, l.former = boot, l.boot
	default:
		if l.boot != 0 {
			p.rebooted.Add(i)
		}
		p.twins.Remove(i)
		l.boot, l.former = boot, l.boot
	}
}

// hold picks the missing members whose restart grace has not run out, and returns the end of the first of these graces.
// The grace begins with the last evidence, so it ends for all observers at about the same moment, no matter when each
// of them missed the node.
func (p *publication) hold(m *netgossip.Merger, missing roster.Set, now boottime.Instant) boottime.Instant {
	p.held = roster.Set{}
	next := boottime.Never
	if !missing.Intersects(p.restarting) {
		return next
	}
	for i := range missing.All() {
		if !p.restarting.Has(i) {
			continue
		}
		if _, anchor := m.Statement(i); anchor.Add(p.grace) > now {
			p.held.Add(i)
			next = min(next, anchor.Add(p.grace))
		}
	}
	return next
}

func (p *publication) noteLeft(left roster.Set, self int) {
	if left.IsEmpty() {
		return
	}
	for i := range left.All() {
		why := LeftUnreachable
		switch {
		case i == self:
			why = LeftNoQuorum
		case p.rebooted.Has(i):
			why = LeftRebooted
		case p.leaving.Has(i):
			why = LeftLeaving
		case p.restarting.Has(i) && p.grace > 0:
			why = LeftRestartOverdue
		case p.doubted.Has(i):
			why = LeftDoubted
		}
		p.peers[i].why = why
	}
}

// Restarting lists the nodes that are published as available although nothing is heard of
// them, because they announced a restart of their agent.
func (p *publication) Restarting() roster.Set { return p.held }

// Twins lists the peers under whose name and address two machines answer in turns.
func (p *publication) Twins() roster.Set { return p.twins }

// LeftReason returns why the node was LEFT most recently, or why it is still LEFT although it is back; zero: it never
// was LEFT.
func (p *publication) LeftReason(i int) LeftReason {
	if p.Flapping().Has(i) {
		return LeftFlapping
	}
	return p.peers[i].why
}

// SetSilent sets the peers that this node and others miss (netgossip/doubt). It only affects publication: whom the node
// sees, counts, vouches for and claims dead, and what its statement says, depends on evidence.
func (p *publication) SetSilent(peers []netgossip.Silence) { p.silent = slices.Clone(peers) }

// doubt picks the silent peers that are still in doubt. A peer that has answered since its silence began is not in
// doubt, no matter what later reports say about it.
func (p *publication) doubt(m *netgossip.Merger, seen roster.Set) {
	p.doubted = roster.Set{}
	for _, s := range p.silent {
		if seen.Has(s.Peer) && !m.AnsweredSince(s.Peer, s.Since) {
			p.doubted.Add(s.Peer)
		}
	}
}

// judgedByOthers reports whether this node is without quorum because of the others' statements, and not because it
// lacks evidence. A node that stalled lacks evidence until it has heard another node.
func (c *Core) judgedByOthers() bool {
	switch c.fx.Decision.Reason {
	case ReasonCondemned, ReasonSplitLost, ReasonIsolated, ReasonLUNLost:
		return true
	}
	return c.stopping
}

// publish computes the set of available nodes and its edges. A node that has no quorum is not available on its own
// socket either, unless its policy is to wait. A node in both edges was LEFT first and then JOINed.
func (c *Core) publish(now boottime.Instant) {
	p, shown := &c.publication, c.fx.Available
	before := p.present
	p.follow(c.merger)
	p.doubt(c.merger, c.view.Seen)
	avail := c.view.Seen.And(c.rosters.expected).Minus(p.doubted)
	if now < c.stall.holdLeft {
		wait := before
		if !c.stall.brief || c.judgedByOthers() {
			wait.Remove(c.cfg.Roster.Self) // others may have missed this node, or have said so: no reason to wait
		}
		avail = avail.Union(wait)
	}
	avail = avail.Minus(p.leaving).Minus(c.proof.parted()) // a condemned node that could not announce it is still in contact, but runs for seconds only
	if d := &c.fx.Decision; d.Quorum || d.Action == Hold || (d.Action == Feed && c.cfg.OnLoss == LossWait) {
		avail.Add(c.cfg.Roster.Self)
	}
	c.fx.Wake = min(c.fx.Wake, p.hold(c.merger, before.Minus(avail), now))
	avail = avail.Union(p.held)
	p.present = avail

	again := p.rebooted.And(before) // no node has missed them
	gone := before.Minus(avail).Union(again)
	p.noteLeft(gone, c.cfg.Roster.Self)
	c.fx.Wake = min(c.fx.Wake, p.damp(avail.Minus(before).Union(again.And(avail)), c.rosters.expected.Len(), now))
	avail = avail.Minus(p.flapping)

	c.fx.Joined = avail.Minus(shown.Minus(again))
	c.fx.Left = gone.And(shown)
	c.fx.Available, c.fx.Flapping = avail, c.Flapping()
}

// Flap damping works as in routers with unstable routes (RFC 2439). Each unannounced return of a peer adds one to its
// penalty, which halves in flapHalfLife. If a return raises the penalty to flapSuppress, it is not published; later
// returns are not published either until the penalty has sunk to flapReuse. The third return within a minute is the
// first that can be held; two returns never are.
//
// Like the grace and doubts, flap damping only affects subscribers, and there only JOIN (adr/0072):
//
//   - LEFT is neither delayed nor invented: a member that is published stays published until it is missing.
//   - A JOIN is held for at most flapLongest after the latest return.
//   - Only a minority is held. If a node sees half of the group flap, the fault is in this node, or in the network in
//     between: then no JOIN is held, and those that were held are published at once.
const (
	flapHalfLife = 2 * time.Minute
	flapSuppress = 2.5
	flapReuse    = 1.0
	flapLongest  = 5 * time.Minute
)

// flapMost is the penalty that takes flapLongest to sink to flapReuse.
var flapMost = flapReuse * math.Exp2(float64(flapLongest)/float64(flapHalfLife))

type flaps struct {
	penalty float64
	at      boottime.Instant // when the penalty had that value
	until   boottime.Instant // JOIN is held until then
}

func (f *flaps) level(now boottime.Instant) float64 {
	if f.penalty == 0 {
		return 0
	}
	return f.penalty * math.Exp2(-float64(now.Sub(f.at))/float64(flapHalfLife))
}

func (f *flaps) charge(now boottime.Instant) {
	f.penalty = min(f.level(now)+1, flapMost)
	f.at = now
	f.until = now.Add(time.Duration(float64(flapHalfLife) * math.Log2(max(1, f.penalty/flapReuse))))
}

// damp handles the returns of this step, and returns when the first held JOIN may be published.
func (p *publication) damp(back roster.Set, members int, now boottime.Instant) boottime.Instant {
	for i := range p.flapping.All() {
		if now >= p.peers[i].flaps.until {
			p.flapping.Remove(i)
		}
	}
	if p.charge(back, now) {
		p.suppress(members, now)
	}
	next := boottime.Never
	for i := range p.flapping.All() {
		next = min(next, p.peers[i].flaps.until)
	}
	return next
}

// charge counts the unannounced returns: a node that announced that it leaves may return any number of times.
func (p *publication) charge(back roster.Set, now boottime.Instant) (any bool) {
	for i := range back.All() {
		switch l := &p.peers[i]; l.why {
		case LeftUnreachable, LeftDoubted, LeftRestartOverdue, LeftRebooted:
			l.flaps.charge(now)
			any = true
		}
	}
	return any
}

func (p *publication) suppress(members int, now boottime.Instant) {
	restless := 0
	for i := range p.peers {
		if p.peers[i].flaps.level(now) > flapReuse {
			restless++
		}
	}
	if 2*restless >= members {
		p.flapping = roster.Set{}
		return
	}
	for i := range p.peers {
		if f := &p.peers[i].flaps; f.at == now && f.penalty >= flapSuppress {
			p.flapping.Add(i)
		}
	}
}

// Flapping lists the peers that are back, but whose JOIN is held because they leave and return too often.
func (p *publication) Flapping() roster.Set { return p.flapping.And(p.present) }

// FlappingFor returns how long at most the JOIN of a peer is still held, if the peer does not leave again.
func (c *Core) FlappingFor(i int) time.Duration {
	if !c.Flapping().Has(i) {
		return 0
	}
	return c.publication.peers[i].flaps.until.Sub(c.stepped)
}

// A step that comes stallAfter or more after the step before shows that this node stalled: a stopped process, a frozen
// VM. All evidence is then old, and shows nothing about the peers. Permission ends at once. But the peers get
// stallGrace to answer before this node condemns itself or is taken down. Before this node or a peer is called LEFT,
// they get stallWord, in which all of them are asked twice. If samples are taken, asking takes longer, and they get
// stallGrace for that, too.
const (
	stallAfter = 2 * time.Second
	stallGrace = time.Second
	stallWord  = 300 * time.Millisecond
	stallAgain = stallWord / 3
)

type stall struct {
	since    boottime.Instant // when it ended; zero: there was none
	again    boottime.Instant // when all are asked for the second time; zero: no such question is due
	holdLeft boottime.Instant // before this, no LEFT is published
	brief    bool             // the stall was shorter than evidence lasts, so perhaps no peer has missed this node
}

func (c *Core) noteStall(now boottime.Instant) {
	t := &c.stall
	switch {
	case c.stepped != 0 && now.Sub(c.stepped) >= stallAfter:
		c.holdLeft = now.Add(stallGrace)
		*t = stall{since: now, again: now.Add(stallAgain), holdLeft: now.Add(stallWord), brief: now.Sub(c.stepped) < c.cfg.MaxAge}
		if c.cfg.Budget.Sampling > 0 { // with samples, not all can be asked at once
			t.again, t.holdLeft = 0, c.holdLeft
			break
		}
		c.askAll(c.proof.silent(c.rosters.expected, now))
	case t.again != 0 && now >= t.again:
		t.again = 0
		c.askAll(c.proof.silent(c.rosters.expected, t.since))
	}
	c.stepped = now
	for _, at := range []boottime.Instant{t.again, t.holdLeft, c.holdLeft} {
		if now < at {
			c.fx.Wake = min(c.fx.Wake, at)
		}
	}
}

// askAll asks members for a statement on all networks: nothing is known about any of them.
func (c *Core) askAll(members roster.Set) {
	ways := make([]roster.Set, c.cfg.Networks)
	for k := range ways {
		ways[k] = members
		if k < len(c.fx.Ask) {
			ways[k] = ways[k].Union(c.fx.Ask[k])
		}
	}
	c.fx.Ask = ways
}

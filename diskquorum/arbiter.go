package diskquorum

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// ArbiterConfig holds the fixed settings of an Arbiter.
type ArbiterConfig struct {
	// Devices holds the LUN's superblocks: one, or the three of a set in any order, of which one may be nil until
	// AddDevice is called. CheckSet must have accepted them.
	Devices   []*Superblock
	Roster    *roster.Roster
	Evidence  tie.Evidence // the peers' statements from the network; the same goroutine owns it
	NodeUID   string       // MachineUID, or empty
	Boot      uint64       // nonce of this kernel boot
	Process   uint64       // random per agent start
	Timing    Timing
	PreferAPI bool // the kubernetes tie-breaker is configured: a half that does not reach the API waits (L12)
	Seed      uint64
}

// Input holds the caller's state at one step. The fields about a tie rely on L8.
type Input struct {
	tie.Input
	Own      netgossip.Statement // this node's statement; token and view are filled in here
	WallTime int64               // Unix milliseconds, copied into the slot for people
	Look     bool                // the caller waits for other nodes' slots: read after each write
}

// Output holds the requests of an Arbiter after a step. It is valid until the next call.
type Output struct {
	tie.Output
	Healthy bool     // slot active, I/O completing in time on a majority of devices
	Ops     []Op     // next I/Os, at most one for each device
	Lock    int      // slot whose lock is wanted on each device; -1: none. Answer with Locked.
	Ended   *Attempt // a ballot of this node ended in this step
}

// Attempt reports the end of a ballot of this node.
type Attempt struct {
	Decided  bool
	Adopted  bool // the value was another node's
	Reason   string
	IOs      int // reads and writes that it took, the maximum over the devices
	Duration time.Duration
}

// Arbiter is the LUN's part of the decision: slot, heartbeat, log of decisions, lease.
// It is not safe for concurrent use.
type Arbiter struct {
	roster   *roster.Roster
	expected int // N: number of members of the roster in force
	evidence tie.Evidence
	log      uint64
	table    *Table
	timing   Timing
	uid      string
	boot     uint64
	process  uint64
	prefer   bool
	rng      *rand.Rand

	claim      claimState
	claimSince boottime.Instant
	watched    identity
	rounds     int
	wantLock   bool
	locks      deviceSet // devices that gave the lock
	refused    deviceSet // devices that refused the lock
	failure    error
	ever       bool // the slot has been active

	slot   int // this node's slot, -1 until chosen
	seq    uint64
	token  Token
	ballot Ballot
	view   roster.Set
	quorum int  // number of members that make a majority
	double bool // ballot changes go to both copies (B3)
	leap   bool // the next sequence skips a range: a write succeeded after failed ones
	legacy legacy
	own    netgossip.Statement
	wall   int64
	stop   bool

	prop    proposal
	adopted bool
	lastEnd proposalEnd
	ended   bool
	retryAt boottime.Instant
	pace    pace
	others  underWay
	ready   boottime.Instant // the time from which this node could have proposed; zero: it cannot

	echo         echoes
	judged       sentences
	lanes        []lane
	cur          transfer
	inFlight     bool // cur is under way
	submitted    boottime.Instant
	nextID       uint64
	nextTransfer uint64
	ops          []Op
	records      [copiesPerSlot]Slot // the latest records composed, by copy
	recorded     uint64              // sequence of the latest record

	dirty      bool             // the slot's contents changed: write without waiting for the heartbeat
	writeStart boottime.Instant // of the last write that landed
	silent     bool             // writeStart is longer ago than G
	carried    boottime.Instant // START of the first write that carries the present token; zero: none carries it yet
	lastWrite  boottime.Instant // start of the last write, successful or not
	lastRead   boottime.Instant
	sinceRead  int  // writes since the last read
	passed     bool // a write that others wait for was done before a read that was due
	lastGood   boottime.Instant

	lastWriteOK bool
	readBack    bool // the latest read showed this node's slot as written
	staleReads  uint64
	ioErr       error

	readFailures int // consecutive failures, up to repeatAtOnce

	lease     logState         // from the last read that allowed a conclusion (B7)
	anchor    boottime.Instant // start of this node's landed write before that read (L6)
	relayed   boottime.Instant // start of another holder's landed write, as reported by that holder (L7); for the present token
	granted   bool
	grantedTo boottime.Instant // the deadline that was announced
	lostTo    uint64           // instance of the grant that excluded this node in this tie
	lostUntil boottime.Instant // last time the grant excluded this node

	out Output
	att Attempt
}

// NewArbiter returns an arbiter that has not read the LUN yet.
func NewArbiter(c ArbiterConfig) *Arbiter {
	a := &Arbiter{
		roster:   c.Roster,
		expected: c.Roster.Size(),
		evidence: c.Evidence,
		log:      LogID(c.Devices),
		table:    NewTable(c.Devices...),
		timing:   c.Timing,
		uid:      c.NodeUID,
		boot:     c.Boot,
		process:  c.Process,
		prefer:   c.PreferAPI,
		rng:      rand.New(rand.NewPCG(c.Seed, c.Process)),
		slot:     -1,
		lease:    logState{differs: -1},
		lanes:    make([]lane, len(c.Devices)),
		ops:      make([]Op, 0, len(c.Devices)),
	}
	a.echo = newEchoes(c.Process, a.table.Slots(), len(c.Devices))
	for d, sb := range c.Devices {
		a.lanes[d] = lane{present: sb != nil, buf: make([]byte, BlockSize), block: make([]byte, BlockSize)}
		if sb != nil {
			a.lanes[d].place = sb.Device
		}
	}
	return a
}

// Slots returns the number of slots on the LUN.
func (a *Arbiter) Slots() int { return a.table.Slots() }

// SetRoster makes r the roster that views refer to. expected of its members belong to the roster in force: the others
// are about to join or have left. The token changes: a grant under one list of members is not valid under another list.
func (a *Arbiter) SetRoster(r *roster.Roster, expected int) {
	n := roster.Renumber(a.roster, r)
	a.roster, a.expected, a.view = r, expected, n.Set(a.view)
	a.moveToken()
}

// Step evaluates everything at now: it records a changed view, evaluates the lease and requests the next I/O. It never
// blocks and, in steady state, does not allocate.
func (a *Arbiter) Step(now boottime.Instant, in *Input) *Output {
	a.own, a.wall = in.Own, in.WallTime
	a.quorum = max(in.Quorum, a.expected/2+1)
	if in.Stop && !a.stop {
		a.stop, a.dirty = true, true
	}
	a.lapse(now)
	a.conclude(now)
	if in.View != a.view {
		a.view = in.View
		a.moveToken() // L1: the counted view changed
	}
	a.out = Output{Output: tie.Output{Token: a.token, Wake: boottime.Never}, Lock: -1, Healthy: a.healthy(now)}
	a.takeRelays(in)
	a.judge(now, in)
	a.out.Token = a.token
	a.maybePropose(now, in)
	a.schedule(now, in)
	a.echo.spoken = false
	if a.ended {
		a.ended = false
		a.att = Attempt{Decided: a.lastEnd.decided, Adopted: a.lastEnd.adopted, Reason: a.lastEnd.reason, IOs: a.lastEnd.ios}
		a.out.Ended = &a.att
	}
	return &a.out
}

// lapse changes the token when the announced deadline of a grant has passed, even if the process only slept through it
// (L1). It also changes the token whenever none of this node's writes has landed for G. The others may then soon treat
// this node as expired, while a grant that it has not read yet may name it. If it did not renounce, its next landed
// write would let it feed under that grant, while the others have already begun the next one. The same applies to the
// new token that follows such a silence, once a write has carried it: if that write takes longer than G, the slot again
// does not change. Another holder's write also counts, if that holder reports it (L7): while one holder writes, not all
// of them have expired.
func (a *Arbiter) lapse(now boottime.Instant) {
	a.silent = !a.writeStart.IsZero() && now >= max(a.writeStart, a.relayed).Add(a.timing.Grant)
	if a.granted && now >= a.grantedTo || a.silent && !a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {
		a.moveToken()
	}
}

func (a *Arbiter) moveToken() {
	a.granted, a.grantedTo, a.relayed = false, 0, 0
	if a.token.IsZero() {
		return
	}
	if a.token.Counter == ^uint32(0) {
		a.fail(errCounter) // a wrapped counter would bring an old token back
		return
	}
	a.token.Counter++
	a.carried, a.dirty = 0, true
}

// judge determines the state of the split.
func (a *Arbiter) judge(now boottime.Instant, in *Input) {
	if !in.Tie || a.judged.condemned {
		a.out.Split = tie.None
		a.lostTo = 0
		if a.granted {
			a.moveToken()
		}
		return
	}
	until := a.feedUntil(a.lease.grant, a.view)
	switch {
	case until > now:
		a.granted, a.grantedTo = true, until
		a.out.Split, a.out.Until, a.out.Wake = tie.Won, until, until
		a.out.Relay, a.out.Why = a.relay(), a.bridgedBy()
		a.out.Relayed = a.anchor.IsZero() || now >= a.anchor.Add(a.timing.Grant)
		return
	case a.granted:
		a.moveToken() // evidence was withdrawn before the deadline: renounce at once
	case a.broken(a.lease.grant):
		a.moveToken()
	}
	switch {
	case a.claim == claimFailed:
		a.out.Split, a.out.Why = tie.Unavailable, a.failure.Error()
	case a.excluded(in.TieSince):
		a.out.Split = tie.Lost
		if _, named := a.lease.grant.token(a.slot); !named { // a node that the grant names belongs to the half that lives
			// A holder whose slot cannot be read excludes this node, but does not prove that the tie is lost.
			if a.lostTo != a.lease.latest || a.table.showsHolder(a.lease.grant, &a.timing, a.ownWatchdog()) {
				a.lostTo, a.lostUntil = a.lease.latest, now
			}
		} else if a.out.Why = a.trouble(now); a.out.Why == "" {
			a.out.Why = "a new decision begins as soon as all holders have given the grant up, rebooted or expired"
		}
	case !a.out.Healthy || a.claim != claimActive:
		a.out.Split, a.out.Why = tie.Unavailable, a.trouble(now)
	default:
		a.out.Split, a.out.Why = tie.Pending, a.pendingWhy()
	}
}

// broken reports whether g names this node's present token and a token that another node has given up: for example,
// that node's agent restarted while the decision for this half was being made. No node can feed under such a grant
// (L6), now or later, because a token does not return. Unless this node renounces the grant, too, it remains a holder
// that is not done, and no half can get a new grant (L5). The other node's statement counts as much as its slot,
// because it may be unable to write the slot.
func (a *Arbiter) broken(g *Grant) bool {
	if named, ok := g.token(a.slot); !ok || named != a.token {
		return false
	}
	return slices.ContainsFunc(g.Holders, func(h Holder) bool {
		if int(h.Slot) == a.slot || int(h.Slot) >= len(a.table.entries) {
			return false
		}
		e := &a.table.entries[h.Slot]
		if e.status == slotKnown && h.left(e.record().Statement.Token) {
			return true
		}
		idx, ok := a.member(int(h.Slot))
		if !ok {
			return false
		}
		st, _ := a.evidence.Statement(idx)
		return st != nil && h.left(st.Token)
	})
}

// excluded reports whether the latest decision names nodes that may still feed under it, but not this node's present
// token: then this node neither feeds nor proposes (L8, B7). Only a read during this tie proves that; an earlier read
// shows holders that may have renounced since.
func (a *Arbiter) excluded(tieSince boottime.Instant) bool {
	g := a.lease.grant
	if g == nil || a.table.start < tieSince {
		return false
	}
	if named, ok := g.token(a.slot); ok && named == a.token {
		return false
	}
	return !a.table.holdersDone(g, &a.timing, a.ownWatchdog())
}

// Excluded reports whether the latest decision, as shown by a read after since, names others that may still feed under
// it. It is for a node that counts less than half of the list, so there is no tie.
func (a *Arbiter) Excluded(since boottime.Instant) bool {
	return a.claim == claimActive && a.excluded(since)
}

// Named reports whether the latest decision that this node knows names its present token.
func (a *Arbiter) Named() bool {
	named, ok := a.lease.grant.token(a.slot)
	return ok && named == a.token && !a.token.IsZero()
}

func (a *Arbiter) pendingWhy() string {
	h := a.assess(a.view)
	switch {
	case a.prop.phase != phaseIdle:
		return "a ballot is under way"
	case !h.settled:
		return h.why
	case a.lease.pending:
		return "another ballot is not finished"
	default:
		return "the decision of the other proposers of this half"
	}
}

// mayPropose reports whether the state of this node's I/O allows it to arbitrate (B2).
func (a *Arbiter) mayPropose() bool {
	return a.claim == claimActive && a.lastWriteOK && a.readBack && !a.stop && !a.judged.condemned
}

// maybePropose starts a ballot when the half is settled and it is this node's turn.
func (a *Arbiter) maybePropose(now boottime.Instant, in *Input) {
	if !in.Tie || a.out.Split != tie.Pending || a.prop.phase != phaseIdle || a.inFlight || !a.mayPropose() {
		return
	}
	turn := in.TieSince.Add(a.delay(in))
	if at := max(turn, a.retryAt, a.yieldsUntil()); now < at {
		a.out.Wake = min(a.out.Wake, at)
		return
	}
	l := a.table.log(&a.ballot)
	if at := a.lostUntil.Add(a.timing.Takeover); a.lostTo != 0 && a.lostTo == l.latest && now < at && a.holdersMove(l.grant) {
		a.out.Wake = min(a.out.Wake, at)
		a.out.Why = "the half that held the grant may take it again first"
		return
	}
	if !a.enoughSure(now) {
		a.out.Why = errLate.Error()
		return
	}
	if l.unknown || !a.table.holdersDone(l.grant, &a.timing, a.ownWatchdog()) {
		return
	}
	h := a.assess(a.view)
	if !h.settled && !a.early(now, &h) || h.view.Len()*2 != a.expected {
		a.ready = 0
		return
	}
	if who := a.rivalUnaware(a.view); who != "" {
		a.out.Why = who + " has not noticed the split yet"
		return
	}
	if a.ready == 0 {
		a.ready = now
	}
	if at := a.ready.Add(time.Duration(a.rank()) * a.patience()); now < at {
		a.out.Wake = min(a.out.Wake, at)
		return
	}
	a.retryAt = now.Add(a.timing.Stagger + time.Duration(a.rng.Int64N(int64(a.timing.Arbitrate/8)+1)))
	a.beginProposal(now, l, h)
}

// delay returns how long this node lets others propose first after the tie began (L12). It is PreferenceDelay, if the
// half that reaches the API has priority and this node's half does not reach it, plus one Stagger for each lower slot
// of this half whose LUN is healthy.
func (a *Arbiter) delay(in *Input) time.Duration {
	var d time.Duration
	if a.prefer && !a.halfReachesAPI(in) {
		d = a.timing.PreferenceDelay
	}
	return d + time.Duration(a.rank())*a.timing.Stagger
}

// rank returns how many members of this half propose before this node: the slots below its own whose LUN is healthy.
func (a *Arbiter) rank() (n int) {
	for slot := range a.slot {
		e := &a.table.entries[slot]
		if e.status != slotKnown || e.record().State != SlotActive {
			continue
		}
		if idx, ok := a.member(slot); ok && a.view.Has(idx) {
			if st, _ := a.evidence.Statement(idx); st != nil && st.LUNHealthy {
				n++
			}
		}
	}
	return n
}

// early reports whether this node may begin a ballot with a heartbeat that is due, although some member of the half has
// shown its view only once: on a slow LUN, the write that shows this node's view again is also phase 1. No value is
// proposed before the half has settled (L5): until then, the read of phase 1 is repeated, see proposalRead.
func (a *Arbiter) early(now boottime.Instant, h *half) bool {
	return h.near && a.sluggish() && now >= a.writeDue()
}

func (a *Arbiter) halfReachesAPI(in *Input) bool {
	if in.Own.APIReachable {
		return true
	}
	for p := range a.view.All() {
		if p != a.roster.Self {
			if st, _ := a.evidence.Statement(p); st != nil && st.APIReachable {
				return true
			}
		}
	}
	return false
}

func (a *Arbiter) ownWatchdog() time.Duration { return a.own.Guard.Timeout }

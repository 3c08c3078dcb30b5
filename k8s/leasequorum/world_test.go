package leasequorum

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// times of the random schedules: short, so that renewals, expiries and take-overs all happen.
var times = Timing{
	MaxAge: 300 * time.Millisecond, Term: 2 * time.Second, Expire: 2500 * time.Millisecond, Longest: 20 * time.Second, Stagger: 50 * time.Millisecond,
	Retry: 100 * time.Millisecond, Poll: 200 * time.Millisecond, Refresh: 5 * time.Second,
}

// world is a cluster on virtual time: nodes with separate clocks, a network that splits in any way, and a Lease behind
// an API server. The server loses and repeats nothing, but may answer late, never, or with an old state.
type world struct {
	rng     *rand.Rand
	now     time.Duration
	nodes   []*node
	links   [][]bool
	flights []flight
	lease   []stored // its history; the last is the present content
	absent  bool
	uid     int
	stale   bool // whether reads from the past may happen
	calm    bool // whether nothing is lost or late

	trace                                       []string
	wins, expiries, proofs, renewals, deletions int
	told                                        int // wins that relied only on another member's report
	bridged                                     int // times in which a node continued beside a member with a majority
	wonFor                                      map[string]bool
	broken                                      string // the first holder that was replaced too early
}

type stored struct {
	version Version
	record  Record
	absent  bool
}

type flight struct {
	node    *node
	life    int // the life of the node to which the reply goes
	op      Op
	started boottime.Instant
	applyAt time.Duration // negative: never
	replyAt time.Duration
	applied bool
	lost    bool // the reply is lost
	result  Completion
}

type node struct {
	w        *world
	index    int
	offset   boottime.Instant // the offset of its clock
	rate     float64
	boot     uint64
	life     int
	down     time.Duration // the moment until which it is down; 0: it is up
	api      bool
	roster   *roster.Roster
	arbiter  *Arbiter
	view     roster.Set
	tieSince boottime.Instant
	tie      bool
	heard    []heard
	out      tie.Output

	runsOn time.Duration // its watchdog fires this long after the last feed
	stated time.Duration // the horizon that its statements give
	fedAt  time.Duration // latest moment, of the world, at which it fed by a grant
	mute   bool          // what it writes gives no horizons
}

// horizon is the horizon that the node states, with a margin for clocks.
func (n *node) horizon() time.Duration { return n.runsOn + n.runsOn/20 + 10*time.Millisecond }

type heard struct {
	statement netgossip.Statement
	relay     netgossip.Relay
	at        boottime.Instant
	known     bool
}

func (n *node) clock() boottime.Instant {
	return n.offset + boottime.Instant(float64(n.w.now)*n.rate)
}

func (n *node) Statement(peer int) (*netgossip.Statement, boottime.Instant) {
	if !n.heard[peer].known {
		return nil, 0
	}
	return &n.heard[peer].statement, n.heard[peer].at
}

func (n *node) Relay(peer int) netgossip.Relay { return n.heard[peer].relay }

func newWorld(seed uint64, size int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), absent: true, wonFor: map[string]bool{}, stale: seed%2 == 0}
	names := make([]roster.Member, size)
	for i := range size {
		names[i].Name = fmt.Sprintf("n%d", i+1)
	}
	for i := range size {
		n := &node{w: w, mute: i == 0 && seed%5 == 0, index: i, offset: boottime.Instant(w.rng.Int64N(int64(time.Hour))), rate: 1 + (w.rng.Float64()-0.5)/100, api: true}
		n.roster = &roster.Roster{Epoch: 1, Digest: 7, Members: names, Self: i}
		w.nodes = append(w.nodes, n)
		n.start(true)
	}
	w.heal()
	return w
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8v ", w.now)+fmt.Sprintf(format, args...))
}

func (n *node) start(reboot bool) {
	if reboot {
		n.boot = n.w.rng.Uint64() | 1
	}
	n.life++
	n.runsOn = n.w.between(100, 4000)
	n.heard = make([]heard, len(n.w.nodes)+8)
	n.view, n.out, n.tie, n.down = roster.Set{}, tie.Output{}, false, 0
	a, err := New(Config{Roster: n.roster, Evidence: n, Boot: n.boot, Process: n.w.rng.Uint64(), Log: 9, Timing: times}, n.clock())
	if err != nil {
		panic(err)
	}
	n.arbiter = a
}

func (w *world) heal() {
	w.links = make([][]bool, len(w.nodes))
	for i := range w.links {
		w.links[i] = slices.Repeat([]bool{true}, len(w.nodes))
	}
}

// split cuts the network into two random halves, or along single links.
func (w *world) split() {
	w.heal()
	if w.rng.IntN(4) == 0 {
		for range 1 + w.rng.IntN(3) {
			i, j := w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))
			w.links[i][j], w.links[j][i] = i == j, i == j
		}
		return
	}
	order := w.rng.Perm(len(w.nodes))
	half := order[:len(order)/2]
	for i := range w.nodes {
		for j := range w.nodes {
			w.links[i][j] = slices.Contains(half, i) == slices.Contains(half, j)
		}
	}
	w.logf("split: %v against the rest", half)
}

// mend gives one node all its links again.
func (w *world) mend(n *node) {
	for j := range w.nodes {
		w.links[n.index][j], w.links[j][n.index] = true, true
	}
	w.logf("n%d reaches everybody", n.index+1)
}

// gossip makes each node ask the others one after the other. An answer arrives a little later than its question, by
// which it is dated.
func (w *world) gossip() {
	for _, n := range w.nodes {
		for j, peer := range w.nodes {
			if n == peer || n.down > 0 || peer.down > 0 || !w.links[n.index][j] || !w.calm && w.rng.IntN(10) == 0 {
				continue
			}
			delay := boottime.Instant(w.rng.Int64N(int64(40 * time.Millisecond)))
			st := netgossip.Statement{
				Boot: peer.boot, RosterEpoch: 1, RosterDigest: 7, Token: peer.out.Token, View: peer.view, APIReachable: peer.api, Seen: peer.seen(),
				Guard: netgossip.Guard{Horizon: peer.stated},
			}
			h := heard{statement: st, at: n.clock() - delay, known: true}
			if r := peer.out.Relay; r.Log != 0 {
				// The age that the peer reported is subtracted from the moment at which it was asked.
				r.Anchor = n.clock() - delay - boottime.Instant(float64(peer.clock()-r.Anchor)*1.02)
				h.relay = r
			}
			n.heard[j] = h
		}
	}
}

func (n *node) seen() (s roster.Set) {
	for j := range n.w.nodes {
		if h := &n.heard[j]; h.known && n.clock().Sub(h.at) < times.MaxAge {
			s.Add(j)
		}
	}
	return s
}

func (n *node) step() {
	now := n.clock()
	if n.down > 0 {
		if n.w.now >= n.down {
			n.start(true)
		}
		return
	}
	n.view = roster.Set{}
	n.view.Add(n.index)
	for j := range n.seen().All() {
		if n.heard[j].statement.Seen.Has(n.index) {
			n.view.Add(j)
		}
	}
	half := 2*n.view.Len() == len(n.w.nodes)
	if half && !n.tie {
		n.tieSince = now
	}
	n.tie = half
	was, why := n.out.Split, n.out.Why
	n.stated = n.horizon()
	n.out = *n.arbiter.Step(now, &tie.Input{View: n.view, Tie: half, TieSince: n.tieSince, Horizon: n.stated})
	if n.feeds() {
		n.fedAt = n.w.now
	}
	if n.out.Split != was {
		n.w.logf("n%d: view %v token %v: split %d until %v %s", n.index+1, n.roster.Names(n.view), n.out.Token, n.out.Split, n.out.Until, n.out.Why)
	}
	if n.out.Split == tie.Won && n.out.Why != "" && (was != tie.Won || why == "") {
		n.w.bridged++
	}
	if n.out.Split == tie.Won && was != tie.Won {
		n.w.wins++
		n.w.wonFor[strings.Join(n.roster.Names(n.view), ",")] = true
		if n.out.Relay.Instance == noGrant {
			n.w.told++
		}
	}
	if op := n.arbiter.Op(); op != nil {
		n.w.send(n, *op)
	}
}

func (n *node) feeds() bool { return n.down == 0 && n.out.Split == tie.Won && n.out.Until > n.clock() }

// send decides the fate of an operation: most take a few milliseconds; some land late, after
// the sender gave up, or never, and of some only the reply is lost.
func (w *world) send(n *node, op Op) {
	const timeout = 300 * time.Millisecond
	f := flight{node: n, life: n.life, op: op, started: n.clock(), applyAt: w.now + w.between(1, 20)}
	f.replyAt = f.applyAt + w.between(1, 20)
	switch dice := w.rng.IntN(20); {
	case !n.api:
		f.applyAt, f.lost = -1, true
	case w.calm:
	case dice == 0:
		f.lost = true
	case dice == 1:
		f.applyAt, f.lost = w.now+w.between(1, 6000), true // lands whenever it likes
	case dice == 2:
		f.replyAt = f.applyAt + w.between(1, 280)
	case dice == 3:
		f.applyAt, f.lost = -1, true
	}
	if f.lost {
		f.replyAt = w.now + timeout
	}
	w.flights = append(w.flights, f)
}

func (w *world) between(from, to int) time.Duration {
	return time.Duration(from+w.rng.IntN(to-from)) * time.Millisecond
}

// deliver applies and answers what is due.
func (w *world) deliver() {
	left := w.flights[:0]
	for _, f := range w.flights {
		if f.applyAt >= 0 && !f.applied && w.now >= f.applyAt {
			f.applied = true
			f.result = w.apply(&f)
		}
		if f.replyAt >= 0 && w.now >= f.replyAt && (f.applied || f.lost) {
			c := f.result
			if f.lost {
				c = Completion{Outcome: Unknown}
			}
			c.ID, c.Started, c.Ended = f.op.ID, f.started, f.node.clock()
			if f.life == f.node.life && f.node.down == 0 {
				f.node.arbiter.Complete(&c)
			}
			f.replyAt = -1
		}
		if f.replyAt >= 0 || f.applyAt >= 0 && !f.applied {
			left = append(left, f)
		}
	}
	w.flights = left
}

// apply is the API server: compare and swap, and reads.
func (w *world) apply(f *flight) Completion {
	switch f.op.Kind {
	case Read:
		if len(w.lease) == 0 {
			return Completion{Outcome: Absent}
		}
		s := w.lease[len(w.lease)-1]
		if w.stale && w.rng.IntN(10) == 0 {
			s = w.lease[max(0, len(w.lease)-1-w.rng.IntN(4))]
		}
		if s.absent {
			return Completion{Outcome: Absent}
		}
		return Completion{Outcome: Done, Record: s.record, Version: s.version}
	case Create:
		if !w.absent {
			return Completion{Outcome: Conflict}
		}
		w.uid++
		return w.put(f, fmt.Sprint(w.uid))
	default:
		if w.absent {
			return Completion{Outcome: Absent}
		}
		old := w.lease[len(w.lease)-1]
		if old.version != f.op.Base {
			return Completion{Outcome: Conflict}
		}
		w.count(f, &old.record.Grant)
		return w.put(f, old.version.UID)
	}
}

func (w *world) put(f *flight, uid string) Completion {
	w.absent = false
	s := stored{version: Version{uid, fmt.Sprint(len(w.lease))}, record: f.op.Record}
	if f.node.mute {
		s.record.Horizon, s.record.Grant.Holders = 0, slices.Clone(s.record.Grant.Holders)
		for i := range s.record.Grant.Holders {
			s.record.Grant.Holders[i].Horizon = 0
		}
	}
	w.survivor(&s.record.Grant)
	w.lease = append(w.lease, s)
	w.logf("n%d writes %v: %v", f.node.index+1, s.version, s.record.Grant.Holders)
	return Completion{Outcome: Done, Record: s.record, Version: s.version}
}

// survivor records a holder that still runs under its grant when others replace the grant. A holder that is replaced
// without a proof that its token has moved on must have been reset.
func (w *world) survivor(by *Grant) {
	if len(w.lease) == 0 {
		return
	}
	old := &w.lease[len(w.lease)-1].record.Grant
	for _, h := range old.Holders {
		n := w.nodes[slices.IndexFunc(w.nodes, func(n *node) bool { return n.roster.Name(n.index) == h.Node })]
		if !old.sameNodes(by) && n.down == 0 && n.out.Token == h.Token && w.now < n.fedAt+n.runsOn {
			w.broken = fmt.Sprintf("at %v n%d is replaced by %v; it fed at %v and runs on for %v", w.now, n.index+1, by.Holders, n.fedAt, n.runsOn)
		}
	}
}

func (w *world) count(f *flight, old *Grant) {
	a := f.node.arbiter
	switch {
	case len(old.Holders) == 0:
	case old.Digest() == f.op.Record.Grant.Digest():
		w.renewals++
	case f.life == f.node.life && !slices.Contains(a.done, false):
		w.proofs++
	default:
		w.expiries++
	}
}

// fault does one random thing to the cluster.
func (w *world) fault() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch dice := w.rng.IntN(21); {
	case dice == 20:
		n.runsOn = w.between(100, 4000)
		w.logf("n%d runs on for %v", n.index+1, n.runsOn)
	case dice < 8:
		w.split()
	case dice < 10:
		if w.rng.IntN(2) == 0 { // in pieces: one node sees everybody again
			w.mend(n)
			return
		}
		w.heal()
		w.logf("heal")
	case dice < 13:
		n.api = !n.api
		w.logf("n%d api %v", n.index+1, n.api)
	case dice < 14:
		for _, n := range w.nodes {
			n.api = true
		}
	case dice < 16:
		if n.down == 0 {
			n.start(false)
			w.logf("n%d agent restarts", n.index+1)
		}
	case dice < 18:
		n.down = w.now + w.between(50, 3000)
		w.logf("n%d crashes", n.index+1)
	case dice < 19:
		w.restartAPI()
	default:
		if !w.absent && w.rng.IntN(3) == 0 {
			w.absent = true
			w.lease = append(w.lease, stored{absent: true, version: Version{"", fmt.Sprint(len(w.lease))}})
			w.deletions++
			w.logf("somebody deletes the Lease")
		}
	}
}

// restartAPI cuts all replies; what was sent may still take effect.
func (w *world) restartAPI() {
	for i := range w.flights {
		w.flights[i].lost = true
	}
	w.logf("the API server restarts")
}

// violation finds two halves that feed by grants at the same moment.
func (w *world) violation() string {
	for i, n := range w.nodes {
		for _, m := range w.nodes[:i] {
			if n.feeds() && m.feeds() && !n.view.Intersects(m.view) {
				return fmt.Sprintf("n%d and n%d both feed at %v", m.index+1, n.index+1, w.now)
			}
		}
	}
	return w.broken
}

// run plays a schedule for this length of time.
func (w *world) run(length time.Duration) string {
	next := w.between(3000, 6000)
	for w.now < length {
		w.now += 10 * time.Millisecond
		w.deliver()
		if w.now%(50*time.Millisecond) == 0 {
			w.gossip()
		}
		for _, n := range w.nodes {
			n.step()
		}
		if v := w.violation(); v != "" {
			return v
		}
		if !w.calm && w.now >= next {
			w.fault()
			next = w.now + w.between(20, 3000)
		}
	}
	return ""
}

package diskquorum

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// choir is a few arbiters that only write and read echo blocks, I/O by I/O, driven by the test.
type choir struct {
	t      *testing.T
	now    boottime.Instant
	images [][]byte
	sbs    []*Superblock
	nodes  []*Arbiter
	lives  []bool
	sees   []roster.Set
}

func newChoir(t *testing.T, n, devices int) *choir {
	t.Helper()
	c := &choir{t: t, now: boottime.Instant(time.Hour), nodes: make([]*Arbiter, n), lives: make([]bool, n), sees: make([]roster.Set, n)}
	for d := range devices {
		sb := &Superblock{Version: FormatVersion, ID: [16]byte{byte(d + 1)}, Cluster: "c", NodeGroup: "g", Slots: n}
		if devices > 1 {
			sb.SetID[0], sb.Devices, sb.Device = 9, devices, d
		}
		c.sbs, c.images = append(c.sbs, sb), append(c.images, make([]byte, DeviceSize(sb.Slots)))
	}
	for i := range n {
		c.start(i, uint64(100+i))
	}
	return c
}

// start creates the agent of a node, which has its slot at once.
func (c *choir) start(i int, process uint64) {
	a := NewArbiter(ArbiterConfig{Devices: c.sbs, Roster: rigRoster(len(c.nodes), i), Timing: rigTiming(), Boot: uint64(i + 1), Process: process})
	a.slot, a.claim = i, claimActive
	for d := range a.lanes {
		a.lanes[d].ours = boottime.Never // the choir has no superblocks
	}
	c.nodes[i] = a
}

// round begins a round of a node.
func (c *choir) round(i int, lately ...int) []Op {
	if e := &c.nodes[i].echo; e.round > 0 {
		c.now = max(c.now, e.began.Add(c.nodes[i].echoPace()))
	}
	c.nodes[i].ops = nil
	out := c.nodes[i].Testify(c.now, &Testimony{Lives: c.lives[i], Settled: true, Lately: roster.SetOf(lately...), View: roster.SetOf(i), Seen: c.sees[i]})
	return slices.Clone(out.Ops)
}

// next returns the I/Os that follow an I/O.
func (c *choir) next(i int, lately ...int) []Op {
	c.nodes[i].ops = nil
	return slices.Clone(c.nodes[i].Testify(c.now, &Testimony{Lives: c.lives[i], Settled: true, Lately: roster.SetOf(lately...), View: roster.SetOf(i), Seen: c.sees[i]}).Ops)
}

// write begins a round, ends its read, and returns the write that follows.
func (c *choir) write(i int) *Op {
	for _, op := range c.round(i) {
		c.end(i, &op, time.Millisecond, nil)
	}
	for _, op := range c.next(i) {
		return &op
	}
	c.t.Fatalf("n%d writes nothing", i+1)
	return nil
}

// data returns the bytes that an I/O writes. The engine copies them when the I/O is submitted.
func data(op *Op) []byte { return slices.Clone(op.Data) }

func (c *choir) land(op *Op, b []byte) { copy(c.images[op.Device][op.Offset:], b) }

// end ends an I/O after it took this long.
func (c *choir) end(i int, op *Op, took time.Duration, err error) {
	started := c.now
	c.now = c.now.Add(took)
	done := Completion{ID: op.ID, Device: op.Device, Kind: op.Kind, Started: started, Ended: c.now, Err: err}
	if op.Kind == OpRead && err == nil {
		done.Data = slices.Clone(c.images[op.Device][op.Offset : op.Offset+int64(op.Length)])
	}
	c.nodes[i].Complete(c.now, &done)
}

// turn runs a heartbeat of a node without faults.
func (c *choir) turn(i int, lately ...int) {
	for ops := c.round(i, lately...); len(ops) > 0; ops = c.next(i, lately...) {
		for _, op := range ops {
			if op.Kind == OpWrite {
				c.land(&op, data(&op))
			}
			c.end(i, &op, time.Millisecond, nil)
		}
	}
}

const choirDated = 14 * time.Second

func (c *choir) vacant(i int) boottime.Instant {
	return c.nodes[i].Hear(c.now, roster.Set{}, len(c.nodes)/2+1, choirDated).Vacant
}

// Guard: E3, H1. All networks fail: each node finds its pings echoed by most of the list, and may hold from that date
// on.
func TestEchoesDateWhatOthersSay(t *testing.T) {
	c := newChoir(t, 3, 1)
	for round := range 3 {
		for i := range c.nodes {
			if round == 0 && c.vacant(i) != 0 {
				t.Errorf("n%d holds before anybody has echoed it", i+1)
			}
			c.turn(i)
		}
	}
	for i := range c.nodes {
		until := c.vacant(i)
		if until <= c.now || until > c.now.Add(choirDated) {
			t.Errorf("n%d may hold until %v, now is %v", i+1, until, c.now)
		}
	}
	c.now = c.now.Add(choirDated)
	if until := c.vacant(0); until != 0 {
		t.Errorf("old words count until %v", until)
	}
}

// Guard: H1. A node that lives is not in S, and three of five are needed.
func TestEchoesOfTheLiving(t *testing.T) {
	c := newChoir(t, 5, 1)
	c.lives[1], c.lives[2] = true, true
	for range 3 {
		for i := range c.nodes {
			c.turn(i)
		}
	}
	if c.vacant(0) == 0 {
		t.Error("three of five do not live, and n1 may not hold")
	}
	if h := c.nodes[0].Hear(c.now, roster.Set{}, 3, choirDated); h.Isolated {
		t.Error("two of five isolate n1")
	}
	c.lives[3] = true
	c.turn(3)
	c.turn(0)
	h := c.nodes[0].Hear(c.now, roster.Set{}, 3, choirDated)
	if h.Vacant != 0 || !h.Isolated {
		t.Errorf("a majority lives: %+v", h)
	}
}

// Guard: H2. A node without a block may be counted by those that have seen it.
func TestEchoesMissWhoIsSilent(t *testing.T) {
	c := newChoir(t, 5, 1)
	speak := func(lately ...int) {
		for range 3 {
			for _, i := range []int{0, 2, 3, 4} {
				c.turn(i, lately...)
			}
		}
	}
	if speak(1); c.vacant(0) != 0 {
		t.Error("n2 may live by those who see it, and n1 holds")
	}
	if speak(); c.vacant(0) == 0 {
		t.Error("nobody sees n2, and n1 may not hold")
	}
}

// Guard: E3. An earlier agent's ping gives no date, whatever its number is.
func TestEchoOfAPredecessor(t *testing.T) {
	c := newChoir(t, 3, 1)
	for range 9 {
		c.turn(0) // its counter is far greater than the next agent reaches
	}
	c.turn(1)
	c.turn(2)
	c.start(0, 555)
	c.turn(0)
	if c.vacant(0) != 0 {
		t.Error("the echo of the agent before counts")
	}
	c.turn(1)
	c.turn(2)
	c.turn(0)
	if c.vacant(0) == 0 {
		t.Error("the echo of this agent does not count")
	}
}

// Guard: E3. An old ping, or one of another process whose number this process has also used, gives no date either.
func TestEchoOfAnotherPing(t *testing.T) {
	c := newChoir(t, 2, 1)
	c.turn(0)
	c.turn(1)
	c.start(0, 555)
	c.turn(0)
	c.turn(0) // by now it has its own ping 1
	if c.vacant(0) != 0 {
		t.Error("ping 1 of the agent before counts as ping 1 of this one")
	}
	c.turn(1)
	c.turn(0)
	if c.vacant(0) == 0 {
		t.Fatal("the echo of this agent does not count")
	}
	a := c.nodes[0]
	p := Ping{a.echo.nonce, a.echo.count}
	for a.echo.count < p.Counter+pingsKept {
		if a.dateOf(p) == 0 {
			t.Fatalf("ping %d has no date after %d", p.Counter, a.echo.count)
		}
		a.testify(c.now, &Testimony{})
	}
	if at := a.dateOf(p); at != 0 {
		t.Errorf("ping %d is dated by the one in its place", p.Counter)
	}
	if at := a.dateOf(Ping{a.echo.nonce, a.echo.count + 1}); at != 0 {
		t.Error("a ping that was not made yet has a date")
	}
}

// Guard: E4. A block that lands late, over a newer one, does not withdraw the newer statement.
func TestLateBlockTakesNothingBack(t *testing.T) {
	c := newChoir(t, 2, 1)
	for range 2 {
		c.turn(0)
		c.turn(1)
	}
	w := c.write(1)
	late := data(w)
	c.end(1, w, time.Millisecond, errRigIO)
	c.lives[1] = true
	c.turn(1)
	c.turn(0)
	if c.vacant(0) != 0 {
		t.Fatal("n2 lives, and n1 may hold")
	}
	c.land(w, late)
	c.turn(0)
	if c.vacant(0) != 0 {
		t.Error("what n2 said before counts again")
	}
}

// Guard: E1. A ping is dated before its write is submitted: an echo of it may be read long before the acknowledgement.
func TestPingIsDatedBeforeItsWrite(t *testing.T) {
	c := newChoir(t, 2, 1)
	w := c.write(0)
	composed := c.now
	c.land(w, data(w))
	c.turn(1)
	c.end(0, w, time.Second, nil)
	c.turn(0)
	if until := c.vacant(0); until != composed.Add(choirDated) {
		t.Errorf("until %v, composed at %v", until, composed)
	}
}

// Guard: E2. A read that took longer than the I/O timeout moves no echoes.
func TestSlowReadMovesNoEchoes(t *testing.T) {
	c := newChoir(t, 2, 1)
	c.turn(0)
	for _, op := range c.round(1) {
		c.end(1, &op, c.nodes[1].timing.IOTimeout+1, nil)
	}
	if got := c.nodes[1].echo.heard[0]; got != (Ping{}) {
		t.Errorf("it heard %v", got)
	}
	c.turn(1)
	if got := c.nodes[1].echo.heard[0]; got.Counter != 1 {
		t.Errorf("it heard %v", got)
	}
}

// A write that lands minutes late gives no new date: it echoes pings that were new when it was composed.
func TestLateWriteIsAsOldAsItsEchoes(t *testing.T) {
	c := newChoir(t, 2, 1)
	c.turn(0)
	first := c.now
	c.turn(1) // node 1 has read the ping
	w := c.write(1)
	late := data(w)
	c.end(1, w, time.Second, errRigIO)
	c.now = c.now.Add(2 * time.Minute)
	c.land(w, late)
	c.turn(0)
	if until := c.vacant(0); until != 0 {
		t.Errorf("a record of %v counts until %v at %v", first, until, c.now)
	}
}

// A newer block without a date proves nothing, but voids the earlier statement if it states that its writer lives.
func TestWordWithoutDateTakesBack(t *testing.T) {
	c := newChoir(t, 2, 1)
	for range 2 {
		c.turn(0)
		c.turn(1)
	}
	c.turn(0)
	if c.vacant(0) == 0 {
		t.Fatal("n1 may not hold")
	}
	c.nodes[1].echo.heard[0], c.lives[1] = Ping{}, true
	c.now = c.now.Add(c.nodes[1].timing.Heartbeat / 10)
	w := c.next(1)[0] // at once, before the next read
	c.land(&w, data(&w))
	c.turn(0)
	if until := c.vacant(0); until != 0 {
		t.Errorf("n2 says that it lives, and n1 holds until %v", until)
	}
}

// One of three devices is enough, and a device with an old block does not hide the new block on another.
func TestEchoesOverThreeDevices(t *testing.T) {
	c := newChoir(t, 2, 3)
	c.nodes[0].lanes[0].present, c.nodes[0].lanes[1].present = false, false // node 0 reaches only device 2
	c.nodes[1].lanes[0].present = false                                     // node 1 reaches two devices
	for range 3 {
		c.turn(0)
		c.turn(1)
	}
	if c.vacant(0) == 0 || c.vacant(1) == 0 {
		t.Errorf("until %v and %v at %v", c.vacant(0), c.vacant(1), c.now)
	}
	c.nodes[1].lanes[2].present = false // no common device any more
	c.now = c.now.Add(choirDated)
	c.turn(1)
	c.turn(0)
	if c.vacant(0) != 0 {
		t.Error("what device 2 shows is new to nobody")
	}
}

// Blocks of a node that uses another list, or two lists, do not count.
func TestWordByAnotherList(t *testing.T) {
	c := newChoir(t, 2, 1)
	for range 2 {
		c.turn(0)
		c.turn(1)
	}
	c.turn(0)
	p := &c.nodes[0].echo.peers[1]
	for name, change := range map[string]func(){
		"unsettled": func() { p.Settled = false }, "epoch": func() { p.RosterEpoch++ },
		"digest": func() { p.RosterDigest++ }, "size": func() { p.RosterSize++ }, "this node": func() { p.RosterIndex = 0 },
	} {
		was := *p
		if change(); c.vacant(0) != 0 {
			t.Errorf("%s: it counts", name)
		}
		*p = was
	}
	if c.vacant(0) == 0 {
		t.Error("it does not count at all")
	}
}

// Guard: H3. A node that counts this node does not isolate it, even if they have no contact.
func TestCountedIsNotIsolated(t *testing.T) {
	c := newChoir(t, 3, 1)
	c.lives[1], c.lives[2] = true, true
	for range 2 {
		for i := range c.nodes {
			c.turn(i)
		}
	}
	c.turn(0)
	a := c.nodes[0]
	if h := a.Hear(c.now, roster.Set{}, 2, choirDated); !h.Isolated || h.Ground == 0 {
		t.Fatalf("two of three live without n1: %+v", h)
	}
	a.echo.peers[1].Lately.Add(0)
	if h := a.Hear(c.now, roster.Set{}, 2, choirDated); !h.Isolated || h.Ground != 0 {
		t.Errorf("n2 has seen n1 a moment ago: %+v", h)
	}
	a.echo.peers[1].View.Add(0)
	if h := a.Hear(c.now, roster.Set{}, 2, choirDated); h.Isolated || h.Ground != 0 {
		t.Errorf("n2 counts n1: %+v", h)
	}
}

// Guard: H6. The date of the ground is that of the oldest block that it needs.
func TestGroundIsAsOldAsItsWords(t *testing.T) {
	c := newChoir(t, 5, 1)
	a := c.nodes[0]
	c.now = c.now.Add(time.Hour)
	for i, age := range map[int]time.Duration{1: time.Second, 2: 3 * time.Second, 3: 2 * time.Second, 4: 4 * time.Second} {
		a.echo.peers[i] = testified{date: c.now.Add(-age), Echo: Echo{
			RosterEpoch: a.roster.Epoch, RosterDigest: a.roster.Digest, RosterSize: 5, RosterIndex: i, Testimony: Testimony{Lives: true, Feeding: true, Settled: true},
		}}
	}
	if h := a.Hear(c.now, roster.Set{}, 3, choirDated); h.Ground != c.now.Add(-3*time.Second) {
		t.Errorf("a majority of three speaks since %v", c.now.Sub(h.Ground))
	}
	for _, slot := range []int{1, 2} {
		a.echo.peers[slot].Lives = false
	}
	a.lease.grant = &Grant{Holders: []Holder{{Slot: 3}, {Slot: 4}}}
	if h := a.Hear(c.now, roster.Set{}, 3, choirDated); h.Ground != c.now.Add(-4*time.Second) {
		t.Errorf("all whom the grant names speak since %v", c.now.Sub(h.Ground))
	}
	for name, change := range map[string]func(){
		"one has given it up":   func() { a.echo.peers[4].Token.Counter++ },
		"one does not live":     func() { a.echo.peers[4].Lives = false },
		"one starves":           func() { a.echo.peers[4].Feeding = false },
		"one holds":             func() { a.echo.peers[4].Holding = true },
		"one was not heard":     func() { a.echo.peers[4].date = 0 },
		"one spoke long ago":    func() { a.echo.peers[4].date = c.now.Add(-time.Minute) },
		"it names this node":    func() { a.lease.grant = &Grant{Holders: []Holder{{Slot: 0}, {Slot: 3}}} },
		"there is none":         func() { a.lease.grant = nil },
		"its holders have left": func() { a.table.entries[3] = known(3); a.table.entries[4] = known(4) },
	} {
		peers, grant, entries := slices.Clone(a.echo.peers), a.lease.grant, slices.Clone(a.table.entries)
		if change(); a.Hear(c.now, roster.Set{}, 3, choirDated).Ground != 0 {
			t.Errorf("%s: it is a ground", name)
		}
		a.echo.peers, a.lease.grant, a.table.entries = peers, grant, entries
	}
}

// known returns a slot whose owner has a token that no grant in these tests names.
func known(slot int) entry {
	e := entry{status: slotKnown}
	e.newest.Index, e.newest.Statement.Token = slot, Token{Nonce: 1, Counter: 7}
	return e
}

// Guard: B3. A device whose other copy failed does not count in the ballot's write, even while it reads echo blocks:
// that I/O is not the write for which the ballot would wait.
func TestFailedCopyIsOutWhileEchoesAreRead(t *testing.T) {
	for _, echo := range []bool{true, false} {
		c := newChoir(t, 2, 1)
		a := c.nodes[0]
		l := &a.lanes[0]
		l.tried[1], l.inFlight, l.echo = 7, true, echo
		a.begin(c.now, OpWrite)
		if a.alsoWrite(7); a.cur.failed.has(0) != echo {
			t.Errorf("echo I/O %v: the device is out of the write: %v", echo, a.cur.failed.has(0))
		}
	}
}

package diskquorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// witnesses returns an arbiter of five that has read the others' blocks, modified by change. By default all four others
// live, count each other but not this node, and their blocks are recent.
func witnesses(t *testing.T, change func(a *Arbiter)) (*Arbiter, boottime.Instant) {
	t.Helper()
	c := newChoir(t, 5, 1)
	a, now := c.nodes[0], c.now
	rest := roster.SetOf(1, 2, 3, 4)
	a.view = roster.SetOf(0)
	for slot := 1; slot < 5; slot++ {
		a.echo.peers[slot] = testified{date: now.Add(-time.Duration(slot) * 100 * time.Millisecond), Echo: Echo{
			Boot: uint64(slot + 1), Testimony: Testimony{Lives: true, Settled: true, View: rest}, RosterEpoch: a.roster.Epoch, RosterDigest: a.roster.Digest,
			RosterSize: 5, RosterIndex: slot, Token: Token{Nonce: uint64(slot), Counter: 7},
		}}
		e := &a.table.entries[slot]
		e.status, e.newest = slotKnown, Slot{Index: slot, State: SlotActive, Statement: netgossip.Statement{
			RosterEpoch: a.roster.Epoch, RosterDigest: a.roster.Digest, Seen: rest, Token: Token{Nonce: uint64(slot), Counter: 7},
		}}
	}
	if change != nil {
		change(a)
	}
	return a, now
}

// Guard: P1, E1. Recent, dated blocks must show a majority without this node.
func TestOthersLiveByMajority(t *testing.T) {
	each := func(f func(p *testified)) func(a *Arbiter) {
		return func(a *Arbiter) {
			for slot := 1; slot < 5; slot++ {
				f(&a.echo.peers[slot])
			}
		}
	}
	one := func(slot int, f func(p *testified)) func(a *Arbiter) {
		return func(a *Arbiter) { f(&a.echo.peers[slot]) }
	}
	for name, c := range map[string]struct {
		change func(a *Arbiter)
		want   bool
	}{
		"all four": {nil, true},
		"three of five": {func(a *Arbiter) {
			a.echo.peers[4] = testified{}
			each(func(p *testified) { p.View = roster.SetOf(1, 2, 3) })(a)
		}, true},
		"two of five":          {func(a *Arbiter) { a.echo.peers[4], a.echo.peers[3] = testified{}, testified{} }, false},
		"nobody lives":         {each(func(p *testified) { p.Lives = false }), false},
		"without a date":       {each(func(p *testified) { p.date = 0 }), false},
		"old words":            {each(func(p *testified) { p.date = p.date.Add(-time.Minute) }), false},
		"one counts this node": {each(func(p *testified) { p.View.Add(0) }), false},
		"a hub that counts all": {func(a *Arbiter) {
			each(func(p *testified) { p.View = roster.SetOf(1, p.RosterIndex) })(a)
			a.echo.peers[1].View = roster.SetOf(1, 2, 3, 4)
		}, false},
		"two are condemned":               {func(a *Arbiter) { a.echo.peers[1].Judged.Timeout, a.echo.peers[2].Judged.Timeout = 1, 1 }, false},
		"two go by another list":          {func(a *Arbiter) { a.echo.peers[1].RosterDigest++; a.echo.peers[2].RosterDigest++ }, false},
		"two are not settled":             {func(a *Arbiter) { a.echo.peers[1].Settled, a.echo.peers[2].Settled = false, false }, false},
		"the word of this node":           {each(func(p *testified) { p.RosterIndex = 0 }), false},
		"one sees this node, by its slot": {func(a *Arbiter) { a.table.entries[2].newest.Statement.Seen.Add(0) }, false},
		"one slot cannot be read":         {func(a *Arbiter) { a.table.entries[2].status = slotUnknown }, false},
		"one is counted by this node":     {func(a *Arbiter) { a.view.Add(2); a.table.entries[2].newest.Statement.Seen.Add(0) }, true},
		"one is old, of a majority still": {one(4, func(p *testified) { p.date = p.date.Add(-time.Minute) }), true},
	} {
		t.Run(name, func(t *testing.T) {
			a, now := witnesses(t, c.change)
			if got := a.OthersLive(now, 3, roster.Set{}); (got.Dated != 0) != c.want {
				t.Errorf("%+v, want %v", got, c.want)
			}
		})
	}
	a, now := witnesses(t, func(a *Arbiter) { a.table.entries[4].newest.Statement.Seen.Add(0) })
	if got := a.OthersLive(now, 3, roster.Set{}).Dated; got != 0 {
		t.Error("one sees this node, and has not parted from it")
	}
	if got := a.OthersLive(now, 3, roster.SetOf(4)).Dated; got == 0 {
		t.Error("the slot of one who has parted keeps three others from showing that they live")
	}
	a, now = witnesses(t, nil)
	if got := a.OthersLive(now, 3, roster.Set{}).Dated; got != now.Add(-400*time.Millisecond) {
		t.Errorf("dated %v, want by the oldest word", time.Duration(got-now))
	}
}

// Guard: P1, E2. All holders of the latest grant must live by it, with exactly the granted half, and no later value may
// be decided.
func TestOthersLiveByGrant(t *testing.T) {
	half := roster.SetOf(1, 2)
	granted := func(a *Arbiter) {
		for slot := 1; slot < 5; slot++ {
			p := &a.echo.peers[slot]
			p.View, p.Granted, p.Lives, p.Feeding = half, slot < 3, slot < 3, slot < 3
		}
		a.lease.grant = &Grant{Holders: []Holder{{Slot: 1, Token: Token{Nonce: 1, Counter: 7}}, {Slot: 2, Token: Token{Nonce: 2, Counter: 7}}}}
	}
	for name, c := range map[string]struct {
		change func(a *Arbiter)
		want   bool
	}{
		"both":                      {func(*Arbiter) {}, true},
		"one has not told":          {func(a *Arbiter) { a.echo.peers[2].date = 0 }, false},
		"one does not live":         {func(a *Arbiter) { a.echo.peers[2].Lives = false }, false},
		"one does not know of it":   {func(a *Arbiter) { a.echo.peers[2].Granted = false }, false},
		"one is named, and starves": {func(a *Arbiter) { a.echo.peers[2].Feeding = false }, false},
		"one is named, and holds":   {func(a *Arbiter) { a.echo.peers[2].Holding = true }, false},
		"one has another token":     {func(a *Arbiter) { a.echo.peers[2].Token.Counter++ }, false},
		"one counts another one":    {func(a *Arbiter) { a.echo.peers[2].View = roster.SetOf(2, 3) }, false},
		"one counts one more":       {func(a *Arbiter) { a.echo.peers[2].View = roster.SetOf(1, 2, 3) }, false},
		"one is condemned":          {func(a *Arbiter) { a.echo.peers[2].Judged.Timeout = 1 }, false},
		"it names this node":        {func(a *Arbiter) { a.lease.grant.Holders[0].Slot = 0 }, false},
		"a later value":             {func(a *Arbiter) { a.lease.pending = true }, false},
		"a slot that is not known":  {func(a *Arbiter) { a.lease.unknown = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, now := witnesses(t, func(a *Arbiter) { granted(a); c.change(a) })
			if got := a.OthersLive(now, 3, roster.Set{}); (got.Dated != 0) != c.want {
				t.Errorf("%+v, want %v", got, c.want)
			}
		})
	}
}

// Guard: P2. A condemned arbiter renounces, and never proposes again.
func TestCondemnedArbiter(t *testing.T) {
	a, now := witnesses(t, nil)
	a.token, a.lastWriteOK, a.readBack = Token{Nonce: 1, Counter: 5}, true, true
	if !a.mayPropose() {
		t.Fatal("it may not propose before")
	}
	a.Condemn()
	a.Condemn()
	if a.token.Counter != 6 || a.mayPropose() {
		t.Errorf("token %v, may propose %v", a.token, a.mayPropose())
	}
	in := Input{}
	in.Tie, in.View = true, a.view
	if out := a.Step(now, &in); out.Split != 0 && out.Split.String() != "none" {
		t.Errorf("split %v", out.Split)
	}
}

// Guard: P2, P6. The sentence is written with name and boot as soon as it is announced, and read with them; a later
// agent of the same boot adopts it from its own block.
func TestSentenceOnTheLUN(t *testing.T) {
	c := newChoir(t, 3, 1)
	a, b := c.nodes[0], c.nodes[1]
	owner := &b.table.entries[0]
	owner.status, owner.newest.NodeName = slotKnown, a.roster.Name(0)
	io := func(i int, sentence time.Duration) {
		for range 6 {
			c.now = c.now.Add(200 * time.Millisecond)
			c.nodes[i].ops = nil
			out := c.nodes[i].Testify(c.now, &Testimony{Settled: true, Sentence: sentence})
			for _, op := range append([]Op(nil), out.Ops...) {
				done := Completion{ID: op.ID, Device: op.Device, Kind: op.Kind, Started: c.now, Ended: c.now}
				if op.Kind == OpWrite {
					copy(c.images[0][op.Offset:], op.Data)
				} else {
					done.Data = append([]byte(nil), c.images[0][op.Offset:op.Offset+int64(op.Length)]...)
				}
				c.nodes[i].Complete(c.now, &done)
			}
		}
	}
	io(0, 0)
	if io(1, 0); len(b.TakeSentences()) > 0 || a.SentenceLanded() {
		t.Fatal("there is none yet")
	}
	io(0, 2*time.Second)
	if !a.SentenceLanded() {
		t.Error("it has not landed")
	}
	io(1, 0)
	want := Sentence{Timeout: 2 * time.Second, Boot: 1, Name: NameDigest(a.roster.Name(0))}
	if got := b.TakeSentences(); len(got) == 0 || got[0] != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	owner.newest.NodeName = a.roster.Name(2) // the slot now has another owner
	if io(1, 0); len(b.TakeSentences()) > 0 {
		t.Error("read in the slot of another node")
	}
	if b.OwnSentence() != 0 {
		t.Error("it is not of this node")
	}
	c.start(0, 777) // the next agent of the same boot
	io(0, 0)
	if got := c.nodes[0].OwnSentence(); got != 2*time.Second {
		t.Errorf("the next agent reads %v", got)
	}
}

// A block with a sentence differs from one without only in the bytes that are reserved for it.
func TestSentenceIsInReservedBytes(t *testing.T) {
	e, pings := sampleEcho(), samplePings(MaxSlots)
	with := encodeEcho(t, MaxSlots, &e, pings)
	e.Judged, e.Sentence = Sentence{}, 0
	without := encodeEcho(t, MaxSlots, &e, pings)
	for i := range with {
		if reserved := i >= 144 && i < 208 || i >= SectorSize-8 && i < SectorSize; with[i] != without[i] && !reserved { // 8: the seal
			t.Errorf("byte %d differs", i)
		}
	}
}

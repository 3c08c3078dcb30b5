package doubt

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// bench is the core of node 0, driven by hand. Peer 7 is in doubt; peer 9 answers.
type bench struct {
	*Core
	t   *testing.T
	now boottime.Instant
	all Effects
}

func newBench(t *testing.T) *bench {
	w := newWorld(t, 1, 20, 2, 0, netgossip.Any())
	b := &bench{Core: w.cores[0], t: t, now: w.now}
	b.well()
	return b
}

// well lets a peer answer on both networks.
func (b *bench) well() {
	for k := range 2 {
		b.Answered(k, 9, b.now.Add(-time.Millisecond), 1, b.now)
	}
}

// pass advances the clock in steps, in which the node is well and its looks at 7 are sent.
func (b *bench) pass(d time.Duration, healthy bool) {
	for end := b.now.Add(d); b.now < end; {
		b.now = b.now.Add(10 * time.Millisecond)
		if healthy {
			b.well()
		}
		b.Tick(b.now)
		b.take()
	}
}

func (b *bench) take() {
	fx := b.Take()
	for _, l := range fx.Looks {
		b.Probed(l.Network, l.Peer, b.now)
	}
	b.all.Looks = append(b.all.Looks, fx.Looks...)
	b.all.Words = append(b.all.Words, fx.Words...)
}

// late makes this node's sample of 7 late.
func (b *bench) late() {
	b.Late(0, 7, b.now.Add(-150*time.Millisecond), false, b.now)
	b.take()
}

func (b *bench) say(k Kind, from ...int) {
	for _, f := range from {
		b.Said(Word{k, 7}, f, b.now, b.now)
		b.take()
	}
}

func (b *bench) isLeft() bool { _, left := b.Left()[7]; return left }

func (b *bench) looksAt(p int) (n int) {
	for _, l := range b.all.Looks {
		if l.Peer == p {
			n++
		}
	}
	return n
}

func (b *bench) said(k Kind) (n int) {
	for _, w := range b.all.Words {
		if w.Word.Kind == k {
			n++
		}
	}
	return n
}

func TestThreeMembersAndAnEmptyLook(t *testing.T) {
	b := newBench(t)
	b.late()
	b.pass(500*time.Millisecond, true)
	if b.say(Firm, 3, 4); b.isLeft() {
		t.Error("LEFT by the words of two")
	}
	if b.say(Firm, 5); !b.isLeft() {
		t.Error("not LEFT by the words of three")
	}
}

func TestAMemberHasOneVoice(t *testing.T) {
	b := newBench(t)
	b.late()
	b.pass(500*time.Millisecond, true)
	b.say(Firm, 3, 3, 3, 4, 4, 3)
	if b.pass(500*time.Millisecond, true); b.isLeft() {
		t.Error("LEFT by the words of two who repeat themselves")
	}
}

func TestNobodyIsLeftWithoutALookOfOnesOwn(t *testing.T) {
	b := newBench(t)
	b.say(Firm, 3, 4, 5, 6)
	b.pass(300*time.Millisecond, true)
	if b.isLeft() {
		t.Error("LEFT after 0.3 s of looking")
	}
	if b.pass(300*time.Millisecond, true); !b.isLeft() {
		t.Error("not LEFT after 0.6 s of looking")
	}
}

// An answer voids words from before the probe, however late the words arrive.
func TestAnAnswerEndsWhatWasSaidBefore(t *testing.T) {
	b := newBench(t)
	b.late()
	b.pass(500*time.Millisecond, true)
	b.say(Firm, 3, 4)
	before := b.now
	b.pass(20*time.Millisecond, true)
	b.Answered(1, 7, b.now.Add(-time.Millisecond), 1, b.now)
	b.pass(20*time.Millisecond, true)
	b.late()
	for _, f := range []int{3, 4, 5} {
		b.Said(Word{Firm, 7}, f, before, b.now)
	}
	if b.pass(time.Second, true); b.isLeft() {
		t.Error("LEFT by words from before its latest answer")
	}
	b.say(Firm, 3, 4, 5)
	if b.pass(50*time.Millisecond, true); !b.isLeft() {
		t.Error("not LEFT by words from after it")
	}
}

func TestAWordDoesNotLastForEver(t *testing.T) {
	b := newBench(t)
	b.say(Firm, 3)
	b.pass(2700*time.Millisecond, true)
	b.late()
	b.pass(500*time.Millisecond, true)
	if b.say(Firm, 4, 5); b.isLeft() {
		t.Error("LEFT by words of which one is 3 s old")
	}
	if b.say(Firm, 3); !b.isLeft() {
		t.Error("not LEFT by the words of three")
	}
}

// A member whose silence began again asks again. That does not renew its earlier firm word.
func TestAnOldFirmWordIsNotRenewed(t *testing.T) {
	b := newBench(t)
	b.say(Firm, 3)
	b.pass(2*time.Second, true)
	b.say(Ask, 3)
	b.pass(1200*time.Millisecond, true)
	if b.say(Firm, 4, 5); b.isLeft() {
		t.Error("LEFT by firm words of which one is 3.2 s old")
	}
	if b.say(Firm, 3); !b.isLeft() {
		t.Error("not LEFT by the words of three")
	}
}

func TestASickNodePublishesNothing(t *testing.T) {
	b := newBench(t)
	b.late()
	b.pass(600*time.Millisecond, false)
	if b.say(Firm, 3, 4, 5); b.isLeft() {
		t.Error("LEFT at a node that hears nobody")
	}
	b.pass(3*time.Second, false)
	if b.said(Firm)+b.said(Call) > 0 || b.isLeft() {
		t.Error("a node that hears nobody has a firm word")
	}
	b.say(Miss, 3, 4, 5)
	b.well() // its answer comes before that of 7
	if b.pass(300*time.Millisecond, true); b.isLeft() || b.said(Firm)+b.said(Call) > 0 {
		t.Error("words by the silence of a node that heard nobody")
	}
}

func TestOneCallIsNotEnoughToLook(t *testing.T) {
	b := newBench(t)
	b.say(Call, 3)
	if b.pass(100*time.Millisecond, true); b.looksAt(7) > 0 {
		t.Error("one member makes everybody look")
	}
	b.say(Call, 4)
	if b.pass(100*time.Millisecond, true); b.looksAt(7) == 0 {
		t.Error("two do not")
	}
}

func TestTheFirmWordWaitsForTheWindow(t *testing.T) {
	b := newBench(t)
	b.late()
	b.say(Miss, 3, 4, 5)
	b.pass(1200*time.Millisecond, true)
	if b.said(Firm) > 0 {
		t.Error("a firm word after 1.35 s")
	}
	if b.said(Call) != 1 {
		t.Errorf("%d calls after 1.35 s", b.said(Call))
	}
	b.pass(400*time.Millisecond, true)
	if b.said(Firm) != 1 {
		t.Errorf("%d firm words after 1.6 s and more", b.said(Firm))
	}
}

func TestALonelyDoubterSaysNothingToEverybody(t *testing.T) {
	b := newBench(t)
	b.late()
	b.say(Miss, 3)
	b.pass(3*time.Second, true)
	if b.said(Call)+b.said(Firm) > 0 {
		t.Errorf("two who miss a peer make %d calls and %d firm words", b.said(Call), b.said(Firm))
	}
	if b.said(Ask) != 2 {
		t.Errorf("%d questions: one to the watchers and one to others are wanted", b.said(Ask))
	}
}

func TestDoubtsAreMuteUntilLossIsMeasured(t *testing.T) {
	b := newBench(t)
	b.loss = loss{}
	b.late()
	b.say(Firm, 3, 4, 5)
	b.pass(3*time.Second, true)
	if b.looksAt(7) > 0 || b.isLeft() {
		t.Error("a node that does not know the loss of its networks has doubts")
	}
}

func TestANodeThatAsksNobodyIsNotDeaf(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(400 * time.Millisecond) // if each peer is probed, all may be probed at once
	b.Tick(b.now)
	b.now = b.now.Add(400 * time.Millisecond)
	b.Tick(b.now)
	b.late()
	if b.looksAt(7) == 0 || len(b.all.Looks) <= b.looksAt(7) {
		t.Errorf("looks %v: at 7, and at somebody else", b.all.Looks)
	}
	since := b.peers[7].nets[0].probes[0]
	if since != b.now.Add(-150*time.Millisecond) {
		t.Errorf("the silence began %v ago", b.now.Sub(since))
	}
	b.well()
	if len(b.peers[7].nets[0].probes) == 0 || b.peers[7].nets[0].probes[0] != since {
		t.Error("a silence of everybody that was not asked for ends the doubt")
	}
}

// A node that did nothing for two seconds has no silences of two seconds, even if a peer answers at once.
func TestASilenceDoesNotGrowWhileTheNodeStandsStill(t *testing.T) {
	b := newBench(t)
	b.late()
	b.pass(300*time.Millisecond, true)
	b.say(Miss, 3, 4, 5)
	b.well()
	b.now = b.now.Add(2 * time.Second)
	b.well()
	b.Tick(b.now)
	b.take()
	if n := b.said(Call) + b.said(Firm); n > 0 {
		t.Errorf("%d words to everybody by a silence that nobody kept", n)
	}
}

// If a peer must answer on all networks, a network on which no peer answers shows nothing about a single peer.
func TestADeadSwitchIsNoSilenceOfAPeer(t *testing.T) {
	w := newWorld(t, 1, 20, 2, 0, netgossip.All())
	b := &bench{Core: w.cores[0], t: t, now: w.now}
	b.well()
	for range 40 {
		b.now = b.now.Add(50 * time.Millisecond)
		b.Answered(0, 9, b.now.Add(-time.Millisecond), 1, b.now)
		b.Answered(0, 7, b.now.Add(-time.Millisecond), 1, b.now)
		if b.now.Sub(w.now) == 1500*time.Millisecond {
			b.Late(1, 7, b.now.Add(-150*time.Millisecond), false, b.now)
		}
		b.Tick(b.now)
		b.take()
	}
	if n := len(b.all.Words); n > 0 {
		t.Errorf("%d words", n)
	}
}

// Two calls are enough. All five watchers reach the time of their call at the same moment.
func TestNotAllWatchersCall(t *testing.T) {
	calls := 0
	for seed := range uint64(10) {
		w := newWorld(t, seed, 40, 2, 0, netgossip.Any())
		w.run(2 * time.Second)
		w.crash(7)
		calls += w.said[Call]
	}
	if calls > 35 {
		t.Errorf("%d calls for 10 deaths", calls)
	}
}

// A stall is noticed by twenty members. Three of them get a watcher's result, the others hear its call.
func TestAWatcherAnswersThreeOfThoseWhoAsk(t *testing.T) {
	b := newBench(t)
	b.say(Ask, 1, 2)
	b.pass(300*time.Millisecond, true)
	b.all.Words = nil
	b.say(Ask, 3, 4, 5, 6, 3)
	told := 0
	for _, w := range b.all.Words {
		if w.Word.Kind != Miss || w.To.Len() != 1 || !w.To.Has(3) {
			t.Errorf("said %+v", w)
		}
		told++
	}
	if told != 2 {
		t.Errorf("member 3, which asked twice, was answered %d times", told)
	}
}

// A node that hears no peer may itself be the cause. It looks once at a silent peer, and then at others.
func TestANodeThatHearsNobodyDoesNotLookAgain(t *testing.T) {
	for _, healthy := range []bool{false, true} {
		b := newBench(t)
		b.pass(600*time.Millisecond, false)
		b.all.Looks = nil
		b.late()
		b.pass(300*time.Millisecond, healthy)
		if n := b.looksAt(7); healthy != (n > 2) {
			t.Errorf("others answer: %v; %d looks at one that is silent", healthy, n)
		}
		if others := len(b.all.Looks) - b.looksAt(7); !healthy && others == 0 {
			t.Error("it looks at nobody else")
		}
	}
}

// If a node itself has found more than a few silent peers, many are gone: it asks no watchers, does not call, and sends
// no firm word. It looks when others call, and publishes by their words. Peers that it found because of a call or in a
// sweep do not count.
func TestANodeThatFindsManyItselfCallsOnNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		found  int
		find   func(b *bench, p int)
		silent bool
	}{
		{"few by samples", findings - 1, func(b *bench, p int) { b.Late(0, p, b.now.Add(-150*time.Millisecond), false, b.now) }, false},
		{"many by samples", findings, func(b *bench, p int) { b.Late(0, p, b.now.Add(-150*time.Millisecond), false, b.now) }, true},
		{"many as a watcher", findings, func(b *bench, p int) { b.Said(Word{Ask, p}, 3, b.now, b.now) }, true},
		{"many by a sweep", findings, func(b *bench, p int) { b.Late(0, p, b.now.Add(-150*time.Millisecond), true, b.now) }, false},
		{"many by calls", findings, func(b *bench, p int) {
			for from := range callers {
				b.Said(Word{Call, p}, 2+from, b.now, b.now)
			}
		}, false},
	} {
		w := newWorld(t, 1, 100, 2, 0, netgossip.Any())
		b := &bench{Core: w.cores[0], t: t, now: w.now}
		b.well()
		for p := 20; p < 20+c.found; p++ {
			c.find(b, p)
			b.take()
		}
		b.late()
		b.pass(300*time.Millisecond, true)
		b.say(Miss, 3, 4)
		b.pass(1500*time.Millisecond, true)
		if got := b.said(Call)+b.said(Firm) == 0; got != c.silent {
			t.Errorf("%s: says nothing to everybody: %v, want %v", c.name, got, c.silent)
		}
		if !c.silent {
			continue
		}
		looked := b.looksAt(7)
		if looked > 2 {
			t.Errorf("%s: %d looks at one that nobody calls out", c.name, looked)
		}
		b.say(Call, 3, 4)
		if b.pass(500*time.Millisecond, true); b.looksAt(7) == looked {
			t.Errorf("%s: no look at one that is called out", c.name)
		}
		if b.say(Firm, 3, 4, 5); !b.isLeft() {
			t.Errorf("%s: not LEFT by the words of others", c.name)
		}
	}
}

// A found peer counts only as long as it is missed: its answer ends this.
func TestFoundAndAnswered(t *testing.T) {
	w := newWorld(t, 1, 100, 2, 0, netgossip.Any())
	b := &bench{Core: w.cores[0], t: t, now: w.now}
	b.well()
	for p := 20; p < 20+2*findings; p++ {
		b.Late(0, p, b.now.Add(-150*time.Millisecond), false, b.now)
		b.take()
	}
	b.pass(300*time.Millisecond, true)
	if !b.many() {
		t.Fatalf("%d found", b.own)
	}
	for p := 20; p < 20+2*findings; p++ {
		for k := range 2 {
			b.Answered(k, p, b.now, 1, b.now)
		}
	}
	if b.many() || b.own != 0 {
		t.Errorf("%d found, though all answer", b.own)
	}
	for p := 20; p < 20+2*findings; p++ {
		b.Late(0, p, b.now.Add(-150*time.Millisecond), false, b.now)
		b.take()
	}
	b.pass(300*time.Millisecond, true)
	b.Restart(b.now)
	if b.own != 0 {
		t.Errorf("%d found after a restart", b.own)
	}
}

// If a tenth of a large group is gone at once, all members look at all of these peers, because a member that does not
// look cannot publish. The bound is only for a larger loss.
func TestATenthOfAThousandIsLookedAt(t *testing.T) {
	w := newWorld(t, 1, 1000, 2, 0, netgossip.Any())
	b := &bench{Core: w.cores[0], t: t, now: w.now}
	b.well()
	for p := 100; p < 300; p++ {
		for from := range callers {
			b.Said(Word{Call, p}, 2+from, b.now, b.now)
		}
		b.take()
	}
	looked := 0
	for p := 100; p < 300; p++ {
		if b.looksAt(p) > 0 {
			looked++
		}
	}
	if looked < 100 || looked > 1000/looksShare {
		t.Errorf("%d of 200 that are called out are looked at, want 100 to %d", looked, 1000/looksShare)
	}
}

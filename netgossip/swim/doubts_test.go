package swim

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// doubting is the Doubts of member 0 of a roster, with the inboxes of two instances.
type doubting struct {
	*Doubts
	now   boottime.Instant
	nets  []*evidence
	left  []netgossip.Silence
	lists *roster.Roster
}

func doubtsOf(t *testing.T, members, networks int) *doubting {
	t.Helper()
	d := &doubting{now: boottime.Instant(time.Hour)}
	d.Doubts = NewDoubts(DoubtsConfig{
		Networks: networks, Policy: netgossip.Any(), Clock: func() boottime.Instant { return d.now },
		Left: func(_ *roster.Roster, silent []netgossip.Silence) { d.left = silent },
	})
	d.lists = listOfMembers(t, 1, members)
	for k := range networks {
		e := d.instance(k, d.lists)
		d.join(e)
		d.nets = append(d.nets, e)
	}
	for range 40 {
		d.closed(d.nets[0], 1, 0)
	}
	return d
}

func listOfMembers(t *testing.T, epoch uint64, n int) *roster.Roster {
	t.Helper()
	var members []roster.Member
	for i := range n {
		members = append(members, roster.Member{Name: fmt.Sprintf("n%02d", i)})
	}
	r, err := roster.New(epoch, members, "n00")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (d *doubting) instance(network int, r *roster.Roster) *evidence {
	return &evidence{
		cfg:   &Config{Network: network, Roster: r, Params: netgossip.Tune(r.Size()), Logger: slog.New(slog.DiscardHandler)},
		inbox: make(chan arrival, 100), wake: make(chan struct{}, 1),
	}
}

func (d *doubting) peer(i int) *peer {
	return &peer{Peer: &probing.Peer{Index: i}, addr: memberlist.Address{Name: d.lists.Name(i)}}
}

// answer lets a member answer, with the clock of its boot, and give a cookie.
func (d *doubting) answer(i int, cookie uint64) {
	m := wire.Message{Kind: wire.Answer, Clock: wire.ClockOf(uint64(i)<<40, d.now), Cookie: cookie}
	d.answered(d.nets[0], i, d.now.Add(-time.Millisecond), uint64(i)<<40, &m, d.now)
}

// word returns a member's message (word) as it arrives.
func (d *doubting) word(from int, cookie uint64, w doubt.Word) *wire.Message {
	return &wire.Message{Kind: wire.Doubt, Member: from, Clock: wire.ClockOf(uint64(from)<<40, d.now), Cookie: cookie, Word: w}
}

// looks empties the inboxes and counts the looks at a member.
func (d *doubting) looks(at int) (n int) {
	for _, e := range d.nets {
		for len(e.inbox) > 0 {
			if a := <-e.inbox; a.look && a.peer == at {
				n++
			}
		}
	}
	return n
}

func TestAWordBearsTheCookieOfItsSender(t *testing.T) {
	d := doubtsOf(t, 12, 2)
	for i := 1; i < 12; i++ {
		d.answer(i, 1)
	}
	ask := doubt.Word{Kind: doubt.Ask, Peer: 7}
	mine, other := d.cookieFor("n03"), d.cookieFor("n04")
	if mine == other || mine == 0 {
		t.Fatalf("cookies %x and %x", mine, other)
	}
	if d.heed(d.nets[0], d.peer(3), d.word(3, other, ask), d.now) || d.looks(7) > 0 {
		t.Error("a word in the name of another member counted")
	}
	if !d.heed(d.nets[0], d.peer(3), d.word(3, mine, ask), d.now) || d.looks(7) != 2 {
		t.Error("a word with its cookie did not make this node look on both networks")
	}
	if again := NewDoubts(DoubtsConfig{Networks: 1}); again.cookieFor("n03") == mine {
		t.Error("another process gives the same cookie")
	}
}

// A recorded word can be replayed at any time. It is as old as its first copy.
func TestARecordedWordDoesNotCount(t *testing.T) {
	d := doubtsOf(t, 12, 2)
	for i := 1; i < 12; i++ {
		d.answer(i, 1)
	}
	recorded := d.word(3, d.cookieFor("n03"), doubt.Word{Kind: doubt.Ask, Peer: 7})
	d.now = d.now.Add(5 * time.Second)
	for i := 1; i < 12; i++ {
		d.answer(i, 1)
	}
	if d.heed(d.nets[0], d.peer(3), recorded, d.now); d.looks(7) > 0 {
		t.Error("a word of five seconds ago made this node look")
	}
	d.now = d.now.Add(200 * time.Millisecond)
	early := d.word(3, d.cookieFor("n03"), doubt.Word{Kind: doubt.Ask, Peer: 7})
	early.Clock = wire.ClockOf(3<<40, d.now.Add(-100*time.Millisecond))
	if d.heed(d.nets[0], d.peer(3), early, d.now); d.looks(7) != 2 {
		t.Error("a word that is 0.1 s old did not count")
	}
	reborn := d.word(3, d.cookieFor("n03"), doubt.Word{Kind: doubt.Ask, Peer: 8})
	reborn.Clock = wire.ClockOf(99<<40, d.now)
	if d.heed(d.nets[0], d.peer(3), reborn, d.now) {
		t.Error("a word of another boot than the one that answered counted")
	}
}

func TestDoubtsRestWhileANetworkHasNoInstance(t *testing.T) {
	d := doubtsOf(t, 12, 2)
	d.answer(3, 1)
	d.part(d.nets[1])
	d.late(d.nets[0], probing.Late{Peer: 7, Since: d.now.Add(-200 * time.Millisecond)})
	if d.looks(7) > 0 {
		t.Error("it is looked at a peer though a network has no instance")
	}
	d.nets[1] = d.instance(1, listOfMembers(t, 2, 13))
	d.join(d.nets[1])
	d.late(d.nets[0], probing.Late{Peer: 7, Since: d.now.Add(-200 * time.Millisecond)})
	if d.looks(7) > 0 {
		t.Error("it is looked at a peer though the networks count by two lists")
	}
}

// A peer that is LEFT stays LEFT when the list of members changes, under its new number.
func TestWhoIsLeftStaysSoUnderAnotherList(t *testing.T) {
	d := doubtsOf(t, 12, 2)
	d.core.Recall(7, d.now, d.now)
	d.act(d.now)
	longer := listOfMembers(t, 2, 13)
	for k := range d.nets {
		d.join(d.instance(k, longer))
	}
	d.act(d.now)
	if _, still := d.core.Left()[7]; len(d.left) != 1 || longer.Name(d.left[0].Peer) != "n07" || !still {
		t.Errorf("LEFT: %v, and of the new list %v", d.left, d.core.Left())
	}
}

// An agent without doubts gives no cookie, and is sent no words.
func TestWhoGaveNoCookieHearsNoWords(t *testing.T) {
	d := doubtsOf(t, 12, 1)
	for i := 1; i < 12; i++ {
		d.answer(i, uint64(i%2)) // half of them
	}
	d.send([]doubt.Outgoing{{Word: doubt.Word{Kind: doubt.Firm, Peer: 4}, Everyone: true, Copies: 1}}, d.now)
	for _, w := range d.nets[0].request.words {
		if w.to%2 == 0 || w.cookie == 0 {
			t.Errorf("a word to member %d", w.to)
		}
	}
	if n := len(d.nets[0].request.words); n != 6 {
		t.Errorf("%d words, want 6", n)
	}
}

// A word that is sent once goes to one network: among the working ones, that on which its receiver answered last.
func TestAWordGoesOnOneNetwork(t *testing.T) {
	d := doubtsOf(t, 40, 2)
	for i := 1; i < 40; i++ {
		d.answer(i, 1)
	}
	everybody := []doubt.Outgoing{{Word: doubt.Word{Kind: doubt.Firm, Peer: 4}, Everyone: true, To: roster.SetOf(20, 30), Copies: 1}}
	words := func() (n [2]int) {
		for k, e := range d.nets {
			n[k] = len(e.request.words)
			e.request.words = nil
		}
		return n
	}
	d.send(everybody, d.now)
	if w := d.nets[0].request.words; w[0].to+w[1].to != 50 {
		t.Errorf("members %d and %d are told first, want 20 and 30", w[0].to, w[1].to)
	}
	if words() != [2]int{38, 0} {
		t.Error("with one network that works not all are told on it")
	}
	d.now = d.now.Add(10 * time.Millisecond)
	for i := 5; i < 12; i++ {
		m := wire.Message{Kind: wire.Answer, Clock: wire.ClockOf(uint64(i)<<40, d.now)}
		d.answered(d.nets[1], i, d.now.Add(-time.Millisecond), uint64(i)<<40, &m, d.now)
	}
	if d.send(everybody, d.now); words() != [2]int{31, 7} {
		t.Error("with two each is not told where it answered last")
	}
	d.send([]doubt.Outgoing{{Word: doubt.Word{Kind: doubt.Ask, Peer: 4}, To: roster.SetOf(6, 7, 30), Copies: 1}}, d.now)
	if words() != [2]int{1, 2} {
		t.Error("a question does not go where its hearer answered last")
	}
	everybody[0].Copies = 2
	if d.send(everybody, d.now); words() != [2]int{76, 76} {
		t.Error("where packets are lost a word does not go twice on all networks")
	}
	d.now = d.now.Add(5 * time.Second)
	everybody[0].Copies = 1
	if d.send(everybody, d.now); words() != [2]int{38, 38} {
		t.Error("where no network is known to work a word does not go on all")
	}
}

// While a network has no instance, the answers on the others are not recorded, so no silence grows; afterwards the
// silences begin again.
func TestNoSilenceGrowsWhileDoubtsRest(t *testing.T) {
	for _, rests := range []bool{false, true} {
		d := doubtsOf(t, 12, 2)
		for i := 1; i < 12; i++ {
			d.answer(i, 1)
		}
		began := d.now
		d.now = d.now.Add(150 * time.Millisecond)
		d.late(d.nets[0], probing.Late{Peer: 7, Since: began})
		pass := func(until time.Duration, asks bool) {
			for d.now.Sub(began) < until {
				d.now = d.now.Add(50 * time.Millisecond)
				for k := range d.nets {
					m := wire.Message{Kind: wire.Answer, Clock: wire.ClockOf(9<<40, d.now), Cookie: 1}
					if d.answered(d.nets[k], 9, d.now.Add(-time.Millisecond), 9<<40, &m, d.now); asks {
						d.probed(d.nets[k], 7)
					}
				}
				d.tick()
			}
		}
		pass(400*time.Millisecond, true)
		for _, i := range []int{3, 4} {
			d.heed(d.nets[0], d.peer(i), d.word(i, d.cookieFor(d.lists.Name(i)), doubt.Word{Kind: doubt.Ask, Peer: 7}), d.now)
		}
		pass(1200*time.Millisecond, true)
		d.nets[0].request.words = nil
		if rests {
			d.part(d.nets[1])
			if d.answer(7, 1); d.tick() < time.Hour {
				t.Error("it wakes while it rests")
			}
		}
		d.now = d.now.Add(300 * time.Millisecond)
		if d.tick(); rests {
			d.nets[1] = d.instance(1, d.lists)
			d.join(d.nets[1])
		}
		pass(2200*time.Millisecond, false)
		firm := slices.ContainsFunc(d.nets[0].request.words, func(w spokenWord) bool { return w.word.Kind == doubt.Firm })
		if firm == rests {
			t.Errorf("a network had no instance: %v; a firm word: %v", rests, firm)
		}
	}
}

// An agent without doubts that follows one with doubts gives no cookie with its statement, and is sent no more words.
func TestACookieEndsWithAStatementThatHasNone(t *testing.T) {
	d := doubtsOf(t, 12, 1)
	if d.answer(3, 5); d.bare(3) {
		t.Fatal("no cookie")
	}
	if d.answer(3, 0); d.bare(3) {
		t.Error("a brief answer ends it")
	}
	m := wire.Message{Kind: wire.Answer, Clock: wire.ClockOf(3<<40, d.now), Statement: &netgossip.Statement{}}
	if d.answered(d.nets[0], 3, d.now, 3<<40, &m, d.now); !d.bare(3) {
		t.Error("it outlives a statement without one")
	}
}

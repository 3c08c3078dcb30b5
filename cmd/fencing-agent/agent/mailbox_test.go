package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// woken reports whether the loop would wake, and clears the wake-up.
func (m *mailbox) woken() bool {
	select {
	case <-m.wake:
		return true
	default:
		return false
	}
}

// numbered is a roster of n members, whose names are their numbers.
func numbered(n int) *roster.Roster {
	ms := make([]roster.Member, n)
	for i := range ms {
		ms[i].Name = fmt.Sprintf("n%04d", i)
	}
	r, err := roster.New(0, ms, "n0000")
	if err != nil {
		panic(err)
	}
	return r
}

// Reports of an instance that still uses the numbers of the former roster reach the right nodes.
func TestMailboxTranslatesOldNumbers(t *testing.T) {
	old := numbered(3)
	m := newMailbox(1, old)
	s := sink{box: m, roster: old}
	s.Heard(0, 1, 5)
	to, err := roster.New(1, []roster.Member{{Name: "a"}, {Name: "n0000"}, {Name: "n0002"}}, "n0000")
	if err != nil {
		t.Fatal(err)
	}
	if b := m.renumber(1, to); len(b.dirty) != 1 || b.peers[1].heard != 5 {
		t.Errorf("what was reported before is lost: %+v", b.dirty)
	}
	s.Answered(netgossip.Answer{Peer: 2, SentAt: 7, Statement: &netgossip.Statement{}})
	s.Answered(netgossip.Answer{Peer: 1, SentAt: 8, Statement: &netgossip.Statement{}}) // no longer listed
	b := newBatch(1, 3)
	m.take(&b)
	if len(b.dirty) != 1 || b.dirty[0] != 2 || b.peers[2].answer.Peer != 2 || b.peers[2].answer.SentAt != 7 {
		t.Errorf("%+v", b.peers)
	}
}

func TestMailboxCoalescesPerPeer(t *testing.T) {
	const networks, members = 2, 3
	m := newMailbox(networks, numbered(members))
	s := sink{box: m, roster: m.roster}
	s.MemberChanged(1, 2, false, 10)
	s.MemberChanged(1, 2, true, 20)
	newest := &netgossip.Statement{Version: "newest"}
	s.Answered(netgossip.Answer{Network: 1, Peer: 2, SentAt: 30, Statement: newest})
	// a later answer has overtaken it on the wire
	s.Answered(netgossip.Answer{Network: 1, Peer: 2, SentAt: 25, Statement: &netgossip.Statement{}})
	s.Heard(1, 2, 40)
	s.Heard(1, 2, 35)
	s.Heard(0, 1, 7)
	if !m.woken() || m.woken() {
		t.Error("many reports must be one wake-up")
	}
	b := newBatch(networks, members)
	m.take(&b)
	if len(b.dirty) != 2 || b.dirty[0] != 1*members+2 || b.dirty[1] != 0*members+1 {
		t.Fatalf("dirty %v", b.dirty)
	}
	r := b.peers[1*members+2]
	if !r.alive || r.changed != 20 || r.answer.SentAt != 30 || r.answer.Statement != newest || r.heard != 40 {
		t.Errorf("coalesced into %+v", r)
	}
	if r := b.peers[1]; r.heard != 7 || r.changed != 0 || r.answer.SentAt != 0 {
		t.Errorf("the other peer got %+v", r)
	}
}

// A sign of life decides nothing, so it costs no step. The next step reads it.
func TestHeardDoesNotWake(t *testing.T) {
	m := newMailbox(1, numbered(2))
	s := sink{box: m, roster: m.roster}
	s.Heard(0, 1, 5)
	if m.woken() {
		t.Error("Heard woke the loop")
	}
	s.Answered(netgossip.Answer{Network: 0, Peer: 1, SentAt: 6})
	if !m.woken() {
		t.Error("Answered did not wake the loop")
	}
	b := newBatch(1, 2)
	m.take(&b)
	if len(b.dirty) != 1 || b.peers[1].heard != 5 {
		t.Errorf("dirty %v, peer %+v", b.dirty, b.peers[1])
	}
}

func TestMailboxKeepsNewestAndEach(t *testing.T) {
	m := newMailbox(2, numbered(2))
	first, second := errors.New("first"), errors.New("second")
	for _, put := range []func(*batch){
		func(b *batch) { b.links[1], b.linkDirty = linkReport{true, false}, true },
		func(b *batch) { b.links[1] = linkReport{true, true} },
		func(b *batch) { b.api = &apiReport{true, 1} },
		func(b *batch) { b.api = &apiReport{false, 2} },
		func(b *batch) { b.disarm["file"] = "it is there" },
		func(b *batch) { b.disarm["file"] = "" },
		func(b *batch) { b.completions = append(b.completions, diskquorum.Completion{ID: 1}) },
		func(b *batch) { b.completions = append(b.completions, diskquorum.Completion{ID: 2}) },
		func(b *batch) { b.locked = append(b.locked, lunLocked{0, first}) },
		func(b *batch) { b.locked = append(b.locked, lunLocked{2, second}) },
	} {
		m.put(put)
	}
	b := newBatch(2, 2)
	m.take(&b)
	if !b.linkDirty || b.links[0].changed || b.links[1] != (linkReport{true, true}) {
		t.Errorf("links %+v", b.links)
	}
	if *b.api != (apiReport{false, 2}) || b.disarm["file"] != "" || len(b.disarm) != 1 {
		t.Errorf("api %+v, disarm %v", *b.api, b.disarm)
	}
	if len(b.completions) != 2 || b.completions[0].ID != 1 || b.completions[1].ID != 2 {
		t.Errorf("completions %+v", b.completions)
	}
	if len(b.locked) != 2 || !errors.Is(b.locked[0].err, first) || !errors.Is(b.locked[1].err, second) || b.locked[1].device != 2 {
		t.Errorf("locked %v", b.locked)
	}
}

// A batch that was handled leaves nothing in the batch after the next one, which uses the same memory.
func TestMailboxSwapsTwoBatches(t *testing.T) {
	m := newMailbox(1, numbered(2))
	s := sink{box: m, roster: m.roster}
	work := newBatch(1, 2)
	s.MemberChanged(0, 1, true, 1)
	m.put(func(b *batch) {
		b.completions = append(b.completions, diskquorum.Completion{ID: 1, Data: make([]byte, 1)})
		b.api, b.fatal, b.linkDirty = &apiReport{}, errors.New("fatal"), true
		b.links[0] = linkReport{true, true}
		b.disarm["file"] = "it is there"
	})
	m.take(&work)
	s.MemberChanged(0, 1, false, 2) // while the first batch is being handled
	if r := work.peers[1]; !r.alive || r.changed != 1 {
		t.Errorf("the taken batch changed: %+v", r)
	}
	work.reset()
	m.take(&work)
	if r := work.peers[1]; r.alive || r.changed != 2 || len(work.dirty) != 1 {
		t.Errorf("second batch: %v %+v", work.dirty, r)
	}
	if len(work.completions)+len(work.disarm) > 0 || work.api != nil || work.fatal != nil || work.linkDirty || work.links[0].changed {
		t.Errorf("left over: %+v", work)
	}
	work.reset()
	m.take(&work)
	if len(work.dirty) > 0 || work.peers[1] != (peerReport{}) {
		t.Errorf("the third batch is not empty: %v %+v", work.dirty, work.peers)
	}
	if kept := work.completions[:cap(work.completions)]; len(kept) > 0 && kept[0].Data != nil {
		t.Error("a handled completion keeps its data alive")
	}
}

// Adapters put reports from their own goroutines; only outdated reports are lost.
func TestMailboxConcurrently(t *testing.T) {
	const members, rounds = 4, 500
	m := newMailbox(1, numbered(members))
	s := sink{box: m, roster: m.roster}
	var adapters sync.WaitGroup
	for p := range members {
		adapters.Go(func() {
			for i := 1; i <= rounds; i++ {
				s.MemberChanged(0, p, i == rounds, boottime.Instant(i))
				m.put(func(b *batch) { b.locked = append(b.locked, lunLocked{}) })
			}
		})
	}
	done := make(chan struct{})
	go func() {
		adapters.Wait()
		close(done)
	}()
	work := newBatch(1, members)
	last, locked := make([]peerReport, members), 0
	collect := func() {
		m.take(&work)
		for _, i := range work.dirty {
			if work.peers[i].changed < last[i].changed {
				t.Errorf("peer %d went back from %d to %d", i, last[i].changed, work.peers[i].changed)
			}
			last[i] = work.peers[i]
		}
		locked += len(work.locked)
		work.reset()
	}
	for running := true; running; {
		select {
		case <-m.wake:
			collect()
		case <-done:
			running = false
		}
	}
	collect()
	for i, r := range last {
		if r.changed != rounds || !r.alive {
			t.Errorf("peer %d ended at %+v", i, r)
		}
	}
	if locked != members*rounds {
		t.Errorf("%d of %d lock outcomes arrived", locked, members*rounds)
	}
}

func TestMailboxIsBounded(t *testing.T) {
	m := newMailbox(1, numbered(2))
	s := sink{box: m, roster: m.roster}
	work := newBatch(1, 2)
	round := func() {
		for i := boottime.Instant(1); i < 100; i++ {
			s.MemberChanged(0, 1, true, i)
			s.Answered(netgossip.Answer{Network: 0, Peer: 1, SentAt: i})
			s.Heard(0, 1, i)
		}
		m.take(&work)
		work.reset()
	}
	round()
	if n := testing.AllocsPerRun(10, round); n > 0 {
		t.Errorf("%v allocations a round", n)
	}
}

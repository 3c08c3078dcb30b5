package netgossip

import (
	"slices"
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// A peer is lost on one network and later on the other, and comes back in the same order:
// each change is found once, on its network, at its time; the merged view changes with the
// second loss and the first return.
func TestEdgesOfTwoNetworks(t *testing.T) {
	m := testMerger(t, 3, 2, Any())
	e := NewEdges(2, 3)
	var at boottime.Instant
	find := func(now boottime.Instant, want ...Edge) {
		t.Helper()
		at = now
		answer(m, 0, 2, at) // another peer always answers
		answer(m, 1, 2, at)
		v := m.Evaluate(at, 2)
		if got := e.Update(m, &v, at); !slices.Equal(got, want) {
			t.Errorf("at %d s: edges %v, want %v", at/sec, got, want)
		}
		if got := e.Update(m, &v, at); len(got) > 0 {
			t.Errorf("at %d s: edges %v twice", at/sec, got)
		}
	}
	since := func(link0, link1, merged boottime.Instant) {
		t.Helper()
		if got := [3]boottime.Instant{e.LinkSince(0, 1), e.LinkSince(1, 1), e.Since(1)}; got != [3]boottime.Instant{link0, link1, merged} {
			t.Errorf("at %d s: since %v, want %v, %v and %v", at/sec, got, link0, link1, merged)
		}
	}
	if got := NewEdges(2, 3).Update(m, &View{}, sec); len(got) > 0 {
		t.Errorf("edges %v before anybody was seen", got)
	}
	answer(m, 0, 1, 10*sec)
	answer(m, 1, 1, 12*sec)
	find(12*sec, Edge{0, 1, true}, Edge{0, 2, true}, Edge{1, 1, true}, Edge{1, 2, true})
	since(12*sec, 12*sec, 12*sec)
	find(14*sec, Edge{0, 1, false})
	since(14*sec, 12*sec, 12*sec)
	find(15 * sec)
	find(16*sec, Edge{1, 1, false})
	since(14*sec, 16*sec, 16*sec)
	answer(m, 0, 1, 17*sec)
	find(17*sec, Edge{0, 1, true})
	since(17*sec, 16*sec, 17*sec)
	answer(m, 1, 1, 18*sec)
	find(18*sec, Edge{1, 1, true})
	since(17*sec, 18*sec, 17*sec)
	m.MemberChanged(1, 1, false, 19*sec) // memberlist declares it dead
	find(19*sec, Edge{1, 1, false})
	m.LinkChanged(0, false) // this node's cable
	find(20*sec, Edge{0, 1, false}, Edge{0, 2, false})
	since(20*sec, 19*sec, 20*sec)
}

package memberbook

import (
	"testing"
	"time"
)

// If a removal was taken back, or carried out, it has to be shown for a while when it comes again: the time for which
// it was shown before does not count.
func TestARemovalThatComesAgainIsShownAgain(t *testing.T) {
	b, d := bookOf(100, nodes(1, 4)...), new(Doubt)
	look := func(now time.Duration, most int) Outcome {
		o := Step(b, Facts{Group: "g", Nodes: nodes(1, most), Wall: 200, Now: now}, d)
		if o.Write != nil {
			b = o.Write
		}
		return o
	}
	look(0, 3)
	look(time.Second, 4)
	if o := look(Patience, 3); o.Write != nil || o.Again != Patience {
		t.Errorf("it was taken back meanwhile: %+v", o)
	}
	if o := look(2*Patience-time.Millisecond, 3); o.Write != nil || o.Again != time.Millisecond {
		t.Errorf("it was not shown for long enough: %+v", o)
	}
	if o := look(2*Patience, 3); o.Write == nil {
		t.Errorf("it was shown for long enough: %+v", o)
	}
	look(2*Patience, 4)
	if o := look(3*Patience, 3); o.Write != nil || o.Again != Patience {
		t.Errorf("it was carried out before: %+v", o)
	}
}

// A single agent's epoch is believed if the agent is at least half of the group, by the book as well as by the Nodes.
func TestWhoseEpochIsBelieved(t *testing.T) {
	for _, c := range []struct {
		name           string
		book, nodes    int
		have           []uint64
		epoch, members uint64
	}{
		{"one of two", 2, 2, []uint64{500}, 501, 2},
		{"one of three", 3, 3, []uint64{500}, 0, 0},
		{"one of three in the book, of which one Node is left", 3, 1, []uint64{500}, 0, 0},
		{"one of one in the book, which has grown to three", 1, 3, []uint64{500}, 200, 3},
		{"two of five", 5, 5, []uint64{500, 500}, 501, 5},
		{"two of five that differ", 5, 5, []uint64{500, 900}, 501, 5},
		{"two of five, one of which lies", 5, 5, []uint64{mostEpoch, 500}, 501, 5},
		{"the same epoch", 3, 3, []uint64{100, 100, 100}, 0, 0},
	} {
		o := step(bookOf(100, nodes(1, c.book)...), Facts{Wall: 200, Nodes: nodes(1, c.nodes), Reports: reportsOf(nodes(1, c.nodes)...), Have: c.have})
		var epoch, members uint64
		if o.Write != nil && o.Write.Epoch != 100 {
			epoch, members = o.Write.Epoch, uint64(len(o.Write.Members))
		}
		if epoch != c.epoch || members != c.members {
			t.Errorf("%s: epoch %d of %d members, want %d of %d (%s)", c.name, epoch, members, c.epoch, c.members, o.Problem)
		}
	}
}

// A group that is about to shrink counts with the size in its book until then.
func TestWhoseEpochIsBelievedWhileAGroupShrinks(t *testing.T) {
	b, d := bookOf(100, nodes(1, 3)...), new(Doubt)
	var o Outcome
	for _, now := range []time.Duration{0, Patience} {
		o = Step(b, Facts{Group: "g", Nodes: nodes(1, 2), Wall: 200, Now: now, Have: []uint64{500}}, d)
	}
	if o.Write == nil || o.Write.Epoch != 200 || len(o.Write.Members) != 2 {
		t.Errorf("%+v, want epoch 200", o.Write)
	}
}

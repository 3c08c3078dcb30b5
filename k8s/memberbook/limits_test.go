package memberbook

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// Guards: a list is numbered even if the clock is useless. An agent that no longer follows does not outweigh the book.
// An agent without reported addresses is not a member. The epoch of most members counts all members, including those
// without a Node.
func TestLimitsOfABook(t *testing.T) {
	if got := next(0, 0); got != 1 {
		t.Errorf("the first epoch at the beginning of time: %d", got)
	}
	if got := mostHave([]uint64{mostEpoch, mostEpoch}, 2); got != 0 {
		t.Errorf("an epoch that none is: %d", got)
	}
	b := bookOf(100, nodes(1, 3)...)
	out := step(b, Facts{Wall: 200, Nodes: nodes(1, 3), Past: map[string]Addresses{"n1": at("n9")}})
	if out.Write != nil || out.Problem != "" {
		t.Errorf("who follows no more outweighs the book: %+v", out)
	}
	out = step(nil, Facts{Wall: 200, Nodes: nodes(1, 3), Reports: map[string]Addresses{"n1": at("n1"), "n2": at("n2"), "n3": {}}})
	if out.Problem == "" || out.Write != nil && out.Write.Epoch > 0 {
		t.Errorf("a member at no address: %+v", out)
	}
	// Only one Node is listed, but the book knows three members. So the epoch of one member raises nothing.
	out = step(b, Facts{Wall: 200, Nodes: nodes(1, 1), Have: []uint64{5000}})
	if out.Write != nil {
		t.Errorf("%+v", out.Write)
	}
	out = step(b, Facts{Wall: 200, Nodes: nodes(1, 4), Reports: reportsOf("n4"), Have: []uint64{5000}})
	if out.Write == nil || out.Write.Epoch != 200 {
		t.Errorf("one of four raises the number: %+v", out.Write)
	}
}

// Guard: the latest removed members are kept, because they have to learn that they were removed; and no member is
// listed twice.
func TestTheLatestAreRemembered(t *testing.T) {
	b := bookOf(100, nodes(1, 2)...)
	for i := range mostFormer {
		b.Former = append(b.Former, fmt.Sprint("old", i))
	}
	b.Former[7] = "n2" // it was away once
	got := former(b, b.Members[:1])
	if len(got) != mostFormer || got[len(got)-1] != "n2" || slices.Index(got, "n2") != len(got)-1 || got[0] != "old0" {
		t.Errorf("%d, first %s, last %s", len(got), got[0], got[len(got)-1])
	}
	b.Former[7] = "old7"
	if got = former(b, b.Members[:1]); len(got) != mostFormer || got[0] != "old1" || got[len(got)-1] != "n2" {
		t.Errorf("%d, first %s, last %s", len(got), got[0], got[len(got)-1])
	}
	if !maps.Equal(b.Reports["n1"], at("n1")) {
		t.Error("a book is a value")
	}
}

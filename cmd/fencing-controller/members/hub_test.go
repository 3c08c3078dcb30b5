package members

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
)

// Guard: an agent that has gone to another replica, and told that one other addresses, is believed there. Else the replicas would
// write each other's lists away, each under a higher number, for as long as both live.
func TestWhoFollowsNoMoreDoesNotOutweighTheBook(t *testing.T) {
	old, moved := memberbook.Addresses{"a": "10.0.0.1"}, memberbook.Addresses{"a": "10.0.0.9"}
	h := NewHub()
	for _, n := range []string{"n1", "n2"} {
		h.Seen(n, there("g", nil))
	}
	h.Booked("g", book(5, "n1", "n2"))
	h.Synced()
	s, _, _ := h.follow("n1", "g")
	h.reported(s, old, 5)
	step := func() memberbook.Outcome {
		f, b, _ := h.facts("g")
		f.Wall = 1
		return memberbook.Step(b, f, new(memberbook.Doubt))
	}
	if o := step(); o.Write != nil {
		t.Fatalf("%+v is written, and nothing has changed", o.Write)
	}
	h.leave(s)
	b := book(6, "n1", "n2")
	b.Members[0].Addresses, b.Reports["n1"] = moved, moved
	h.Booked("g", b) // by the other replica
	if o := step(); o.Write != nil {
		t.Errorf("what was told before is written over it: %+v", o.Write)
	}
	h.Booked("g", nil) // lost: then what was told once is better than nothing
	f, _, _ := h.facts("g")
	f.Reports["n2"] = memberbook.Addresses{"a": "10.0.0.2"}
	if o := memberbook.Step(nil, f, new(memberbook.Doubt)); o.Write == nil || len(o.Write.Members) != 2 || o.Write.Epoch <= 6 {
		t.Errorf("%+v", o)
	}
	if s, _, _ = h.follow("n1", "g"); s == nil {
		t.Fatal("it is not let in")
	}
	if f, _, _ := h.facts("g"); len(f.Reports) != 0 {
		t.Errorf("what was told on an earlier stream counts as told on this one: %+v", f.Reports)
	}
	late, _, _ := h.follow("n1", "g")
	h.reported(late, moved, 6)
	h.reported(s, old, 5) // of a stream that is over
	if f, _, _ := h.facts("g"); f.Reports["n1"]["a"] != moved["a"] {
		t.Errorf("%+v", f.Reports)
	}
}

package memberbook

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func offering(epoch uint64, names ...string) *Offer {
	b := bookOf(epoch, names...)
	r, err := roster.Of(epoch, b.Members, "")
	if err != nil {
		return &Offer{Group: "g", Epoch: epoch}
	}
	return &Offer{Group: "g", Epoch: epoch, Digest: r.Digest, Members: b.Members}
}

// Guard: no list of a controller that lies, is behind, or serves another group is accepted.
func TestGateRefuses(t *testing.T) {
	five := nodes(1, 5)
	change := func(o *Offer, with func(*Offer)) *Offer { with(o); return o }
	sign := func(o *Offer) {
		if r, err := roster.Of(o.Epoch, o.Members, ""); err == nil {
			o.Digest = r.Digest
		}
	}
	move := func(name string, a Addresses) func(*Offer) {
		return func(o *Offer) {
			for i := range o.Members {
				if o.Members[i].Name == name {
					o.Members[i].Addresses = a
				}
			}
			sign(o)
		}
	}
	for name, c := range map[string]struct {
		offer *Offer
		want  Refusal
	}{
		"the next list":              {offering(101, nodes(1, 6)...), Taken},
		"the same again":             {offering(100, five...), Taken},
		"another group's":            {change(offering(101, five...), func(o *Offer) { o.Group = "h" }), OtherGroup},
		"older":                      {offering(99, nodes(1, 6)...), Stale},
		"another one of this epoch":  {offering(100, nodes(1, 6)...), Differs},
		"of tomorrow":                {offering(1000+3601, five...), Future},
		"of the end of all numbers":  {offering(1<<63+5, five...), Future},
		"of this hour":               {offering(1000+3600, five...), Taken},
		"without a number":           {offering(0, five...), Invalid},
		"empty":                      {&Offer{Group: "g", Epoch: 101}, Invalid},
		"not what it says":           {change(offering(101, nodes(1, 6)...), func(o *Offer) { o.Digest++ }), Invalid},
		"a node twice":               {change(offering(101, five...), func(o *Offer) { o.Members = append(o.Members, o.Members[0]) }), Invalid},
		"this node elsewhere":        {change(offering(101, five...), move("n1", at("n77"))), NotHere},
		"two at one address":         {change(offering(101, five...), move("n2", at("n3"))), Invalid},
		"an address that is none":    {change(offering(101, five...), move("n2", Addresses{"a": "10.0.0.300", "b": "10.0.1.2"})), Invalid},
		"an address in another form": {change(offering(101, five...), move("n2", Addresses{"a": "::ffff:10.0.0.2", "b": "10.0.1.2"})), Invalid},
		"a network too few":          {change(offering(101, five...), move("n2", Addresses{"a": "10.0.0.2"})), Invalid},
		"another network": {change(offering(101, five...), func(o *Offer) {
			for _, n := range five {
				move(n, Addresses{"a": at(n)["a"], "c": at(n)["b"]})(o)
			}
		}), Invalid},
		"without most of them":         {offering(101, "n1", "n2"), Shrunken},
		"without this node and others": {offering(101, "n2", "n3"), Shrunken},
		"without two":                  {offering(101, "n1", "n2", "n3"), NotYet},
		"without this node":            {offering(101, nodes(2, 5)...), NotYet},
	} {
		g := Gate{Group: "g", Self: "n1"}
		present, err := roster.Of(100, bookOf(100, five...).Members, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if why, text, _ := g.Look(c.offer, Here{Own: at("n1"), Present: present, Now: 1, Wall: 1000}); why != c.want || (text == "") != (why == Taken) {
			t.Errorf("%s: %q (%s), want %q", name, why, text, c.want)
		}
	}
}

func TestGateOfANewNode(t *testing.T) {
	g := Gate{Group: "g", Self: "n1"}
	here := Here{Own: at("n1"), Now: 1, Wall: 1000}
	if why, _, _ := g.Look(offering(100, "n2", "n3"), here); why != NotListed {
		t.Error(why)
	}
	if why, _, _ := g.Look(offering(100, nodes(1, 3)...), here); why != Taken || g.Last().Epoch != 100 {
		t.Error(why, g.Last())
	}
	if why, _, _ := g.Look(offering(99, nodes(1, 3)...), here); why != Stale {
		t.Error(why)
	}
}

// If nodes have numbered their lists themselves, the group's number may be ahead of all clocks: the next numbers are
// accepted, but not one that is far above.
func TestGateGoesOnAboveTheGroupsNumber(t *testing.T) {
	present, err := roster.Of(50_000, bookOf(50_000, nodes(1, 3)...).Members, "n1")
	if err != nil {
		t.Fatal(err)
	}
	for epoch, want := range map[uint64]Refusal{50_001: Taken, 50_000 + Stride: Taken, 50_000 + Stride + 1: Future, 1000: Stale} {
		g := Gate{Group: "g", Self: "n1"}
		if why, _, _ := g.Look(offering(epoch, nodes(1, 4)...), Here{Own: at("n1"), Present: present, Now: 1, Wall: 1000}); why != want {
			t.Errorf("%d: %q, want %q", epoch, why, want)
		}
	}
}

// Guard: while a group is founded, numbers mean nothing, and are not remembered: none keeps an honest list out
// afterwards.
func TestGateWhileAGroupIsFounded(t *testing.T) {
	g := Gate{Group: "g", Self: "n1"}
	here := Here{Own: at("n1"), Founding: true, Now: 1, Wall: 1000}
	for _, epoch := range []uint64{100, 1 << 40, 99} {
		if why, text, _ := g.Look(offering(epoch, nodes(1, 3)...), here); why != Taken || g.Last().Epoch != 0 {
			t.Errorf("%d: %q (%s), %v", epoch, why, text, g.Last())
		}
	}
	if why, _, _ := g.Look(offering(1<<63+5, nodes(1, 3)...), here); why != Future {
		t.Error(why)
	}
}

// A list that removes members waits here as well, and a refused one does not keep an honest one out.
func TestGateHasARemovalWait(t *testing.T) {
	g := Gate{Group: "g", Self: "n1"}
	present, err := roster.Of(100, bookOf(100, nodes(1, 5)...).Members, "n1")
	if err != nil {
		t.Fatal(err)
	}
	look := func(o *Offer, now time.Duration) (Refusal, time.Duration) {
		why, _, again := g.Look(o, Here{Own: at("n1"), Present: present, Now: boottime.Instant(now), Wall: 1000})
		return why, again
	}
	if why, again := look(offering(105, nodes(1, 4)...), time.Second); why != NotYet || again != Patience {
		t.Error(why, again)
	}
	if why, _ := look(offering(102, nodes(1, 6)...), 2*time.Second); why != Taken { // earlier than what was doubted
		t.Error(why)
	}
	if why, again := look(offering(105, nodes(1, 4)...), 3*time.Second); why != NotYet || again != Patience {
		t.Error(why, again)
	}
	if why, _ := look(offering(106, nodes(1, 4)...), 20*time.Second); why != NotYet { // another one begins again
		t.Error(why)
	}
	if why, again := look(offering(106, nodes(1, 4)...), 49*time.Second); why != NotYet || again != time.Second {
		t.Error(why, again)
	}
	if why, _ := look(offering(106, nodes(1, 4)...), 50*time.Second); why != Taken {
		t.Error(why)
	}
}

package agent

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// wishes holds the requested writes.
type wishes struct{ list []*string }

func (w *wishes) Renew(value *string, _ time.Duration) { w.list = append(w.list, value) }

func (w *wishes) Want(value *string, within time.Duration) { w.Renew(value, within) }

func (w *wishes) Seen(ownnode.State) {}

// last returns what the Node would have.
func (w *wishes) last(t *testing.T) sightings.Sighting {
	t.Helper()
	if len(w.list) == 0 || w.list[len(w.list)-1] == nil {
		return sightings.Sighting{}
	}
	s, err := sightings.Decode(*w.list[len(w.list)-1])
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// Guards: a state that lasts a moment is not written. A state that lasts is written once, and again each minute with
// another number. When it ends, it is taken back. While there is nothing to report, the only write removes the report
// of an earlier agent.
func TestSightingsAreSaid(t *testing.T) {
	w := &wishes{}
	k := newKubeSightings(w, "n1", "024bc581b3a34be3")
	now := boottime.Instant(time.Hour)
	run := func(d time.Duration, s sighted) {
		for until := now.Add(d); now < until; now = now.Add(sightingLook) {
			k.weigh(now, s, 3)
		}
	}
	if run(sightingTakeover-time.Second, sighted{}); len(w.list) != 0 {
		t.Fatal("what the agent before this one has said is taken back before this one knows better")
	}
	run(time.Hour, sighted{})
	if len(w.list) != 1 || w.list[0] != nil {
		t.Fatalf("in a quiet hour: %d writes", len(w.list))
	}
	run(4*time.Second, sighted{starves: true, moves: []string{"n2"}, still: []string{"n3"}})
	if run(time.Minute, sighted{}); len(w.list) != 1 {
		t.Fatalf("what was so for a moment: %d writes", len(w.list))
	}
	cut := sighted{starves: true, moves: []string{"n2", "n4"}, still: []string{"n3"}}
	run(10*time.Second, cut)
	got := w.last(t)
	if len(w.list) != 2 || !got.QuorumLost || !slices.Equal(got.SlotMoves, []string{"n2", "n4"}) || !slices.Equal(got.SlotStill, []string{"n3"}) || got.Boot != "024bc581b3a34be3" {
		t.Fatalf("%d writes: %+v", len(w.list), got)
	}
	run(10*time.Minute, cut)
	again := w.last(t)
	if n := len(w.list); n < 11 || n > 13 || again.Number <= got.Number || !again.Same(&got) {
		t.Errorf("%d writes in ten minutes, numbers %d and %d", n-2, got.Number, again.Number)
	}
	if run(20*time.Second, sighted{moves: []string{"n2"}}); !slices.Equal(w.last(t).SlotMoves, []string{"n2"}) || w.last(t).QuorumLost {
		t.Errorf("part of it is over: %+v", w.last(t))
	}
	if run(20*time.Second, sighted{}); w.list[len(w.list)-1] != nil {
		t.Errorf("all is over: %+v", w.last(t))
	}
}

// However the network flaps, there are at most six writes a minute, and each state was true for five seconds before it
// was written.
func TestSightingsThatFlap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 65))
	w := &wishes{}
	k := newKubeSightings(w, "n1", "024bc581b3a34be3")
	var before []sighted
	names := []string{"n2", "n3", "n4"}
	s, written := sighted{}, 0
	for i := range 3600 {
		if r.IntN(6) == 0 {
			s = sighted{starves: r.IntN(2) == 0}
			for _, n := range names {
				if r.IntN(2) == 0 {
					s.moves = append(s.moves, n)
				}
			}
		}
		before = append(before, s)
		k.weigh(boottime.Instant(time.Hour)+boottime.Instant(i)*boottime.Instant(time.Second), s, 3)
		if len(w.list) == written {
			continue
		}
		written = len(w.list)
		said := w.last(t)
		for _, past := range before[max(0, i-5):] {
			if said.QuorumLost && !past.starves || slices.ContainsFunc(said.SlotMoves, func(n string) bool { return !slices.Contains(past.moves, n) }) {
				t.Fatalf("second %d: %+v, and it was %+v", i, said, past)
			}
		}
	}
	if written > 3600/10+1 || written < 20 {
		t.Errorf("%d writes in an hour", written)
	}
}

// Guard: if hundreds of agents see the same slot move, not all of them write it. Two reports are needed.
func TestFewSpeakOfSlots(t *testing.T) {
	for n := 1; n <= 600; n++ {
		var counted roster.Set
		for p := range n {
			counted.Add(p + 3)
		}
		speakers := 0
		for p := range counted.All() {
			if speaks(counted, p) {
				speakers++
			}
		}
		if speakers < min(n, 3) || speakers > sightingSpeakers {
			t.Errorf("%d of %d speak", speakers, n)
		}
	}
}

// Guard: only a node that no network shows is unheard. Only a node that a network shows is cut off. A fenced node is
// neither.
func TestWhichSlotsAreSaid(t *testing.T) {
	r := listing(t, "n1", "n2", "n3", "n4", "n5", "n6", "n7")
	view := netgossip.View{Seen: roster.SetOf(1, 2, 3), Counted: roster.SetOf(0, 1, 2)}
	asked := map[string]bool{}
	writes := func(name string) (moves, still bool) {
		asked[name] = true
		return name == "n2" || name == "n5" || name == "n7", name == "n3" || name == "n6"
	}
	unheard, cutOff := slotsSeen(r, view, roster.SetOf(6), writes)
	if !slices.Equal(unheard, []string{"n5"}) || !slices.Equal(cutOff, []string{"n3"}) || asked["n1"] || asked["n7"] {
		t.Errorf("unheard %v, cut off %v, asked for %v", unheard, cutOff, asked)
	}
}

// Guards: if a boot runs that Kubernetes does not hear, the boot is written, and for this node itself every ten
// seconds, because this report is valid for a short time only. It is taken back when the state ends.
func TestBootsThatRunAreSaid(t *testing.T) {
	w := &wishes{}
	k := newKubeSightings(w, "n1", "024bc581b3a34be3")
	now := boottime.Instant(time.Hour)
	run := func(d time.Duration, s sighted) {
		for until := now.Add(d); now < until; now = now.Add(sightingLook) {
			k.weigh(now, s, 3)
		}
	}
	run(time.Minute, sighted{})
	before := len(w.list)
	peers := sighted{runs: map[string]string{"n4": "124bc581b3a34be3"}}
	run(10*time.Minute, peers)
	if got := w.last(t); got.Sees["n4"] != "124bc581b3a34be3" || len(w.list)-before > 12 {
		t.Errorf("%d writes: %+v", len(w.list)-before, got)
	}
	run(20*time.Second, sighted{runs: map[string]string{"n4": "224bc581b3a34be3"}})
	if got := w.last(t); got.Sees["n4"] != "224bc581b3a34be3" {
		t.Errorf("another boot: %+v", got)
	}
	before = len(w.list)
	run(2*time.Minute, sighted{runs: map[string]string{"n1": "024bc581b3a34be3"}})
	if n := len(w.list) - before; n < 10 || n > 13 || w.last(t).Sees["n1"] != "024bc581b3a34be3" {
		t.Errorf("%d writes in two minutes: %+v", n, w.last(t))
	}
	if run(20*time.Second, sighted{}); w.list[len(w.list)-1] != nil {
		t.Errorf("it is over: %+v", w.last(t))
	}
	k.seen(ownnode.State{NotReady: true})
	if !k.unready.Load() {
		t.Error("a Node that is not Ready is")
	}
}

package watchdog

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// flapping is a core whose peers leave and return, with the events that a subscriber received.
type flapping struct {
	t    *testing.T
	c    *Core
	now  boottime.Instant
	away roster.Set
	say  func(peer int) netgossip.Statement // nil: default statements

	left, joined []int // number of events, by peer
	has          roster.Set
	lastBack     []boottime.Instant
}

func newFlapping(t *testing.T, n int) *flapping {
	t.Helper()
	f := &flapping{t: t, c: lifeCore(t, n), now: 10 * sec, left: make([]int, n), joined: make([]int, n), lastBack: make([]boottime.Instant, n)}
	f.has = f.c.Available()
	return f
}

// run advances the clock in quarters of a second. Invariants: a subscriber has no node that is missing, and no node
// leaves that is not missing.
func (f *flapping) run(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now < end; {
		f.now += sec / 4
		for p := 1; p < f.c.rosters.Size(); p++ {
			if !f.away.Has(p) {
				st := netgossip.Statement{}
				if f.say != nil {
					st = f.say(p)
				}
				tell(f.c, f.now, p, st)
			}
		}
		seen := f.c.Available()
		fx := f.c.Step(f.now)
		f.has = f.has.Minus(fx.Left).Union(fx.Joined)
		if f.has != fx.Available {
			f.t.Fatalf("at %v a subscriber has %v, the node %v", f.now, f.has, fx.Available)
		}
		for p := 1; p < f.c.rosters.Size(); p++ {
			is := f.c.View().Seen.Has(p)
			if !is && fx.Available.Has(p) && !f.c.Restarting().Has(p) {
				f.t.Fatalf("at %v n%d is missing, and published", time.Duration(f.now), p)
			}
			if is && seen.Has(p) && !fx.Available.Has(p) && !f.c.publication.rebooted.Has(p) && !f.c.publication.leaving.Has(p) {
				f.t.Fatalf("at %v n%d is LEFT, and is there", time.Duration(f.now), p)
			}
			if fx.Left.Has(p) {
				f.left[p]++
			}
			if fx.Joined.Has(p) {
				f.joined[p]++
			}
		}
	}
}

// flap takes peers away and brings them back, as in E11: missing for 6 s, present for 4 s.
func (f *flapping) flap(times int, peers ...int) {
	f.t.Helper()
	for range times {
		f.away = roster.SetOf(peers...)
		f.run(6 * time.Second)
		f.away = roster.Set{}
		f.run(4 * time.Second)
	}
}

func (f *flapping) wants(what string, p, left, joined int) {
	f.t.Helper()
	if f.left[p] != left || f.joined[p] != joined {
		f.t.Fatalf("%s: %d LEFT and %d JOIN of n%d, want %d and %d", what, f.left[p], f.joined[p], p, left, joined)
	}
}

// A node that flaps continuously is held from the third return on, longer each time, up to the bound.
func TestANodeThatFlapsIsKeptOut(t *testing.T) {
	f := newFlapping(t, 4)
	f.flap(2, 1)
	f.wants("two are no flapping", 1, 2, 2)
	f.flap(1, 1)
	f.wants("the third return is held", 1, 3, 2)
	if f.c.LeftReason(1) != LeftFlapping || f.c.Flapping() != roster.SetOf(1) || !f.c.View().Counted.Has(1) || f.c.Available().Has(1) {
		t.Fatalf("reason %v, flapping %v, counted %v", f.c.LeftReason(1), f.c.Flapping(), f.c.View().Counted)
	}
	first := f.c.FlappingFor(1)
	f.flap(1, 1)
	second := f.c.FlappingFor(1)
	if first < 2*time.Minute || second < first+20*time.Second || second > flapLongest {
		t.Fatalf("held for %v, then for %v", first, second)
	}
	f.flap(56, 1)
	f.wants("an hour's tenth of it", 1, 3, 2)
	if held := f.c.FlappingFor(1); held > flapLongest || held < flapLongest-10*time.Second {
		t.Fatalf("held for %v", held)
	}
	f.run(flapLongest - 6*time.Second)
	f.wants("a moment before", 1, 3, 2)
	f.run(6 * time.Second)
	f.wants("five minutes after its last return", 1, 3, 3)
	if f.c.LeftReason(1) != LeftUnreachable || !f.c.Flapping().IsEmpty() {
		t.Fatalf("reason %v, flapping %v", f.c.LeftReason(1), f.c.Flapping())
	}
	f.flap(1, 1)
	f.wants("once more", 1, 4, 4)
}

// Guard: a step is due when the hold ends, even without another event.
func TestTheEndOfAHoldWakes(t *testing.T) {
	f := newFlapping(t, 4)
	f.flap(3, 1)
	until := f.c.publication.peers[1].flaps.until
	f.run((until - sec/2).Sub(f.now)) // the evidence lasts longer than the hold
	if fx := f.c.Step(f.now + 1); fx.Wake != until {
		t.Fatalf("wake at %v, the hold ends at %v", fx.Wake, until)
	}
	edges(t, f.c, until-1, "a moment before", nobody, nobody)
	edges(t, f.c, until, "the hold ends", nobody, roster.SetOf(1))
}

// Guard: damping only affects subscribers. Two cores see the same history; one has no damping. They differ only in what
// they publish.
func TestDampingDoesNotEnterTheVerdict(t *testing.T) {
	differed := false
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 72))
		n := 3 + rnd.IntN(4)
		plain, damped := lifeCore(t, n), lifeCore(t, n)
		var away roster.Set
		for at := 10*sec + 1; at < 600*sec; at += sec {
			undamped(plain)
			for p := 1; p < n; p++ {
				if rnd.IntN(4+4*p) == 0 {
					put(&away, p, !away.Has(p))
				}
				if !away.Has(p) {
					tell(plain, at, p, netgossip.Statement{})
					tell(damped, at, p, netgossip.Statement{})
				}
			}
			a, b := *plain.Step(at), *damped.Step(at)
			differed = differed || a.Available != b.Available
			if *a.Statement != *b.Statement || plain.View() != damped.View() || a.Decision != b.Decision || a.Fenced != b.Fenced || a.Strike != b.Strike ||
				a.Nudge != b.Nudge || a.Changed != b.Changed {
				t.Fatalf("seed %d at %v: the verdicts differ:\n%+v\n%+v", seed, at, a.Decision, b.Decision)
			}
			if extra := b.Available.Minus(a.Available); !extra.IsEmpty() {
				t.Fatalf("seed %d at %v: damping makes %v available", seed, at, extra)
			}
		}
	}
	if !differed {
		t.Error("nobody was ever held")
	}
}

// undamped makes a core forget all flaps.
func undamped(c *Core) {
	for p := range c.publication.peers {
		c.publication.peers[p].flaps = flaps{}
	}
}

// Guard: single events are not flapping: a reboot, a fence, an upgrade, a rolling restart of all agents, and any number
// of maintenances.
func TestOneEventIsNoFlapping(t *testing.T) {
	f := newFlapping(t, 5)
	for p := 1; p < 5; p++ { // one after the other, killed instead of stopped
		f.flap(1, p)
		f.wants("a rolling restart", p, 1, 1)
	}
	f = newFlapping(t, 5)
	var booted roster.Set
	f.say = func(peer int) (st netgossip.Statement) {
		if booted.Has(peer) {
			st.Boot = uint64(1000 + peer)
		}
		return st
	}
	for p := 1; p < 5; p++ { // fenced or rebooted, one after the other
		f.away = roster.SetOf(p)
		f.run(time.Duration(p) * 15 * time.Second)
		booted.Add(p)
		f.away = roster.Set{}
		f.run(2 * time.Second)
		f.wants("a reboot", p, 1, 1)
	}
	f = newFlapping(t, 4)
	for range 8 { // an impatient person
		f.say = func(peer int) netgossip.Statement {
			if peer == 1 {
				return leaving
			}
			return netgossip.Statement{}
		}
		f.run(5 * time.Second)
		f.say = nil
		f.run(5 * time.Second)
	}
	f.wants("maintenance on and off", 1, 8, 8)
	f = newFlapping(t, 4)
	for range 8 { // its agent is restarted repeatedly, and is back within the grace each time
		f.say = func(peer int) netgossip.Statement {
			if peer == 1 {
				return restarting
			}
			return netgossip.Statement{}
		}
		f.run(time.Second)
		f.away = roster.SetOf(1)
		f.run(8 * time.Second)
		f.away, f.say = roster.Set{}, nil
		f.run(2 * time.Second)
	}
	f.wants("restarts", 1, 0, 0)
}

// Guard: when all others, or half of the group, flap, the cause is this node or the network. No node is held then, not
// even one that was held before.
func TestNobodyIsHeldForTheFlapsOfThisNode(t *testing.T) {
	for _, tc := range []struct {
		n     int
		peers []int
		held  int
	}{
		{2, []int{1}, 0},
		{3, []int{1}, 1},
		{3, []int{1, 2}, 0},
		{4, []int{1, 2}, 0},
		{4, []int{1, 2, 3}, 0},
		{5, []int{1, 2}, 2},
		{5, []int{1, 2, 3}, 0},
		{5, []int{1, 2, 3, 4}, 0},
		{16, []int{1, 2, 3, 4, 5, 6, 7}, 7},
		{16, []int{1, 2, 3, 4, 5, 6, 7, 8}, 0},
	} {
		f := newFlapping(t, tc.n)
		f.flap(6, tc.peers...)
		if got := f.c.Flapping().Len(); got != tc.held {
			t.Errorf("%d of %d flap: %d are held, want %d", len(tc.peers), tc.n, got, tc.held)
		}
		if tc.held == 0 {
			f.wants("not held", 1, 6, 6)
		}
	}
	f := newFlapping(t, 5) // one peer flaps by itself; then this node loses its cable a few times
	f.flap(4, 1)
	f.wants("one is held", 1, 3, 2)
	f.flap(2, 1, 2, 3, 4)
	f.wants("published with the others", 1, 3, 3)
	f.wants("nobody else is held", 2, 2, 2)
}

// Guard: a hold delays a JOIN and does not cause a LEFT. A flapping node that was published together with the others
// stays published when they are calm again and another node flaps: only its own return can be held.
func TestAnotherOnesFlapsMakeNoLEFT(t *testing.T) {
	f := newFlapping(t, 5)
	f.flap(20, 1)
	f.flap(2, 1, 2, 3, 4)
	f.wants("published with the others", 1, 3, 3)
	f.run(117 * time.Second)
	if level := f.c.publication.peers[1].flaps.level(f.now); level < flapSuppress+0.1 || f.c.publication.peers[3].flaps.level(f.now) > flapReuse {
		t.Fatalf("penalties of %v and %v: the test shows nothing", level, f.c.publication.peers[3].flaps.level(f.now))
	}
	f.flap(1, 2)
	f.wants("it has not moved", 1, 3, 3)
	f.flap(1, 1)
	f.wants("it goes again", 1, 4, 3)
}

// Guard: the state follows the indices of another list.
func TestDampingFollowsTheList(t *testing.T) {
	f := newFlapping(t, 4)
	f.flap(3, 3)
	r := f.c.cfg.Roster
	to, err := roster.New(2, append([]roster.Member{{Name: "a0"}}, r.Members...), r.Name(r.Self))
	if err != nil {
		t.Fatal(err)
	}
	f.c.Renumber(to)
	f.c.Step(f.now + 1)
	if want := roster.SetOf(4); f.c.Flapping() != want || f.c.Available().Has(4) || f.c.LeftReason(4) != LeftFlapping {
		t.Errorf("flapping %v, want %v; available %v", to.Names(f.c.Flapping()), to.Names(want), to.Names(f.c.Available()))
	}
}

// pairsAnHour bounds the pairs of LEFT and JOIN of one node per hour while a minority flaps in any way. While a node is
// published, its penalty is below flapSuppress. So in an hour the penalty decays by less than flapSuppress * ln 2 /
// flapHalfLife * 1 h = 52, and two or three remain at the end.
const pairsAnHour = 55

// Guards: LEFT is neither late nor invented (run checks this in each step), JOIN is not late by more than the bound,
// and the number of events is bounded, however a minority flaps.
func TestRandomFlaps(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64()
	}
	damped := 0
	runs := 30
	if testing.Short() {
		runs = 8
	}
	for i := range runs {
		seed := first + uint64(i) // -args -seed starts with this seed
		rnd := rand.New(rand.NewPCG(seed, 72))
		n := 3 + rnd.IntN(5)
		f := newFlapping(t, n)
		var who roster.Set // less than half
		for range 1 + rnd.IntN((n-1)/2) {
			who.Add(1 + rnd.IntN(n-1))
		}
		up, down := 1+rnd.IntN(40), 5+rnd.IntN(20) // this schedule's seconds of presence and absence
		until := make([]boottime.Instant, n)
		absent := 0 // quarters of a second for which a node was held although it was present for longer than the bound
		for end := f.now + 3600*sec; f.now < end; {
			for p := range who.All() {
				if f.now >= until[p] {
					put(&f.away, p, !f.away.Has(p))
					around := up
					if f.away.Has(p) {
						around = down
					}
					until[p] = f.now.Add(time.Duration(float64(around) * (0.5 + rnd.Float64()) * float64(time.Second)))
				}
			}
			f.run(time.Second)
			for p := range who.All() {
				if !f.c.View().Seen.Has(p) || f.lastBack[p] == 0 {
					f.lastBack[p] = f.now
				}
				if f.now.Sub(f.lastBack[p]) > flapLongest+time.Second && !f.c.Available().Has(p) {
					absent++
				}
			}
			damped = max(damped, f.c.Flapping().Len())
		}
		f.away = roster.Set{}
		f.run(flapLongest + time.Second)
		if f.c.Available().Len() != n || absent > 0 {
			t.Fatalf("seed %d: %v are available %v after the last flap, %d late", seed, f.c.Available(), flapLongest, absent)
		}
		for p := 1; p < n; p++ {
			if f.left[p] > pairsAnHour || f.joined[p] != f.left[p] {
				t.Fatalf("seed %d: %d LEFT and %d JOIN of n%d in an hour, up %d s, down %d s", seed, f.left[p], f.joined[p], p, up, down)
			}
		}
	}
	if damped == 0 {
		t.Errorf("seeds from %d: nobody was ever held", first)
	}
}

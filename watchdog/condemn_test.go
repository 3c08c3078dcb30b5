package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// court is a group of cores on one LUN; the first is cut off at cutAt. Each core condemns its boot when it has
// certainly lost.
type court struct{ *choirRig }

const cutAt = 40 * sec

func atCourt(t *testing.T, n int, after time.Duration) court {
	t.Helper()
	r := withVoices(t, n, func(_ int, cfg *Config) {
		cfg.LUNMode, cfg.Budget.Voices, cfg.Hold = LUNTieBreaker, 0, true
		cfg.Sentence = Sentencing{After: after, Timeout: time.Second}
	})
	for _, c := range r.nodes {
		c.SetGuard(true, 30*time.Second)
	}
	r.run(10*sec, cutAt, allPairs)
	return court{r}
}

// apart reports whether two nodes reach each other while the first node reaches no other.
func apart(a, b int) bool { return a != 0 && b != 0 }

// until runs the group from an instant until the first node condemns itself, or until the limit. It returns when the
// node condemned itself, and when its evidence began; zero: it did not.
func (r court) until(from, limit boottime.Instant, pairs func(a, b int) bool, each func(at boottime.Instant), down ...int) (condemned, since boottime.Instant) {
	c := r.nodes[0]
	for at := from; at <= limit; at += sec / 4 {
		if each != nil {
			each(at)
		}
		r.run(at, at, pairs, down...)
		if c.sentence.condemned {
			return at, since
		}
		since = c.judgement.since
	}
	return 0, since
}

// looked runs until the first node's first check shows that the others live without it.
func (r court) looked(pairs func(a, b int) bool) boottime.Instant {
	r.t.Helper()
	for at := cutAt + sec/4; at < cutAt+30*sec; at += sec / 4 {
		r.run(at, at, pairs)
		if r.nodes[0].judgement.since != 0 {
			return at
		}
	}
	r.t.Fatal("nothing shows that the others live")
	return 0
}

// Guard: P1. Three rounds of reads, including the first, are needed, even if After is short.
func TestCondemnedAfterThreeRounds(t *testing.T) {
	r := atCourt(t, 5, 1)
	at := r.looked(apart)
	first := r.nodes[0].judgement.round
	condemned, since := r.until(at+sec/4, at+20*sec, apart, func(boottime.Instant) {})
	last := r.nodes[0].lun.arbiter.OthersLive(condemned, 3, roster.Set{}).Round
	if condemned == 0 || since != at || last-first < 2 {
		t.Errorf("looked at %v, condemned at %v, in rounds %d to %d", time.Duration(at), time.Duration(condemned), first, last)
	}
}

// Guard: P1. Blocks from before the first check prove nothing: the others may be gone.
func TestOldWordsCondemnNobody(t *testing.T) {
	r := atCourt(t, 5, 1)
	at := r.looked(apart)
	if condemned, _ := r.until(at+sec/4, at+20*sec, apart, nil, 1, 2, 3, 4); condemned != 0 {
		t.Errorf("the others say nothing since %v, and it condemns itself at %v", time.Duration(at), time.Duration(condemned))
	}
}

// Guard: P1. The evidence must be there at each check: after a gap, it begins again.
func TestGapInTheEvidenceBeginsAgain(t *testing.T) {
	for name, gap := range map[string]func(r court, at boottime.Instant) boottime.Instant{
		"the others were silent": func(r court, at boottime.Instant) boottime.Instant {
			if condemned, _ := r.until(at+sec/4, at+10*sec, apart, nil, 1, 2, 3, 4); condemned != 0 {
				t.Fatalf("condemned at %v", time.Duration(condemned))
			}
			return at + 10*sec
		},
		"one of them heard it for a moment": func(r court, at boottime.Instant) boottime.Instant {
			r.run(at+sec/4, at+sec/2, func(a, b int) bool { return apart(a, b) || a == 1 && b == 0 })
			for at += 3 * sec / 4; r.nodes[0].judgement.since != 0; at += sec / 4 {
				if r.run(at, at, apart); r.nodes[0].sentence.condemned {
					t.Fatal("condemned although one of them has just heard it")
				}
			}
			return at
		},
		"its guard was gone for a moment": func(r court, at boottime.Instant) boottime.Instant {
			r.nodes[0].SetGuard(false, 0)
			r.run(at+sec/4, at+4*sec, apart)
			r.nodes[0].SetGuard(true, 30*time.Second)
			return at + 4*sec
		},
	} {
		r := atCourt(t, 5, 1)
		back := gap(r, r.looked(apart))
		if condemned, since := r.until(back+sec/4, back+20*sec, apart, nil); condemned == 0 || since <= back || condemned < back+2*sec {
			t.Errorf("%s until %v: looks since %v, condemned at %v", name, time.Duration(back), time.Duration(since), time.Duration(condemned))
		}
	}
}

// Guard: P1. A node does not condemn itself while it has contact of any kind, even in one direction, or while its
// counted set changes.
func TestUnsteadyContactCondemnsNobody(t *testing.T) {
	const after = 3 * time.Second
	for name, pairs := range map[string]func(a, b int) bool{
		"one answers that does not hear it": func(a, b int) bool { return apart(a, b) || a == 0 && b == 1 },
		"one hears it":                      func(a, b int) bool { return apart(a, b) || a == 1 && b == 0 },
	} {
		r := atCourt(t, 5, after)
		if condemned, _ := r.until(cutAt+sec/4, cutAt+25*sec, pairs, nil); condemned != 0 {
			t.Errorf("%s: condemned at %v", name, time.Duration(condemned))
		}
	}
	r := atCourt(t, 5, after)
	packets := func(at boottime.Instant) {
		if at%sec == 0 {
			r.nodes[0].Merger().Heard(0, 1, at)
		}
	}
	if condemned, _ := r.until(cutAt+sec/4, cutAt+25*sec, apart, packets); condemned != 0 {
		t.Errorf("packets of one come in: condemned at %v", time.Duration(condemned))
	}
	// Another node is cut off together with it, and lost later: then its view changes.
	r = atCourt(t, 5, 5*time.Second)
	change := cutAt + 4*sec // its evidence of the other node lasts for another D_max
	pairs := func(a, b int) bool { return (a < 2) == (b < 2) }
	if condemned, _ := r.until(cutAt+sec/4, change, pairs, nil); condemned != 0 {
		t.Fatalf("condemned at %v", time.Duration(condemned))
	}
	condemned, _ := r.until(change+sec/4, change+25*sec, func(a, b int) bool { return a > 1 && b > 1 }, nil, 1)
	if condemned < change+3*sec+5*sec {
		t.Errorf("the other one is gone since %v: condemned at %v", time.Duration(change), time.Duration(condemned))
	}
}

// Guard: P1. The counted set must not change. A member that is no longer counted was last sighted D_max before, but
// contact counts as changed from the moment when the view changes.
func TestChangedViewIsNoQuiet(t *testing.T) {
	const now = 60 * sec
	for name, tc := range map[string]struct {
		was, counted roster.Set
		quiet        bool
	}{
		"the same":                {roster.SetOf(0, 1), roster.SetOf(0, 1), true},
		"one is not counted more": {roster.SetOf(0, 1), roster.SetOf(0), false},
		"one is counted again":    {roster.SetOf(0), roster.SetOf(0, 1), false},
	} {
		r := atCourt(t, 5, 5*time.Second)
		c := r.nodes[0].Core
		c.judgement.view, c.judgement.quiet = tc.was, now-10*sec
		c.view.Counted, c.view.Seen = tc.counted, tc.counted
		if c.followQuiet(now); (c.judgement.quiet < now) != tc.quiet {
			t.Errorf("%s: quiet since %v at %v", name, time.Duration(c.judgement.quiet), time.Duration(now))
		}
	}
}

// Guard: P1. A node that has just stalled checks again before it decides.
func TestNodeThatStoodStillJudgesLater(t *testing.T) {
	due, _ := atCourt(t, 5, 3*time.Second).until(cutAt+sec/4, cutAt+25*sec, apart, nil)
	if due == 0 {
		t.Fatal("it does not condemn itself")
	}
	r := atCourt(t, 5, 3*time.Second)
	r.run(cutAt+sec/4, due-sec/2, apart)
	r.run(due-sec/4, due+sec+sec/2, apart, 0)
	awake := due + sec + 3*sec/4 // more than two seconds after its last step
	if condemned, _ := r.until(awake, awake+20*sec, apart, nil); condemned < awake+sec {
		t.Errorf("stood still until %v: condemned at %v", time.Duration(awake), time.Duration(condemned))
	}
}

// Guard: P1. A guard that is being given up, or was given up, does not certainly reset the node.
func TestGivenUpGuardCondemnsNobody(t *testing.T) {
	for name, give := range map[string]func(c *Core, at boottime.Instant){
		"announced before it was lost": func(c *Core, at boottime.Instant) {
			c.SetDisarm("file", "a test")
			c.release.announced = at
		},
		"the feeder has not answered": func(c *Core, _ boottime.Instant) { c.release.yielded = true },
	} {
		r := atCourt(t, 5, 1)
		at := r.looked(apart)
		give(r.nodes[0].Core, at)
		if condemned, _ := r.until(at+sec/4, at+20*sec, apart, nil); condemned != 0 {
			t.Errorf("%s: condemned at %v", name, time.Duration(condemned))
		}
	}
}

// Guard: P1. A node has parted by condemning itself if it is armed, counts nobody, and states this by the list that
// this node uses. All other nodes matter for contact.
func TestWhoHasParted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*netgossip.Statement)
		want   bool
	}{
		"condemned":              {func(*netgossip.Statement) {}, true},
		"not armed":              {func(st *netgossip.Statement) { st.Guard.Armed = false }, false},
		"counts itself":          {func(st *netgossip.Statement) { st.View = roster.SetOf(4) }, false},
		"by another list":        {func(st *netgossip.Statement) { st.RosterDigest++ }, false},
		"by another epoch of it": {func(st *netgossip.Statement) { st.RosterEpoch++ }, false},
	} {
		c := settled(t)
		st := netgossip.Statement{Boot: 104, RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Guard: killing}
		tc.change(&st)
		c.Merger().Answered(netgossip.Answer{Peer: 4, SentAt: 20 * sec, Statement: &st})
		c.Step(20 * sec)
		if c.proof.parted().Has(4) != tc.want {
			t.Errorf("%s: parted %v", name, c.proof.parted().Has(4))
		}
	}
}

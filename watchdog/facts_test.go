package watchdog

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func handed(kind netgossip.FactKind, boot uint64, timeout time.Duration) (facts [netgossip.MaxFacts]netgossip.Fact) {
	facts[0] = netgossip.Fact{Kind: kind, Name: netgossip.NameDigest("n0004"), Boot: boot, Timeout: timeout}
	if kind >= netgossip.FactPower {
		facts[0].Teller = netgossip.TellerDigest("n0001")
	}
	return facts
}

// A death that is passed on is checked by each receiver, and passed on by it; a death of an earlier boot is ignored.
func TestDeathsAreHandedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		boot uint64
		seen roster.Set // seen by the second member
		want bool
	}{
		"handed on":              {104, without4, true},
		"of another boot":        {103, without4, false},
		"of a node that is seen": {104, roster.FullSet(5), false},
	} {
		c := settled(t)
		pass(c, 11*sec, 20*sec)
		got, spread := boottime.Instant(0), 0
		for at := 20*sec + sec/4; at < 50*sec; at += sec / 4 {
			state(c, at, 1, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactPower, tc.boot, 0)})
			state(c, at, 2, tc.seen, netgossip.Statement{Guard: killing})
			state(c, at, 3, without4, netgossip.Statement{Guard: killing})
			fx := c.Step(at)
			if fx.Spread {
				spread++
			}
			if fx.Fenced.Has(4) && got == 0 {
				got = at
			}
		}
		if (got != 0) != tc.want || got > 22*sec || spread != 0 {
			t.Errorf("%s: FENCED at %v, said at once %d times", name, time.Duration(got), spread)
		}
		if d := c.proof.Of(4); tc.want && (d.Proof != ProofPower || d.Teller != "n0001" || c.fx.Statement.Facts != handed(netgossip.FactPower, 104, 0)) {
			t.Errorf("%s: %+v, %+v", name, d, c.fx.Statement.Facts)
		}
	}
}

// sentenced lets two members pass on the sentence of the last node, which they have from that node itself.
func sentenced(c *Core, at boottime.Instant) {
	for _, p := range []int{1, 3} {
		state(c, at, p, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactSentence, 104, time.Second)})
	}
	c.Step(at)
}

// Guard: P4. A sentence that is passed on counts from its receipt, if two different members pass on the same sentence,
// this node has met the boot, and no member sees the node.
func TestSentencesAreHandedOn(t *testing.T) {
	none := [netgossip.MaxFacts]netgossip.Fact{}
	for name, tc := range map[string]struct {
		prepare func(*Core)
		boot    uint64
		timeout time.Duration // as the first member passes it on
		other   time.Duration // as the third member passes it on
		seen    roster.Set
		want    boottime.Instant // about
	}{
		"handed on":                    {nil, 104, time.Second, time.Second, without4, 23 * sec},
		"a longer one":                 {nil, 104, 3 * time.Second, 3 * time.Second, without4, 27 * sec},
		"too long a one":               {nil, 104, 4 * time.Second, 4 * time.Second, without4, 0},
		"shorter than any":             {nil, 104, time.Second - 1, time.Second - 1, without4, 0},
		"by one alone":                 {nil, 104, time.Second, 0, without4, 0},
		"two that differ":              {nil, 104, time.Second, 2 * time.Second, without4, 0},
		"of another boot":              {nil, 105, time.Second, time.Second, without4, 0},
		"of a node that is seen":       {nil, 104, time.Second, time.Second, roster.FullSet(5), 0},
		"of a boot that was never met": {nil, 104, time.Second, time.Second, without4, 0},
		"without a LUN":                {func(c *Core) { c.cfg.Hold = false }, 104, time.Second, time.Second, without4, 0},
		"the other one told it long ago": {func(c *Core) {
			c.proof.peers[4].rumour = rumour{Death{Boot: 104, At: 20*sec - boottime.Instant(sentenceNews), Teller: "n0003"}, time.Second}
		}, 104, time.Second, 0, without4, 0},
		"the other one told it before": {func(c *Core) {
			c.proof.peers[4].rumour = rumour{Death{Boot: 104, At: 15 * sec, Teller: "n0003"}, time.Second}
		}, 104, time.Second, 0, without4, 23 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			c := settled(t)
			if strings.Contains(name, "never met") {
				c = unacquainted(t)
			}
			c.cfg.Hold = true
			pass(c, 11*sec, 20*sec)
			if tc.prepare != nil {
				tc.prepare(c)
			}
			got := boottime.Instant(0)
			for at := 20*sec + sec/10; at < 40*sec && got == 0; at += sec / 10 {
				third := none
				if tc.other != 0 {
					third = handed(netgossip.FactSentence, tc.boot, tc.other)
				}
				state(c, at, 1, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactSentence, tc.boot, tc.timeout)})
				state(c, at, 2, tc.seen, netgossip.Statement{Guard: killing})
				state(c, at, 3, without4, netgossip.Statement{Guard: killing, Facts: third})
				if c.Step(at).Fenced.Has(4) {
					got = at
				}
			}
			if tc.want == 0 && got != 0 || tc.want != 0 && (got < tc.want || got > tc.want+sec/2) {
				t.Errorf("FENCED at %v, want about %v", time.Duration(got), time.Duration(tc.want))
			}
			if w := &c.proof.peers[4]; tc.want == 0 && w.sentenced != 0 {
				t.Errorf("taken: %+v", w)
			}
			if d := c.proof.Of(4); tc.want != 0 && (d.Proof != ProofSentence || !d.Hearsay || c.fx.Statement.Facts != none) {
				t.Errorf("%+v, handed on %+v", d, c.fx.Statement.Facts)
			}
		})
	}
}

// Guard: P4. The node's own sentence is passed on, and replaces one that others have passed on.
func TestSentenceOfTheNodeItselfIsHandedOn(t *testing.T) {
	c := settled(t)
	c.cfg.Hold = true
	pass(c, 11*sec, 20*sec)
	sentenced(c, 20*sec+1)
	if _, fenced := verdicts(c, 20*sec+sec/4, 25*sec); fenced == 0 || !c.proof.Of(4).Hearsay {
		t.Fatalf("%+v", c.proof.Of(4))
	}
	s := byLUN(c, 104, 2*time.Second)
	c.proof.sentencedByLUN(25*sec, &s)
	for at := 25*sec + sec/4; at < 40*sec; at += sec / 4 {
		if verdicts(c, at, at); !c.proof.Fenced().Has(4) || c.proof.Of(4).Hearsay == (at > 30*sec) {
			t.Errorf("at %v: FENCED %v, %+v", time.Duration(at), c.proof.Fenced().Has(4), c.proof.Of(4))
		}
	}
	if c.fx.Statement.Facts != handed(netgossip.FactSentence, 104, 2*time.Second) {
		t.Errorf("handed on: %+v", c.fx.Statement.Facts)
	}
}

// Guard: if a boot writes a block without a sentence after others have passed its sentence on, it has no sentence.
func TestHearsayIsDeniedOnTheLUN(t *testing.T) {
	for bears, want := range map[bool]bool{false: true, true: false} {
		r := withVoices(t, 3, func(_ int, cfg *Config) { cfg.Hold = true })
		r.run(10*sec, 40*sec, allPairs)
		without2 := func(a, b int) bool { return a != 2 && b != 2 }
		r.run(40*sec, 50*sec, without2)
		c := r.nodes[0].Core
		w := &c.proof.peers[2]
		if boot, at, sentence := c.proof.spoke(2); boot != w.boot || at < 40*sec || sentence {
			t.Fatalf("it spoke of %d at %v, sentence %v", boot, time.Duration(at), sentence)
		}
		w.sentenced, w.hearsay, w.over = w.boot, 50*sec, 1000*sec
		if bears {
			r.nodes[2].sentence.condemned, r.nodes[2].sentence.timeout = true, 3*time.Second
		}
		r.run(50*sec, 55*sec, without2)
		if got := w.defied == w.boot; got != want {
			t.Errorf("it bears a sentence %v: defied %v", bears, got)
		}
	}
}

// Guard: a sentence that others pass on does not bar a node that answers. If the node does not announce it itself, the
// sentence is false.
func TestSentenceByHearsayBarsNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		says   time.Duration
		barred bool
		after  boottime.Instant
	}{
		"it knows of none":          {0, false, 21 * sec},
		"it says so itself":         {time.Second, true, 21 * sec},
		"it answers after its time": {0, false, 26 * sec},
	} {
		c := settled(t)
		c.cfg.Hold = true
		pass(c, 11*sec, 20*sec)
		sentenced(c, 20*sec+1)
		if c.proof.peers[4].sentenced != 104 {
			t.Fatalf("%s: not taken", name)
		}
		verdicts(c, 20*sec+sec/4, tc.after)
		state(c, tc.after+1, 4, roster.FullSet(5), netgossip.Statement{Guard: killing, Sentence: tc.says})
		if c.Step(tc.after + 1); !c.view.Seen.Has(4) {
			t.Errorf("%s: it is not seen at once", name)
		}
		state(c, tc.after+2, 4, roster.FullSet(5), netgossip.Statement{Guard: killing, Sentence: tc.says})
		c.Step(tc.after + 2)
		if c.proof.barred().Has(4) != tc.barred || c.view.Counted.Has(4) == tc.barred || c.proof.Fenced().Has(4) {
			t.Errorf("%s: barred %v, counted %v, fenced %v", name, c.proof.barred().Has(4), c.view.Counted.Has(4), c.proof.Fenced().Has(4))
		}
		if (c.proof.peers[4].defied == 104) == tc.barred {
			t.Errorf("%s: defied %v", name, c.proof.peers[4].defied)
		}
	}
}

// If a statement does not have room for all facts, they take turns.
func TestFactsTakeTurns(t *testing.T) {
	c := testCore(t, 12, nil)
	for at := 10 * sec; at < 12*sec; at += sec {
		hearFrom(c, at, roster.FullSet(12), 1, 12)
	}
	for p := 7; p < 12; p++ {
		c.proof.peers[p].death = Death{Proof: ProofPower, Boot: 100 + uint64(p), At: 20 * sec}
	}
	shown := map[uint64]bool{}
	for at := 21 * sec; at < 121*sec; at += sec {
		hearFrom(c, at, roster.FullSet(7), 1, 7)
		for _, f := range c.fx.Statement.Facts {
			if f.Kind != 0 {
				shown[f.Boot] = true
			}
		}
	}
	if len(shown) != 5 {
		t.Errorf("handed on in turn: %v", shown)
	}
}

// hearFrom lets peers answer, and steps.
func hearFrom(c *Core, at boottime.Instant, seen roster.Set, from, to int) {
	for p := from; p < to; p++ {
		state(c, at, p, seen, netgossip.Statement{Guard: killing})
	}
	c.Step(at)
}

// Guard: P3, P4. The node's own sentence counts from its own announcement, not from the time when others passed it on,
// and regardless of the timeout that they passed on.
func TestOwnSentenceReplacesHearsay(t *testing.T) {
	c := settled(t)
	c.cfg.Hold = true
	pass(c, 11*sec, 20*sec)
	sentenced(c, 20*sec+1)
	verdicts(c, 20*sec+sec/4, 21*sec)
	state(c, 21*sec+1, 4, nobody, netgossip.Statement{Guard: killing, Sentence: 3 * time.Second})
	c.Step(21*sec + 1)
	if _, fenced := verdicts(c, 21*sec+sec/4, 40*sec); fenced < 28*sec || fenced > 29*sec {
		t.Errorf("FENCED at %v", time.Duration(fenced))
	}
}

// Guard: P9. A boot that is called dead by hearsay but heard later is alive.
func TestHearsayIsContradictedByASign(t *testing.T) {
	c := settled(t)
	c.cfg.Hold = true
	pass(c, 11*sec, 20*sec)
	sentenced(c, 20*sec+1)
	if _, fenced := verdicts(c, 20*sec+sec/4, 25*sec); fenced == 0 {
		t.Fatal("never FENCED")
	}
	c.Merger().Heard(0, 4, 26*sec)
	if fx := c.Step(26 * sec); fx.Fenced.Has(4) || c.proof.Of(4).Proof != 0 || c.proof.peers[4].defied != 104 {
		t.Errorf("it stands: %+v", c.proof.Of(4))
	}
}

// Guard: P9. A boot that is called dead by hearsay but writes its slot later is alive.
func TestHearsayIsContradictedByTheSlot(t *testing.T) {
	r := shelf(t, false)
	r.cfg.Hold = true
	w := &r.proof.peers[4]
	w.sentenced, w.hearsay, w.over = 104, 30*sec, 33*sec
	for at := 30 * sec; at < 45*sec; at += sec / 4 {
		r.others(at, netgossip.Statement{})
		r.step(at)
		if at == 35*sec && !r.proof.Fenced().Has(4) {
			t.Fatal("never FENCED")
		}
		if at >= 36*sec && at%sec == 0 {
			r.write(4, uint64(at/sec))
		}
	}
	if r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != 0 || w.defied != 104 {
		t.Errorf("it stands: %+v", r.proof.Of(4))
	}
}

// Guards: old statements do not count, and a condemned node passes no facts on.
func TestFactsOfLongAgoAndOfTheCondemned(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	state(c, 20*sec+1, 1, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactOperator, 104, 0)})
	late := 20*sec + 1 + boottime.Instant(c.cfg.MaxAge)
	judging(c, late).takeFacts(late + 1)
	if c.proof.peers[4].trial.since != 0 {
		t.Error("it is old, and is tried")
	}
	judging(c, late).takeFacts(late)
	if c.proof.peers[4].trial.since == 0 {
		t.Error("it is not old, and is not tried")
	}
	c.proof.peers[4].death = Death{Proof: ProofOperator, Boot: 104, At: 20 * sec}
	none := [netgossip.MaxFacts]netgossip.Fact{}
	if st := c.statement(21 * sec); st.Facts == none {
		t.Error("nothing is handed on")
	}
	c.sentence.condemned = true
	if st := c.statement(21 * sec); st.Facts != none {
		t.Errorf("a condemned node hands on %+v", st.Facts)
	}
}

// crowd returns a core of 15 with quorum that has met all others; the last seven are gone.
func crowd(t *testing.T) (c *Core, pass func(from, to boottime.Instant, do func())) {
	t.Helper()
	c = testCore(t, 15, nil)
	for at := 10 * sec; at < 12*sec; at += sec / 4 {
		hearFrom(c, at, roster.FullSet(15), 1, 15)
	}
	return c, func(from, to boottime.Instant, do func()) {
		for at := from; at < to; at += sec / 4 {
			hearFrom(c, at, roster.SetOf(0, 1, 2, 3, 4, 5, 6, 7), 1, 8)
			do()
		}
	}
}

// Guard: a death is announced to all at once, but only once, even if facts take turns.
func TestDeathsAreAnnouncedOnce(t *testing.T) {
	c, pass := crowd(t)
	pass(12*sec, 20*sec, func() {})
	for p := 8; p < 15; p++ {
		c.proof.Tell(uint64(p), Word{Node: c.cfg.Roster.Name(p), Death: Death{Boot: 100 + uint64(p), Proof: ProofPower}})
	}
	early, late := 0, 0
	count := func(n *int) func() {
		return func() {
			if c.fx.Spread {
				*n++
			}
		}
	}
	pass(20*sec, 60*sec, count(&early))
	pass(60*sec, 160*sec, count(&late))
	if early == 0 || early > 7 || late > 0 {
		t.Errorf("announced %d times, and %d times later", early, late)
	}
}

// Guard: contradictions come first, and take turns among themselves.
func TestContradictionsComeFirst(t *testing.T) {
	for _, defied := range []int{2, 6} {
		c, pass := crowd(t)
		for p := 8; p < 15; p++ {
			c.proof.peers[p].death = Death{Proof: ProofPower, Boot: 100 + uint64(p), At: 12 * sec}
		}
		for p := 15 - defied; p < 15; p++ {
			c.proof.defy(p, 100+uint64(p))
		}
		shown := map[uint64]bool{}
		pass(13*sec, 100*sec, func() {
			n := 0
			for _, f := range c.fx.Statement.Facts {
				if shown[f.Boot] = true; f.Kind == netgossip.FactContradicted {
					n++
				}
			}
			if n != min(defied, netgossip.MaxFacts-1) || c.fx.Statement.Facts[0].Kind != netgossip.FactContradicted {
				t.Fatalf("%d of %d contradictions: %+v", n, defied, c.fx.Statement.Facts)
			}
		})
		if len(shown) != 7 { // contradictions stay for long, and one place is kept for other facts
			t.Errorf("%d contradictions: in turn %v", defied, shown)
		}
	}
}

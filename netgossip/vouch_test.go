package netgossip

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// vouched returns a merger of n members that are all alive and answered at 10 s.
func vouched(t *testing.T, n, networks int, p Policy) *Merger {
	t.Helper()
	m := testMerger(t, n, networks, p)
	for k := range networks {
		for i := 1; i < n; i++ {
			m.MemberChanged(k, i, true, 9*sec)
			answer(m, k, i, 10*sec)
		}
	}
	return m
}

// Guard: a vouch is dated by the start of the samples, and does not count if it is older than D_max.
func TestVouchLastsForMaxAge(t *testing.T) {
	m := vouched(t, 5, 1, Any())
	m.Vouched(0, 60*sec)
	v := m.Evaluate(61*sec, 3)
	if v.Counted.Len() != 5 || v.QuorumUntil != 64*sec || v.NextExpiry != 64*sec {
		t.Errorf("at 61 s: %+v", v)
	}
	m.Vouched(0, 59*sec) // a vouch does not go back
	if v := m.Evaluate(64*sec-1, 3); v.Counted.Len() != 5 {
		t.Errorf("shortly before the end: %+v", v)
	}
	if v := m.Evaluate(64*sec, 3); v.Counted.Len() != 1 || !v.Seen.IsEmpty() || v.QuorumUntil != 0 {
		t.Errorf("D_max after the vouch: %+v", v)
	}
}

// Guard: for each of these peers there is a reason why no vouch may cover it.
func TestVouchCoversOnlyWhoAnswered(t *testing.T) {
	for name, against := range map[string]func(m *Merger){
		"it missed a sample":         func(m *Merger) { m.Missed(0, 1, 20*sec, false) },
		"it fell silent with others": func(m *Merger) { m.Missed(0, 1, 20*sec, true) },
		"memberlist calls it dead":   func(m *Merger) { m.MemberChanged(0, 1, false, 20*sec) },
		"it was dead and is alive, and did not answer since": func(m *Merger) {
			m.MemberChanged(0, 1, false, 20*sec)
			m.MemberChanged(0, 1, true, 21*sec)
		},
		"the network was down since": func(m *Merger) { m.LinkChanged(0, false); m.LinkChanged(0, true) },
		"it does not see us": func(m *Merger) {
			st := agrees(m)
			st.Seen.Remove(0)
			m.Answered(Answer{Peer: 1, SentAt: 20 * sec, Statement: st})
		},
		"it says briefly that it does not see us": func(m *Merger) { m.Answered(Answer{Peer: 1, SentAt: 20 * sec, Sight: SightUnseen}) },
	} {
		t.Run(name, func(t *testing.T) {
			m := vouched(t, 3, 1, Any())
			against(m)
			if name != "the network was down since" {
				answer(m, 0, 2, 21*sec)
			}
			m.Vouched(0, 60*sec)
			if v := m.Evaluate(61*sec, 2); v.Seen.Has(1) || v.Counted.Has(1) {
				t.Errorf("seen %v counted %v", v.Seen.Has(1), v.Counted.Has(1))
			} else if name != "the network was down since" && !v.Counted.Has(2) {
				t.Error("nobody is vouched for: the test proves nothing")
			}
			answer(m, 0, 1, 61*sec)
			m.MemberChanged(0, 1, true, 61*sec)
			m.Vouched(0, 70*sec)
			if v := m.Evaluate(71*sec, 2); !v.Counted.Has(1) {
				t.Error("an answer does not put it right")
			}
		})
	}
}

// A peer that has not answered a probe of this node yet, or only before it was listed, is not vouched for.
func TestVouchNeedsAnOwnAnswerFirst(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	m.MemberChanged(0, 1, true, 9*sec)
	answer(m, 0, 2, 10*sec) // memberlist does not list 2
	m.Vouched(0, 60*sec)
	if v := m.Evaluate(61*sec, 2); !v.Seen.IsEmpty() {
		t.Errorf("seen %v", m.roster.Names(v.Seen))
	}
}

// A vouch from before a peer fell silent counts for D_max; with void it does not.
func TestMissedPeerKeepsWhatWasVouchedBefore(t *testing.T) {
	for _, void := range []bool{false, true} {
		m := vouched(t, 3, 1, Any())
		m.Vouched(0, 60*sec)
		m.Missed(0, 1, 62*sec, void)
		m.Vouched(0, 63*sec)
		if v := m.Evaluate(63*sec, 2); v.Seen.Has(1) == void {
			t.Errorf("void %v: seen %v", void, !void)
		}
		if v := m.Evaluate(64*sec, 2); v.Seen.Has(1) || !v.Seen.Has(2) {
			t.Errorf("void %v: at 64 s %+v", void, v)
		}
	}
}

// The loop handles the events of a peer in one batch, in any order.
func TestMissAndAnswerInEitherOrder(t *testing.T) {
	for _, c := range []struct {
		missed, answered boottime.Instant
		covered          bool
	}{{20 * sec, 21 * sec, true}, {21 * sec, 20 * sec, false}, {20 * sec, 20 * sec, true}} {
		for _, missFirst := range []bool{true, false} {
			for _, void := range []bool{true, false} {
				m := vouched(t, 3, 1, Any())
				miss := func() { m.Missed(0, 1, c.missed, void) }
				if missFirst {
					miss()
				}
				answer(m, 0, 1, c.answered)
				if !missFirst {
					miss()
				}
				m.Vouched(0, 60*sec)
				// With an answer of the very same instant, both results are right.
				if v := m.Evaluate(61*sec, 2); v.Counted.Has(1) != c.covered && c.missed != c.answered {
					t.Errorf("%+v, miss first %v, void %v: covered %v", c, missFirst, void, v.Counted.Has(1))
				}
			}
		}
	}
}

// Guard: without a statement no peer is counted, whatever a brief answer says.
func TestBriefAnswerConfirmsAndTakesBackOnly(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	m.Answered(Answer{Peer: 1, SentAt: 10 * sec, Sight: SightSeen})
	if v := m.Evaluate(11*sec, 2); v.Counted.Has(1) || v.Contact.Has(1) || !v.Seen.Has(1) {
		t.Errorf("a stranger's brief answer: %+v", v)
	}
	answer(m, 0, 1, 12*sec)
	m.Answered(Answer{Peer: 1, SentAt: 15 * sec, Sight: SightSeen})
	if v := m.Evaluate(16*sec, 2); !v.Counted.Has(1) || v.QuorumUntil != 19*sec {
		t.Errorf("confirmed: %+v", v)
	}
	if st, at := m.Statement(1); st == nil || at != 12*sec {
		t.Errorf("a brief answer renewed the statement to %v", at)
	}
	m.Answered(Answer{Peer: 1, SentAt: 16 * sec, Sight: SightUnseen})
	m.Answered(Answer{Peer: 1, SentAt: 17 * sec, Sight: SightSeen})
	if v := m.Evaluate(17*sec, 2); v.Counted.Has(1) || !v.Seen.Has(1) {
		t.Errorf("taken back: %+v", v)
	}
	answer(m, 0, 1, 18*sec)
	if v := m.Evaluate(18*sec, 2); !v.Counted.Has(1) {
		t.Error("its statement does not put it right")
	}
}

// Invariant: a peer that is seen has answered within D_max, or it is vouched for by samples within D_max and has
// neither died nor missed a probe since its last answer.
func TestNothingIsBelievedForLongerThanMaxAge(t *testing.T) {
	rng := random(t, 2)
	seen := 0
	for range 200 {
		const n = 4
		m := testMerger(t, n, 1, Any())
		var answers, contacts, against, deaths [n]boottime.Instant
		var vouch boottime.Instant
		for step := range 200 {
			now := boottime.Instant(step+20) * sec / 2
			at := now - boottime.Instant(rng.Int64N(int64(2*time.Second)))
			p := 1 + rng.IntN(n-1)
			switch rng.IntN(10) {
			case 0:
				m.MemberChanged(0, p, false, now)
				deaths[p] = now
			case 1:
				m.Missed(0, p, at, rng.IntN(2) == 0)
				against[p] = max(against[p], at)
			case 2, 3, 4:
				m.Vouched(0, at)
				vouch = max(vouch, at)
			case 5:
				m.Answered(Answer{Peer: p, SentAt: at, Sight: SightUnseen})
				answers[p] = max(answers[p], at)
			case 6, 7:
				m.MemberChanged(0, p, true, now)
			default:
				answer(m, 0, p, at)
				answers[p], contacts[p] = max(answers[p], at), max(contacts[p], at)
			}
			for p := range m.Evaluate(now, 2).Seen.All() {
				seen++
				own := answers[p] > deaths[p] && now.Sub(answers[p]) < 4*time.Second
				// A vouch from before a miss counts until D_max after it.
				covered := contacts[p] > deaths[p] && now.Sub(vouch) < 4*time.Second &&
					(contacts[p] > against[p] || now.Sub(against[p]) < 4*time.Second)
				if !own && !covered {
					t.Fatalf("step %d: peer %d is seen at %v; answered %v, contact %v, missed %v, dead %v, vouch %v",
						step, p, now, answers[p], contacts[p], against[p], deaths[p], vouch)
				}
			}
		}
	}
	if seen < 10_000 {
		t.Errorf("peers were seen only %d times", seen)
	}
}

func TestDemandFollowsTheMargin(t *testing.T) {
	m := vouched(t, 10, 2, Any())
	v := m.Evaluate(11*sec, 6)
	if d := m.Demand(&v, 6); d != (Demand{Others: 9, Margin: 4, Share: 2, Any: true}) {
		t.Errorf("all there: %+v", d)
	}
	m.LinkChanged(1, false)
	if d := m.Demand(&v, 6); d.Share != 1 {
		t.Errorf("one network: %+v", d)
	}
	for p := 1; p < 10; p++ { // the other network has carrier, but is cut off in the switch
		m.Missed(1, p, 10*sec+1, true)
	}
	if m.LinkChanged(1, true); m.Demand(&v, 6).Share != 1 {
		t.Errorf("one network that reaches anybody: %+v", m.Demand(&v, 6))
	}
	m.LinkChanged(1, false)
	for p := 5; p < 10; p++ {
		m.Missed(0, p, 10*sec+1, true)
	}
	v = m.Evaluate(11*sec, 6)
	if d := m.Demand(&v, 6); d != (Demand{Others: 4, Margin: 0, Share: 1}) {
		t.Errorf("a tie: %+v", d)
	}
	m.Recount([]Electorate{{roster.FullSet(10), 4}, {roster.SetOf(0, 1, 2), 2}, {roster.FullSet(5), 2}})
	if d := m.Demand(&v, 6); d != (Demand{Others: 4, Margin: 1, Share: 1}) {
		t.Errorf("several electorates: %+v", d)
	}
}

// The rate is not higher than the bound needs, in each of the two ways of probing.
func TestPace(t *testing.T) {
	for n := 2; n <= roster.MaxNodes; n++ {
		p := Tune(n)
		for _, share := range []float64{1, 1.5, 2} {
			d := Demand{Others: n - 1, Margin: n - (n/2 + 1), Share: share}
			pace := d.Pace(p, n-1, false)
			rate := 0.0
			if pace.Interval > 0 {
				rate = float64(n-1) / pace.Interval.Seconds()
				if pace.Interval < p.EvidenceInterval || pace.Interval > p.EvidenceMaxAge*3/5 {
					t.Fatalf("N=%d: each peer every %v", n, pace.Interval)
				}
			} else {
				rate = 1 / pace.Gap.Seconds()
				if k := rate * p.EvidenceMaxAge.Seconds() * share; math.Pow(0.5, k) > 1.01e-9 {
					t.Fatalf("N=%d: %v samples in D_max", n, k)
				}
			}
			if limit := max(float64(n-1), 30/p.EvidenceMaxAge.Seconds()/share) + 0.01; rate > limit || n > 20 && rate > 8 {
				t.Fatalf("N=%v, share %v: %v probes/s", n, share, rate)
			}
			thin := Demand{Others: n / 2, Share: share}
			if pace := thin.Pace(p, n/2, false); pace.Interval == 0 || pace.Interval > p.EvidenceMaxAge*3/5 {
				t.Fatalf("N=%d: a tie is watched by %+v", n, pace)
			}
		}
	}
}

func TestPaceNeedsAReasonToChange(t *testing.T) {
	p := Tune(9)
	d := Demand{Others: 8, Margin: 4, Share: 2}
	if a, b := d.Pace(p, 8, true), d.Pace(p, 8, false); a.Interval == 0 || b.Interval != 0 {
		t.Errorf("while direct %+v, while sampling %+v", a, b)
	}
	if a, b := (Demand{}).Pace(Tune(1000), 999, false), (Demand{}).Pace(Tune(3), 2, true); a.Interval == 0 || b.Interval != time.Second {
		t.Errorf("before the demand is known: %+v, %+v", a, b)
	}
}

// unnoticed returns the probability that all samples of D_max are answered although as many peers as matter are gone,
// namely those that the fewest networks cover.
func unnoticed(m *Merger, d Demand, rate float64) float64 {
	type cover struct{ p, networks int }
	var all []cover
	for p := range m.peers {
		c := cover{p: p}
		for k, up := range m.up {
			if p != m.roster.Self && up && m.vouches(m.link(k, p)) {
				c.networks++
			}
		}
		if c.networks > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b cover) int { return a.networks - b.networks })
	gone := all[:int(math.Ceil(min(0.5, float64(d.Margin+1)/float64(d.Others))*float64(len(all))))]
	chance := 1.0
	for k, up := range m.up {
		covered, lost := 0.0, 0.0
		for i, c := range all {
			if up && m.vouches(m.link(k, c.p)) {
				if covered++; i < len(gone) {
					lost++
				}
			}
		}
		if covered > 0 {
			chance *= math.Pow(1-lost/covered, rate*4)
		}
	}
	return chance
}

// The loss of too many peers stays unnoticed for D_max with a probability below 1e-9, whatever the switches have cut
// before: only networks that reach the peers count, not all those with carrier.
func TestSamplesSufficeWithANetworkCutInTheSwitch(t *testing.T) {
	const n = 50
	for name, cut := range map[string]func(network, p int) bool{
		"nothing":                    func(k, p int) bool { return false },
		"one network":                func(k, p int) bool { return k == 1 },
		"one network to one peer":    func(k, p int) bool { return k == 1 && p == 7 },
		"one network to half":        func(k, p int) bool { return k == 1 && p > n/2 },
		"each network to a quarter":  func(k, p int) bool { return k == 1 && p <= n/4 || k == 0 && p >= 3*n/4 },
		"each peer to every second":  func(k, p int) bool { return p%2 == k },
		"one network to all but one": func(k, p int) bool { return k == 1 && p != 7 },
	} {
		m := vouched(t, n, 2, Any())
		for k := range 2 {
			for p := 1; p < n; p++ {
				if cut(k, p) {
					m.Missed(k, p, 10*sec+1, true)
				}
			}
		}
		v := m.Evaluate(11*sec, n/2+1)
		d := m.Demand(&v, n/2+1)
		pace := d.Pace(Tune(n), n-1, false)
		if v.Counted.Len() != n || pace.Gap == 0 {
			t.Fatalf("%s: %d counted, %+v", name, v.Counted.Len(), pace)
		}
		rate := 1 / pace.Gap.Seconds()
		t.Logf("%-26s share %.3f, %.2f samples a second, unnoticed with %.1e", name, d.Share, rate, unnoticed(m, d, rate))
		if p := unnoticed(m, d, rate); p > 1.01e-9 {
			t.Errorf("%s: a loss stays unnoticed with a probability of %.1e", name, p)
		}
		if name == "one network to one peer" && rate > 1.1*30/2/4 {
			t.Errorf("one broken cable makes each node take %v samples a second", rate)
		}
	}
}

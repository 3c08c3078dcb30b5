package netgossip

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const sec = boottime.Instant(time.Second)

func testRoster(t testing.TB, n, self int) *roster.Roster {
	t.Helper()
	ms := make([]roster.Member, n)
	for i := range ms {
		ms[i].Name = fmt.Sprintf("n%04d", i)
	}
	r, err := roster.New(1, ms, ms[self].Name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testMerger(t testing.TB, n, networks int, p Policy) *Merger {
	return NewMerger(MergerConfig{Roster: testRoster(t, n, 0), Networks: networks, Policy: p, MaxAge: 4 * time.Second})
}

// agrees returns a statement of a peer that has our roster and sees all members.
func agrees(m *Merger) *Statement {
	return &Statement{RosterEpoch: m.roster.Epoch, RosterDigest: m.roster.Digest, Seen: roster.FullSet(m.roster.Size()), View: roster.FullSet(m.roster.Size())}
}

func answer(m *Merger, network, peer int, at boottime.Instant) {
	m.Answered(Answer{Network: network, Peer: peer, SentAt: at, Statement: agrees(m)})
}

func TestEvidenceExpiresWithoutAnyEvent(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	answer(m, 0, 1, 10*sec)
	answer(m, 0, 2, 11*sec)
	v := m.Evaluate(12*sec, 2)
	if v.Counted.Len() != 3 || v.QuorumUntil != 15*sec || v.NextExpiry != 14*sec {
		t.Fatalf("at 12 s: %+v", v)
	}
	if v := m.Evaluate(14*sec, 2); v.Counted != roster.SetOf(0, 2) {
		t.Fatalf("evidence of age D_max still counts: %v", m.roster.Names(v.Counted))
	}
	if v := m.Evaluate(15*sec, 2); v.Counted != roster.SetOf(0) || v.QuorumUntil != 0 {
		t.Fatalf("nobody answered for D_max, yet %+v", v)
	}
}

// Guard: lease.md L7. A peer's relay is that of its latest answer: a later answer without a relay removes it, an older
// answer changes nothing.
func TestRelayIsThatOfTheLatestAnswer(t *testing.T) {
	m := testMerger(t, 3, 2, Any())
	told := Relay{Log: 1, Instance: 7, Anchor: 9 * sec}
	say := func(network int, at boottime.Instant, r Relay) {
		m.Answered(Answer{Network: network, Peer: 1, SentAt: at, Statement: agrees(m), Relay: r})
	}
	for _, c := range []struct {
		what    string
		network int
		at      boottime.Instant
		says    Relay
		want    Relay
	}{
		{"told", 0, 10 * sec, told, told},
		{"silent, on another network and older", 1, 9 * sec, Relay{}, told},
		{"silent", 1, 11 * sec, Relay{}, Relay{}},
		{"told, and older", 0, 10*sec + 1, told, Relay{}},
	} {
		if say(c.network, c.at, c.says); m.Relay(1) != c.want || m.Relay(2) != (Relay{}) {
			t.Errorf("%s: %+v, want %+v", c.what, m.Relay(1), c.want)
		}
	}
}

// Guard: an answer is dated by the probe's start. Dating it by arrival would let a slow
// network keep a verdict alive beyond D_max.
func TestEvidenceIsDatedByTheProbesStart(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	answer(m, 0, 1, 10*sec)
	answer(m, 0, 1, 8*sec) // late answer to an older probe
	if v := m.Evaluate(11*sec, 2); v.QuorumUntil != 14*sec {
		t.Fatalf("quorum until %v, want 14 s", v.QuorumUntil)
	}
}

// Guard: L2, counting is two-way. Without it the middle node of a chain is counted by
// both ends and two disjoint pairs can each find a majority.
func TestPeerThatDoesNotSeeUsIsSeenButNotCounted(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	st := agrees(m)
	st.Seen.Remove(0)
	m.Answered(Answer{Peer: 1, SentAt: 10 * sec, Statement: st})
	v := m.Evaluate(11*sec, 2)
	if !v.Seen.Has(1) || v.Counted.Has(1) || v.QuorumUntil != 0 {
		t.Fatalf("seen %v counted %v", m.roster.Names(v.Seen), m.roster.Names(v.Counted))
	}
}

// Guard: a peer with another roster has another N; counting it could give two halves a
// majority of different totals.
func TestPeerWithAnotherRosterIsNotCounted(t *testing.T) {
	for name, change := range map[string]func(*Statement){
		"epoch":  func(s *Statement) { s.RosterEpoch++ },
		"digest": func(s *Statement) { s.RosterDigest++ },
	} {
		t.Run(name, func(t *testing.T) {
			m := testMerger(t, 3, 1, Any())
			st := agrees(m)
			change(st)
			m.Answered(Answer{Peer: 1, SentAt: 10 * sec, Statement: st})
			if v := m.Evaluate(11*sec, 2); v.Counted.Has(1) || !v.Seen.Has(1) {
				t.Fatalf("counted %v seen %v", m.roster.Names(v.Counted), m.roster.Names(v.Seen))
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	// Peer 1 answered on network 0 at 10 s, on 1 at 11 s, on 2 never.
	for _, tc := range []struct {
		policy Policy
		until  boottime.Instant // end of the time in which it is seen; 0: never seen
	}{{Any(), 15 * sec}, {AtLeast(1), 15 * sec}, {AtLeast(2), 14 * sec}, {AtLeast(3), 0}, {All(), 0}} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			m := testMerger(t, 2, 3, tc.policy)
			answer(m, 0, 1, 10*sec)
			answer(m, 1, 1, 11*sec)
			v := m.Evaluate(12*sec, 2)
			if got := v.Seen.Has(1); got != (tc.until > 0) {
				t.Fatalf("seen = %v", got)
			}
			if tc.until > 0 && v.NextExpiry != tc.until {
				t.Fatalf("expires at %v, want %v", v.NextExpiry, tc.until)
			}
		})
	}
}

func TestDeathVoidsOlderEvidenceOnly(t *testing.T) {
	m := testMerger(t, 3, 2, Any())
	answer(m, 0, 1, 10*sec)
	m.MemberChanged(0, 1, false, 11*sec)
	if v := m.Evaluate(12*sec, 2); v.Seen.Has(1) {
		t.Fatal("evidence from before the death still counts")
	}
	answer(m, 0, 1, 12*sec)
	if v := m.Evaluate(12*sec, 2); !v.Seen.Has(1) {
		t.Fatal("evidence from after a false accusation does not count")
	}
	m.MemberChanged(1, 1, false, 13*sec)
	if v := m.Evaluate(13*sec, 2); !v.Seen.Has(1) {
		t.Fatal("a death on one network cost the peer on the other")
	}
}

func TestNetworkDownCountsAtOnceAndItsEvidenceDoesNotComeBack(t *testing.T) {
	m := testMerger(t, 2, 1, Any())
	answer(m, 0, 1, 10*sec)
	m.LinkChanged(0, false)
	if v := m.Evaluate(10*sec+1, 2); v.Seen.Has(1) {
		t.Fatal("seen through a network that is down")
	}
	m.LinkChanged(0, true)
	if v := m.Evaluate(10*sec+2, 2); v.Seen.Has(1) {
		t.Fatal("evidence from before the link went down came back with it")
	}
}

func TestReportsAboutSelfOrStrangersAreIgnored(t *testing.T) {
	m := testMerger(t, 2, 1, Any())
	for _, p := range []int{-1, 0, 2, 5000} {
		answer(m, 0, p, 10*sec)
		m.MemberChanged(0, p, true, 10*sec)
		m.Heard(0, p, 10*sec)
	}
	answer(m, 7, 1, 10*sec)
	m.LinkChanged(9, false)
	if v := m.Evaluate(11*sec, 2); !v.Seen.IsEmpty() || v.Counted != roster.SetOf(0) {
		t.Fatalf("%+v", v)
	}
}

func TestSingleNodeHasQuorumByItself(t *testing.T) {
	m := testMerger(t, 1, 1, Any())
	if v := m.Evaluate(5*sec, 1); v.QuorumUntil != 9*sec || TallyOf(v.Counted, 1, 1) != Majority {
		t.Fatalf("%+v", v)
	}
}

func TestTally(t *testing.T) {
	for _, tc := range []struct {
		size, quorum, counted int
		want                  Outcome
	}{
		{1, 1, 1, Majority}, {2, 2, 1, EqualSplit}, {2, 2, 2, Majority}, {3, 2, 1, Minority}, {3, 2, 2, Majority},
		{4, 3, 2, EqualSplit}, {4, 3, 3, Majority}, {4, 3, 1, Minority}, {5, 3, 2, Minority},
		{100, 51, 50, EqualSplit}, {100, 51, 49, Minority}, {100, 51, 51, Majority},
		{4, 4, 3, Minority}, {4, 4, 2, EqualSplit},
	} {
		if got := TallyOf(roster.FullSet(tc.counted), tc.size, tc.quorum); got != tc.want {
			t.Errorf("%d of %d, quorum %d: %v, want %v", tc.counted, tc.size, tc.quorum, got, tc.want)
		}
	}
}

// A deliberately simple reimplementation: sort everything, every time.
func dumbView(m *Merger, now boottime.Instant, quorum int) View {
	v := View{NextExpiry: boottime.Never}
	v.Counted.Add(m.roster.Self)
	var counted []boottime.Instant
	for p := range m.peers {
		var expiries []boottime.Instant
		for n := range m.up {
			l := m.link(n, p)
			if m.up[n] && l.anchor > l.lostAt && l.anchor.Add(m.maxAge) > now {
				expiries = append(expiries, l.anchor.Add(m.maxAge))
			}
		}
		slices.Sort(expiries)
		slices.Reverse(expiries)
		if p == m.roster.Self || len(expiries) < m.needed {
			continue
		}
		e := expiries[m.needed-1]
		v.Seen.Add(p)
		v.NextExpiry = min(v.NextExpiry, e)
		st := m.peers[p].statement
		if m.peers[p].contact {
			v.Contact.Add(p)
		}
		if st.Seen.Has(m.roster.Self) && st.RosterDigest == m.roster.Digest && st.RosterEpoch == m.roster.Epoch {
			v.Counted.Add(p)
			counted = append(counted, e)
		}
	}
	slices.Sort(counted)
	slices.Reverse(counted)
	switch {
	case quorum == 1:
		v.QuorumUntil = now.Add(m.maxAge)
	case len(counted) >= quorum-1:
		v.QuorumUntil = counted[quorum-2]
	}
	return v
}

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: another each time")

// random returns the random source of a test, and logs how to repeat it.
func random(t *testing.T, stream uint64) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -seed=%d", seed)
	return rand.New(rand.NewPCG(seed, stream))
}

func TestEvaluateAgreesWithDumbTwin(t *testing.T) {
	rng := random(t, 1)
	for range 300 {
		n, networks := 1+rng.IntN(12), 1+rng.IntN(4)
		policy := []Policy{Any(), All(), AtLeast(1 + rng.IntN(networks))}[rng.IntN(3)]
		m := testMerger(t, n, networks, policy)
		for step := range 60 {
			now := boottime.Instant(step) * sec / 4
			net, p := rng.IntN(networks), rng.IntN(n)
			switch rng.IntN(8) {
			case 0:
				m.MemberChanged(net, p, rng.IntN(2) == 0, now)
			case 1:
				m.LinkChanged(net, rng.IntN(3) > 0)
			case 2:
				st := agrees(m)
				st.Seen.Remove(0)
				m.Answered(Answer{Network: net, Peer: p, SentAt: now - boottime.Instant(rng.IntN(3))*sec, Statement: st})
			default:
				answer(m, net, p, max(1, now-boottime.Instant(rng.Int64N(int64(sec)))))
			}
			quorum := 1 + rng.IntN(n)
			if got, want := m.Evaluate(now, quorum), dumbView(m, now, quorum); got != want {
				t.Fatalf("n=%d networks=%d policy=%v quorum=%d step %d:\n got %+v\nwant %+v", n, networks, policy, quorum, step, got, want)
			}
		}
	}
}

func TestSetAgreesWithMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var s roster.Set
	ref := map[int]bool{}
	for range 5000 {
		i := rng.IntN(roster.MaxNodes)
		if rng.IntN(2) == 0 {
			s.Add(i)
			ref[i] = true
		} else {
			s.Remove(i)
			delete(ref, i)
		}
	}
	if s.Len() != len(ref) {
		t.Fatalf("len %d, want %d", s.Len(), len(ref))
	}
	last := -1
	for i := range s.All() {
		if !ref[i] || i <= last {
			t.Fatalf("member %d after %d, in reference: %v", i, last, ref[i])
		}
		last = i
	}
	if s.Has(-1) || s.Has(roster.MaxNodes) {
		t.Fatal("index outside the range is a member")
	}
}

func TestRosterRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		members []string
		self    string
	}{
		"empty":   {nil, "a"},
		"twice":   {[]string{"a", "b", "a"}, "a"},
		"no self": {[]string{"a", "b"}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			var ms []roster.Member
			for _, n := range tc.members {
				ms = append(ms, roster.Member{Name: n})
			}
			if _, err := roster.New(1, ms, tc.self); err == nil {
				t.Fatal("accepted")
			}
		})
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{4, 100, 1000} {
		b.Run(fmt.Sprintf("N=%d/networks=4", n), func(b *testing.B) {
			m := testMerger(b, n, 4, Any())
			rng := rand.New(rand.NewPCG(1, 1))
			for net := range 4 {
				for p := 1; p < n; p++ {
					answer(m, net, p, 10*sec+boottime.Instant(rng.Int64N(int64(sec))))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if m.Evaluate(12*sec, n/2+1).QuorumUntil == 0 {
					b.Fatal("no quorum")
				}
			}
		})
	}
}

// Guard: the sets of a statement that uses another roster are never interpreted by this node's roster, and must prove
// nothing.
func TestStatementByAnotherRoster(t *testing.T) {
	m := testMerger(t, 4, 1, Any())
	m.countable = func(*roster.Standing) bool { return true }
	st := &Statement{RosterDigest: 99, Seen: roster.SetOf(0), View: roster.SetOf(0, 1), Lost: roster.SetOf(2), Guarded: roster.SetOf(1)}
	st.Dues.Add(sec, time.Second, 2)
	m.Answered(Answer{Peer: 1, SentAt: 10 * sec, Statement: st})
	if v := m.Evaluate(11*sec, 3); v.Counted.Has(1) || v.Contact.Has(1) || !v.Seen.Has(1) {
		t.Errorf("its bit 0 was taken for this node: %+v", v)
	}
	m.Answered(Answer{Peer: 1, SentAt: 11 * sec, Statement: st, Sees: true})
	if v := m.Evaluate(11*sec, 3); !v.Counted.Has(1) || !v.Contact.Has(1) {
		t.Errorf("its word that it sees this node does not count: %+v", v)
	}
	got, _ := m.Statement(1)
	if !got.View.IsEmpty() || !got.Lost.IsEmpty() || got.Dues != (Dues{}) || got.Seen != roster.FullSet(roster.MaxNodes) || got.Guarded != roster.FullSet(roster.MaxNodes) {
		t.Errorf("understood as %+v", got)
	}
	m.Answered(Answer{Peer: 1, SentAt: 12 * sec, Statement: st, Sees: true})
	if again, _ := m.Statement(1); again != got {
		t.Error("the same statement was understood again")
	}
}

// Guard: with two electorates the quorum lasts as long as both have one, and a node does not count in an electorate
// that does not list it.
func TestElectorates(t *testing.T) {
	m := testMerger(t, 5, 1, Any())
	for p := 1; p < 5; p++ {
		answer(m, 0, p, boottime.Instant(10+p)*sec)
	}
	for _, c := range []struct {
		name  string
		of    []Electorate
		until boottime.Instant
	}{
		{"the youngest two of three", []Electorate{{roster.SetOf(0, 1, 2), 2}}, 16 * sec},
		{"all of three", []Electorate{{roster.SetOf(0, 1, 2), 3}}, 15 * sec},
		{"both", []Electorate{{roster.SetOf(0, 3, 4), 2}, {roster.SetOf(0, 1, 2), 3}}, 15 * sec},
		{"both, the other way round", []Electorate{{roster.SetOf(0, 1, 2), 3}, {roster.SetOf(0, 3, 4), 2}}, 15 * sec},
		{"one that does not list this node", []Electorate{{roster.SetOf(3, 4), 2}}, 17 * sec},
		{"one that cannot be had", []Electorate{{roster.SetOf(0, 1, 2), 2}, {roster.SetOf(0, 7, 8), 2}}, 0},
	} {
		m.Recount(c.of)
		if v := m.Evaluate(14*sec, 99); v.QuorumUntil != c.until {
			t.Errorf("%s: until %v, want %v", c.name, v.QuorumUntil, c.until)
		}
	}
}

// Guard: a statement by another roster is interpreted again when that roster becomes this node's. The reduced form must
// not stay, and no statement may be interpreted by a roster that it does not use.
func TestRenumberReadsStatementsAgain(t *testing.T) {
	m, later := testMerger(t, 3, 1, Any()), testRoster(t, 4, 0)
	st := &Statement{RosterEpoch: later.Epoch, RosterDigest: later.Digest, Seen: roster.SetOf(0, 3), Guarded: roster.SetOf(3), Lost: roster.SetOf(2)}
	m.Answered(Answer{Peer: 1, SentAt: 10 * sec, Statement: st, Sees: true})
	answer(m, 0, 2, 10*sec)
	read := func(when string, p int, lost, guarded roster.Set) {
		t.Helper()
		if got, _ := m.Statement(p); got.Lost != lost || got.Guarded != guarded {
			t.Errorf("%s: lost %v, guarded %v", when, got.Lost, got.Guarded)
		}
	}
	read("by another roster", 1, roster.Set{}, roster.FullSet(roster.MaxNodes))
	read("by this roster", 2, roster.Set{}, roster.Set{})
	m.Renumber(later)
	read("its roster is this node's now", 1, roster.SetOf(2), roster.SetOf(3))
	read("its roster is left", 2, roster.Set{}, roster.FullSet(roster.MaxNodes))
}

// After a heal the first answer of a peer says that it does not see us yet. An accusation from before the
// heal does not void that answer.
func TestDeathLeavesAnAnswerThatDoesNotSeeUs(t *testing.T) {
	m := testMerger(t, 3, 1, Any())
	m.MemberChanged(0, 1, true, 9*sec)
	answer(m, 0, 1, 10*sec)
	blind := agrees(m)
	blind.Seen.Remove(0)
	m.Answered(Answer{Peer: 1, SentAt: 20 * sec, Statement: blind})
	m.MemberChanged(0, 1, false, 19*sec)
	if v := m.Evaluate(20*sec, 2); !v.Seen.Has(1) || v.Counted.Has(1) {
		t.Errorf("it answered after the accusation began: %+v", v)
	}
	m.MemberChanged(0, 1, false, 20*sec)
	if v := m.Evaluate(20*sec, 2); v.Seen.Has(1) {
		t.Errorf("it answered before: %+v", v)
	}
}

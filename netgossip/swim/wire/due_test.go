package wire

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: a wrong due is an error and never an earlier claim.
func TestDuesAreChecked(t *testing.T) {
	r := listOf(t, 8)
	one, two := setToWire(roster.SetOf(1)), setToWire(roster.SetOf(2))
	for name, list := range map[string][]*Due{
		"before the boot":            {{SinceMs: 0, HorizonMs: 7, Who: one}},
		"overflow":                   {{SinceMs: math.MaxUint64, HorizonMs: 7, Who: one}},
		"an overflow to a past time": {{SinceMs: math.MaxUint64/1_000_000 + 1000, HorizonMs: 7, Who: one}},
		"nobody":                     {{SinceMs: 5, HorizonMs: 7}},
		"a member beyond the roster": {{SinceMs: 5, HorizonMs: 7, Who: setToWire(roster.SetOf(8))}},
		"a member has two":           {{SinceMs: 5, HorizonMs: 7, Who: one}, {SinceMs: 6, HorizonMs: 7, Who: one}},
		"no horizon":                 {{SinceMs: 5, Who: one}},
		"too many":                   make([]*Due, netgossip.MaxDues+1),
	} {
		if got, err := statementFromWire(&Statement{RosterDigest: r.Digest, Dues: list}, r); err == nil {
			t.Errorf("%s: %+v", name, got.Dues)
		}
	}
	got, err := statementFromWire(&Statement{RosterDigest: r.Digest, Dues: []*Due{{SinceMs: 5, HorizonMs: 7, Who: one}, {SinceMs: 6, HorizonMs: 7, Who: two}}}, r)
	ms := boottime.Instant(time.Millisecond)
	if err != nil || got.Dues != (netgossip.Dues{{Since: 5 * ms, Horizon: 7 * time.Millisecond, Who: roster.SetOf(1)}, {Since: 6 * ms, Horizon: 7 * time.Millisecond, Who: roster.SetOf(2)}}) {
		t.Errorf("%+v, %v", got, err)
	}
	if w := duesToWire(&netgossip.Dues{{Since: 5*ms + 1, Horizon: 7*time.Millisecond + 1, Who: roster.SetOf(1)}}); w[0].GetSinceMs() != 6 || w[0].GetHorizonMs() != 8 {
		t.Errorf("a due was rounded down: %v", w)
	}
}

// Guard: a clock is read as it was or a little less, and not at all if it is that of another boot: a reading that is too
// great would make a claim too early.
func TestReadingOfAClock(t *testing.T) {
	const boot = math.MaxUint64 - 2
	at := 5*boottime.Instant(time.Second) + 1_999_999
	if got := ReadingOf(ClockOf(boot, at), boot); got > at || got <= at-boottime.Instant(time.Millisecond) {
		t.Errorf("%v became %v", at, got)
	}
	for name, got := range map[string]boottime.Instant{
		"no clock": ReadingOf(0, boot), "no boot": ReadingOf(77, 0), "another boot": ReadingOf(ClockOf(boot, at), 1<<50), "the boot after": ReadingOf(ClockOf(5, 0), 6),
	} {
		if got != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Guard: a packet that is still too large leaves out facts before it leaves out the last due.
func TestLargePacketLeavesOutFacts(t *testing.T) {
	r := listOf(t, roster.MaxNodes)
	s := &netgossip.Statement{Boot: 1, RosterEpoch: r.Epoch, RosterDigest: r.Digest, Version: strings.Repeat("v", MaxVersion)}
	for i := range roster.MaxNodes {
		for k, set := range []*roster.Set{&s.Seen, &s.View, &s.Guarded} {
			if (i*i+i/(k+2))%(k+3) == 0 {
				set.Add(i)
			}
		}
		if i%3 == 0 {
			s.Dues.Add(boottime.Instant(time.Hour), time.Minute, i)
		}
	}
	for i := range s.Facts {
		s.Facts[i] = netgossip.Fact{Kind: netgossip.FactOperator, Name: 1, Boot: 1, Teller: 1}
	}
	b, err := Append(nil, Message{Kind: Answer, ID: 1, Name: strings.Repeat("x", MaxName), Digest: 5, Clock: 1, Statement: s, Cookie: 1})
	if err != nil || len(b) > MaxSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	m, err := Decode(b, r, RosterTag(r))
	if err != nil || m.Statement.Dues != s.Dues || m.Statement.Facts == s.Facts {
		t.Errorf("dues %v, all facts %v, %v", m.Statement.Dues == s.Dues, m.Statement.Facts == s.Facts, err)
	}
}

// Guard: a packet that is too large has later dues, or none, and never an earlier one. It keeps what else is in it.
func TestLargeDuesAreShortened(t *testing.T) {
	r := listOf(t, roster.MaxNodes)
	s := &netgossip.Statement{Boot: 1, RosterEpoch: r.Epoch, RosterDigest: r.Digest}
	for i := range roster.MaxNodes {
		if i%3 > 0 {
			s.Seen.Add(i)
		}
		if i%7 > 2 {
			s.View.Add(i)
		}
		s.Dues.Add(boottime.Instant(1+(i*i+i/5)%netgossip.MaxDues)*boottime.Instant(time.Second), time.Minute, i)
	}
	s.Lost = s.View
	b, err := Append(nil, Message{Kind: Answer, ID: 1, Name: "n0000", Digest: 5, Clock: 1, Statement: s})
	if err != nil || len(b) > MaxSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	m, err := Decode(b, r, RosterTag(r))
	if err != nil {
		t.Fatal(err)
	}
	if m.Statement.Dues == s.Dues || m.Statement.Lost != s.Lost || m.Statement.Dues.Who() != s.Dues.Who() {
		t.Errorf("all dues travel: %v, lost %v", m.Statement.Dues == s.Dues, m.Statement.Lost == s.Lost)
	}
	for i := range roster.MaxNodes {
		was := s.Dues.Of(i)
		if now := m.Statement.Dues.Of(i); now != nil && (now.Since < was.Since || now.Horizon < was.Horizon) {
			t.Fatalf("the due of %d was %v, and is %v", i, was, now)
		}
	}
}

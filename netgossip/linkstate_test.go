package netgossip

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: a link that was not probed because the networks take turns is shown as reachable for another D_max. This
// applies only in groups so large that networks take turns, while another network reaches the peer, and if the peer was
// not missed on this link. Views do not use it.
func TestLinkThatHadNoTurn(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		policy  Policy
		against func(m *Merger)
		shown   bool
	}{
		"large group":            {sharedFrom + 1, Any(), func(*Merger) {}, true},
		"small group":            {sharedFrom, Any(), func(*Merger) {}, false},
		"on all networks":        {sharedFrom + 1, All(), func(*Merger) {}, false},
		"it was missed":          {sharedFrom + 1, Any(), func(m *Merger) { m.Missed(1, 1, 10*sec+1, false) }, false},
		"dead to memberlist":     {sharedFrom + 1, Any(), func(m *Merger) { m.MemberChanged(1, 1, false, 11*sec) }, false},
		"the network is down":    {sharedFrom + 1, Any(), func(m *Merger) { m.LinkChanged(1, false) }, false},
		"nor does another reach": {sharedFrom + 1, Any(), func(m *Merger) { m.Missed(0, 1, 13*sec, true) }, false},
	} {
		m := testMerger(t, c.n, 2, c.policy)
		for k := range 2 {
			m.MemberChanged(k, 1, true, 9*sec)
			answer(m, k, 1, 10*sec)
		}
		answer(m, 0, 1, 12*sec+sec/2)
		c.against(m)
		if _, anchor, shown := m.LinkState(1, 1, 15*sec); shown != c.shown || anchor > 10*sec {
			t.Errorf("%s: shown as reachable %v by evidence of %d s, want %v", name, shown, anchor/sec, c.shown)
		}
		if _, _, shown := m.LinkState(1, 1, 18*sec); shown {
			t.Errorf("%s: shown as reachable twice D_max after the evidence", name)
		}
		m.LinkChanged(0, false)
		if v := m.Evaluate(15*sec, 1); v.Seen.Has(1) {
			t.Errorf("%s: seen by evidence of %d s", name, 10)
		}
	}
}

// Guard: a death voids a vouch for the peer, whatever its date; an answer to this node from after the start of the
// accusation stays valid.
func TestDeathVoidsWhatWasVouchedFor(t *testing.T) {
	for name, c := range map[string]struct {
		answered boottime.Instant // start of the answered probe
		seen     bool
	}{"vouched for only": {0, false}, "answered before": {17 * sec, false}, "answered since": {18*sec + sec/2, true}} {
		m := vouched(t, 20, 1, Any())
		m.Vouched(0, 19*sec)
		if c.answered > 0 {
			answer(m, 0, 1, c.answered)
		}
		m.Missed(0, 1, 19*sec, false)
		m.MemberChanged(0, 1, false, 18*sec) // known at 20 s
		if v := m.Evaluate(20*sec, 11); v.Seen.Has(1) != c.seen || v.Seen.Len() < 18 {
			t.Errorf("%s: seen %v", name, !c.seen)
		}
	}
}

// Guard: LinkState returns when a peer last answered, even if that evidence is void. Otherwise operators would read
// "never" for a peer that answered seconds ago.
func TestLinkStateRemembersTheLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		become func(m *Merger)
		want   boottime.Instant
	}{
		"nothing":                 {func(*Merger) {}, 10 * sec},
		"dead to memberlist":      {func(m *Merger) { m.MemberChanged(0, 1, false, 11*sec) }, 10 * sec},
		"dead and alive again":    {func(m *Merger) { m.MemberChanged(0, 1, false, 11*sec); m.MemberChanged(0, 1, true, 12*sec) }, 10 * sec},
		"the network was down":    {func(m *Merger) { m.LinkChanged(0, false); m.LinkChanged(0, true) }, 10 * sec},
		"an older answer is late": {func(m *Merger) { m.MemberChanged(0, 1, false, 11*sec); answer(m, 0, 1, 9*sec) }, 10 * sec},
		"the list has changed": {func(m *Merger) {
			m.MemberChanged(0, 1, false, 11*sec)
			m.Renumber(testRoster(t, 4, 0))
		}, 10 * sec},
	} {
		m := testMerger(t, 3, 1, Any())
		m.MemberChanged(0, 1, true, 9*sec)
		answer(m, 0, 1, 10*sec)
		c.become(m)
		if _, anchor, reachable := m.LinkState(0, 1, 15*sec); anchor != c.want || reachable {
			t.Errorf("%s: the last answer is shown as of %d s, want %d; reachable %v", name, anchor/sec, c.want/sec, reachable)
		}
		if v := m.Evaluate(12*sec, 2); name != "nothing" && v.Seen.Has(1) {
			t.Errorf("%s: seen by an answer that is void", name)
		}
	}
	if _, anchor, _ := testMerger(t, 3, 1, Any()).LinkState(0, 1, 15*sec); anchor != 0 {
		t.Errorf("who never answered is shown as of %d s", anchor/sec)
	}
}

// A vouch from before the start of the accusation was true, and is shown; a later vouch for the peer was not.
func TestLinkStateRemembersAVouchUntilTheAccusation(t *testing.T) {
	m := vouched(t, 20, 1, Any())
	m.Vouched(0, 19*sec)
	m.MemberChanged(0, 1, false, 18*sec) // known at 20 s
	if _, anchor, reachable := m.LinkState(0, 1, 20*sec); anchor != 18*sec || reachable {
		t.Errorf("proven last at %d s, want 18; reachable %v", anchor/sec, reachable)
	}
	m.LinkChanged(0, false)
	m.LinkChanged(0, true)
	if _, anchor, reachable := m.LinkState(0, 2, 20*sec); anchor != 19*sec || reachable {
		t.Errorf("after the network was down: proven last at %d s, want 19; reachable %v", anchor/sec, reachable)
	}
}

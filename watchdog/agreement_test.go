package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

var (
	ourTerms   = netgossip.Terms{By: netgossip.BreaksByAPI}
	theirTerms = netgossip.Terms{By: netgossip.BreaksByLUN, Log: 7}
)

// agreeing returns a core of a group of n that breaks ties by reachability of the API server, and reaches it.
func agreeing(t *testing.T, n int) *Core {
	c := testCore(t, n, func(c *Config) { c.API, c.APIMaxAge = true, time.Hour })
	c.SetTerms(1, ourTerms, roster.Set{})
	c.APIChecked(true, 5*sec)
	return c
}

// word lets a peer answer with its terms.
func word(c *Core, at boottime.Instant, peer int, terms netgossip.Terms, agreed bool) {
	c.Merger().Answered(netgossip.Answer{Peer: peer, SentAt: at, Statement: &netgossip.Statement{
		RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Seen: roster.FullSet(c.cfg.Roster.Size()), Terms: terms, Agreed: agreed,
	}})
}

// Guard: T1. A node agrees only after confirmations from a majority. Confirmations to another process, or of other
// terms, do not count.
func TestTermsNeedTheWordOfAMajority(t *testing.T) {
	unsettled := netgossip.Terms{By: netgossip.BreaksByAPI | netgossip.Unsettled}
	for _, tc := range []struct {
		name   string
		words  map[int]netgossip.Terms // at 10 s
		agreed bool
		others roster.Set
	}{
		{"nobody", nil, false, roster.Set{}},
		{"half", map[int]netgossip.Terms{1: ourTerms}, false, roster.Set{}},
		{"a majority", map[int]netgossip.Terms{1: ourTerms, 2: ourTerms}, true, roster.Set{}},
		{"half, and one that goes by others", map[int]netgossip.Terms{1: ourTerms, 2: theirTerms}, false, roster.SetOf(2)},
		{"half, and one that is not settled", map[int]netgossip.Terms{1: ourTerms, 2: unsettled}, false, roster.Set{}},
		{"half, and one that states none", map[int]netgossip.Terms{1: ourTerms, 2: {}}, false, roster.Set{}},
	} {
		c := agreeing(t, 4)
		for p, terms := range tc.words {
			word(c, 10*sec, p, terms, false)
		}
		fx := c.Step(10 * sec)
		if _, others := c.TermsHeard(); c.Agreed() != tc.agreed || others != tc.others || fx.Statement.Agreed != tc.agreed || fx.Statement.Terms != ourTerms {
			t.Errorf("%s: agreed %v, others %v, states %v", tc.name, c.Agreed(), c.cfg.Roster.Names(others), fx.Statement.Agreed)
		}
	}
}

// Guard: T3. Other terms begin without any confirmation. A confirmation from before their adoption does not count, even
// if it is evaluated later. Confirmations in the file count.
func TestOtherTermsBeginWithoutWords(t *testing.T) {
	c := agreeing(t, 4)
	word(c, 10*sec, 1, ourTerms, false)
	word(c, 10*sec, 2, ourTerms, false)
	c.Step(10 * sec)
	other := netgossip.Terms{By: netgossip.BreaksByAPI, Log: 3}
	c.SetTerms(11*sec, other, roster.Set{})
	c.Step(11 * sec)
	if c.Agreed() {
		t.Error("the words for the former terms count")
	}
	word(c, 11*sec, 1, other, false)
	word(c, 11*sec, 2, other, false)
	if c.Step(11 * sec); c.Agreed() {
		t.Error("answers to questions from before the terms were taken up count")
	}
	word(c, 12*sec, 1, other, false)
	word(c, 12*sec, 2, other, false)
	if c.Step(12 * sec); !c.Agreed() {
		t.Error("a majority does not make a node agree")
	}
	c.SetTerms(13*sec, netgossip.Terms{By: netgossip.BreaksByAPI | netgossip.Unsettled, Log: 3}, roster.SetOf(1, 2, 3))
	if c.Agreed() {
		t.Error("a node agrees to what it does not go by yet")
	}
	c.SetTerms(13*sec, other, roster.SetOf(1, 2))
	if !c.Agreed() {
		t.Error("what was on file does not count")
	}
}

// A node whose terms are not settled yet, as at each start, is not at odds with any other node, no matter what terms
// that node has. Once its terms are settled, it may be.
func TestUnsettledTermsAreAtOddsWithNobody(t *testing.T) {
	c := agreeing(t, 4)
	c.SetTerms(2*sec, netgossip.Terms{By: ourTerms.By | netgossip.Unsettled}, roster.Set{})
	word(c, 10*sec, 1, ourTerms, true)
	word(c, 10*sec, 2, theirTerms, true)
	c.Step(10 * sec)
	if same, others := c.TermsHeard(); !same.IsEmpty() || !others.IsEmpty() {
		t.Errorf("not settled: the same %v, others %v", c.cfg.Roster.Names(same), c.cfg.Roster.Names(others))
	}
	c.SetTerms(11*sec, ourTerms, roster.Set{})
	word(c, 12*sec, 1, ourTerms, true)
	word(c, 12*sec, 2, theirTerms, true)
	c.Step(12 * sec)
	if same, others := c.TermsHeard(); same != roster.SetOf(1) || others != roster.SetOf(2) {
		t.Errorf("settled: the same %v, others %v", c.cfg.Roster.Names(same), c.cfg.Roster.Names(others))
	}
}

// Guard: T2. A tie is only decided for a half whose members all agree. Other halves hold until the budget is used up.
func TestHalfAtOdds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		terms  netgossip.Terms
		agreed bool
		own    roster.Set // members that have confirmed this node's terms
		reason Reason
	}{
		{"of one mind", ourTerms, true, roster.SetOf(1, 2), ReasonAPIReachable},
		{"the other member states none", netgossip.Terms{}, true, roster.SetOf(1, 2), ReasonSplitAtOdds},
		{"the other member has not the word of a majority", ourTerms, false, roster.SetOf(1, 2), ReasonSplitAtOdds},
		{"the other member goes by other terms", theirTerms, true, roster.SetOf(1, 2), ReasonSplitAtOdds},
		{"this node has not the word of a majority", ourTerms, true, roster.Set{}, ReasonSplitAtOdds},
	} {
		c := agreeing(t, 4)
		hear(c, 10*sec, 1, 2, 3) // without terms
		c.Step(10 * sec)
		c.SetTerms(14*sec, ourTerms, tc.own)
		word(c, 15*sec, 1, tc.terms, tc.agreed)
		d := c.Step(15 * sec).Decision
		if d.Reason != tc.reason || tc.reason == ReasonSplitAtOdds && (d.Action != Hold || d.Until != 24*sec) {
			t.Errorf("%s: %+v", tc.name, d)
		}
		word(c, 24*sec, 1, tc.terms, tc.agreed)
		if d := c.Step(24 * sec).Decision; tc.reason == ReasonSplitAtOdds && (d.Action != Starve || d.Reason != ReasonSplitAtOdds) {
			t.Errorf("%s, the budget is used up: %+v", tc.name, d)
		}
	}
}

// Guard: T4. If a LUN breaks ties, a confirmation counts only if its sender's slot is seen on that LUN.
func TestWordWithoutASlotIsNone(t *testing.T) {
	c := testCore(t, 2, func(c *Config) { c.LUN = true })
	c.SetTerms(1, theirTerms, roster.Set{})
	word(c, 10*sec, 1, theirTerms, true)
	if c.Step(10 * sec); c.Agreed() {
		t.Error("a word counts although no LUN is open")
	}
}

// A core without terms needs no agreement and states no terms.
func TestNoTermsNoAgreement(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.API, c.APIMaxAge = true, time.Hour })
	c.APIChecked(true, 5*sec)
	hear(c, 10*sec, 1, 2, 3)
	c.Step(10 * sec)
	hear(c, 15*sec, 1)
	fx := c.Step(15 * sec)
	if fx.Decision.Reason != ReasonAPIReachable || fx.Statement.Terms.Stated() || fx.Statement.Agreed {
		t.Errorf("%+v, states %+v", fx.Decision, fx.Statement)
	}
}

// Confirmations follow the nodes' names when the list of members changes.
func TestWordsFollowTheList(t *testing.T) {
	c := agreeing(t, 4)
	c.SetTerms(1, ourTerms, roster.SetOf(1, 3))
	members := append([]roster.Member{{Name: "a"}}, c.cfg.Roster.Members[:3]...)
	to, err := roster.New(2, members, "n0000")
	if err != nil {
		t.Fatal(err)
	}
	c.Renumber(to)
	if same, _ := c.TermsHeard(); same != roster.SetOf(2) {
		t.Errorf("the word of %v", to.Names(same))
	}
}

// A new group reads the LUN often until it agrees, and rarely after that.
func TestSlotsAreReadUntilAllAgree(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.LUN = true })
	c.SetTerms(1, theirTerms, roster.Set{})
	for p := 1; p < 4; p++ {
		word(c, 10*sec, p, theirTerms, false)
	}
	if c.Step(10 * sec); !c.termsWait() {
		t.Error("the slots are not looked at for the words that are missing")
	}
	c.SetTerms(11*sec, theirTerms, roster.SetOf(1, 2, 3))
	if c.Step(11 * sec); c.termsWait() {
		t.Error("the slots are looked at although all words are there")
	}
	c.SetTerms(12*sec, theirTerms, roster.SetOf(1, 2))
	word(c, 13*sec, 3, ourTerms, false)
	if c.Step(13 * sec); c.termsWait() {
		t.Error("the slots are looked at for the word of one that goes by other terms")
	}
}

package lunhold

// Rules are those of docs/adr/0020 that a search may leave out. The zero value has all of them.
type Rules struct {
	NoEcho       bool // E: a record is as new as the moment at which it landed
	AckTime      bool // E1: a ping is dated when its write is acknowledged
	SlowMoves    bool // E2: a slow read moves echoes
	GreaterEqual bool // E3: an echo of another process counts as one of the newest ping

	NoHold     bool // H1: today's rules
	CoverHalf  bool // H1: half of the list is enough
	NewestOnly bool // H1: the newest date of S is the date of all of it
	NoH2       bool // those of S need not miss who is outside of it
	NoH3       bool // a grant to others, or a living majority on the LUN, ends no hold
	NoBridge   bool // H4

	NetInS     bool // the draft's: an answer by network counts in S, too
	OldestCopy bool // of the copies on several devices the oldest counts

	JointHold bool // the draft's: x may hold while it uses several lists, and S any of them
	BaseOnly  bool // S is most of the first list alone
	AnyList   bool // S counts records whatever list they were made by
	HoldOver  bool // a deadline by H1 survives a change of the lists
	NoDoubt   bool // claims survive it

	Network   bool // N: a dated record counts as an answer does, for D_lun; with NoHold
	Unsighted bool // N: claims begin again with an answer only
	OneWay    bool // N: also if it does not say that its writer sees this node

	StrikeSilent bool // a node strikes that has starved for a tick
	StrikeAtOnce bool // it strikes as soon as a majority shows that it lives without it
	StrikeGrant  bool // a grant to others is enough
	StrikeTold   bool // it does not matter when the records were composed, if it reads them for D_max
	StrikeSoon   bool // they need not be dated D_max after the first, but a tick less

	NoM1        bool // claims also cover time in which the claimant did not live
	MAsProposed bool // M1: claims begin again on becoming alive, once; and who does not live claims, too
	NoM2        bool // a claim outlives a gap
	NoM3        bool // a change is written with the next heartbeat

	SeenShort bool // H2: the seen of an echo block goes back D_max, and not two of it
	SeenLong  bool // H2: it goes back D_lun + D_max
	Prompt    bool // H4: an I/O that is not over in a tick ends the bridge
}

// The times, in ticks. They keep the order that docs/lease.md asks for.
const (
	maxAge    = 2 // D_max
	lifetime  = 3 // G
	ioTimeout = 2
)

// Times are those that a test may change.
type Times struct {
	Tie   uint8 // A
	Dated uint8 // D_lun
	Beat  uint8 // heartbeat
	Claim uint8 // how long unseen until a claim
	Runs  uint8 // F + W + R + margin: from the last permission to the reset
	Fresh uint8 // how long a claim that was made still counts; 0: no longer than it is made
	Late  uint8 // an I/O that hangs ends by itself after this many ticks; 0: it may hang for ever
}

// times are those of the rules, M4, with an A and a watchdog as given.
func times(tie, runs uint8) Times {
	lun := maxAge + tie
	return Times{Tie: tie, Dated: lun, Beat: 1, Claim: max(lun, lifetime) + runs + 1, Runs: runs}
}

// Usual are the shortest times that keep the order of the rules.
var Usual = times(2, 2)

// overlap is how long a node may live with one outside of its set that feeds: D_lun, D_max (D_lun where it holds beside N), G if it lives by a grant that
// nobody has published yet, and a tick, which is what a model of ticks cannot tell.
func (m *Model) overlap(granted bool) uint8 {
	evidence := uint8(maxAge)
	if m.holdsToo() {
		evidence = m.Dated
	}
	if granted {
		return m.Dated + evidence + lifetime + 1
	}
	return m.Dated + evidence + 1
}

// most reports whether a set has most of each list that a node uses, or as much as a hold takes for most.
func (m *Model) most(in Set, by lists) bool {
	for k, l := range m.Lists {
		need := l.Len()/2 + 1
		if m.CoverHalf {
			need = l.Len() / 2
		}
		if by.holds(k) && (in&l).Len() < need {
			return false
		}
		if by.holds(k) && m.BaseOnly {
			break
		}
	}
	return true
}

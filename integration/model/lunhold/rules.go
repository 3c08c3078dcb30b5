package lunhold

// Rules names the rules of docs/adr/0020 that a search can leave out. The zero value leaves out none.
type Rules struct {
	NoEcho       bool // E: a record is dated by the moment at which it landed
	AckTime      bool // E1: a ping is dated when its write is acknowledged
	SlowMoves    bool // E2: a slow read moves echoes
	GreaterEqual bool // E3: an echo of another process counts as an echo of the newest ping

	NoHold     bool // H1: the rules from before holds existed
	CoverHalf  bool // H1: half of the list is enough
	NewestOnly bool // H1: the newest date of S counts for all nodes of S
	NoH2       bool // the nodes of S need not miss the nodes outside
	NoH3       bool // neither a grant to others nor a living majority on the LUN ends a hold
	NoBridge   bool // H4

	NetInS     bool // as in the draft: an answer over the network also counts in S
	OldestCopy bool // of the copies on several devices, the oldest counts

	JointHold bool // as in the draft: x may hold while it uses several lists, and S may use any of them
	BaseOnly  bool // S must be most only of the first list
	AnyList   bool // S counts records whatever list their writers used
	HoldOver  bool // a deadline by H1 survives a change of the lists
	NoDoubt   bool // claims survive a change of the lists

	Network   bool // N: a dated record counts like an answer, for D_lun; used with NoHold
	Unsighted bool // N: only an answer makes claims begin again
	OneWay    bool // N: a record counts even if it does not say that its writer sees this node

	StrikeSilent bool // a node strikes when it has starved for a tick
	StrikeAtOnce bool // a node strikes as soon as a majority shows that it lives without the node
	StrikeGrant  bool // a grant to others is enough
	StrikeTold   bool // the dates of the records do not matter, if the node reads them for D_max
	StrikeSoon   bool // the records need not be dated D_max after the first one, but only a tick less

	NoM1        bool // claims also cover time in which the claimant did not live
	MAsProposed bool // M1: claims begin again once, when a node begins to live; others claim, too
	NoM2        bool // a claim survives a gap
	NoM3        bool // a change is written with the next heartbeat

	SeenShort bool // H2 uses the nodes seen within D_max, and not within twice D_max
	SeenLong  bool // H2 uses those within D_lun + D_max
	Prompt    bool // H4: an I/O that takes longer than a tick ends the bridge
}

// These are times in ticks. They keep the order that docs/lease.md requires.
const (
	maxAge    = 2 // D_max
	lifetime  = 3 // G
	ioTimeout = 2
)

// Times contains the times that a test may change.
type Times struct {
	Tie   uint8 // A
	Dated uint8 // D_lun
	Beat  uint8 // heartbeat
	Claim uint8 // time without a sighting until a claim
	Runs  uint8 // F + W + R + margin: from the last permission to the reset
	Fresh uint8 // time for which a claim still counts after it was made; 0: only while it is made
	Late  uint8 // an I/O that hangs ends by itself after this many ticks; 0: it may hang forever
}

// times returns the times of the rules, with M4 and with the given A and watchdog.
func times(tie, runs uint8) Times {
	lun := maxAge + tie
	return Times{Tie: tie, Dated: lun, Beat: 1, Claim: max(lun, lifetime) + runs + 1, Runs: runs}
}

// Usual contains the shortest times that keep the order of the rules.
var Usual = times(2, 2)

// overlap returns the longest time for which a node may live while a node outside of its set feeds: D_lun, D_max (D_lun
// if nodes hold beside N), G if it lives by a grant that nobody has published yet, and one tick, which is the
// resolution of the model.
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

// most reports whether a set contains most of each list that a node uses, or what a hold accepts as most.
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

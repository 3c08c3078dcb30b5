package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// choirRig is a group of cores in lun.mode "or", on one LUN in memory on which every I/O completes at once.
type choirRig struct {
	t     *testing.T
	sb    *diskquorum.Superblock
	image []byte
	nodes []*slotRig
}

const testVoices = 14 * time.Second

var choirTiming = diskquorum.Timing{
	Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second, Grant: 5 * time.Second, Arbitrate: 10 * time.Second,
	Expire: 11 * time.Second, PreferenceDelay: 2 * time.Second, Stagger: time.Second, Takeover: 15 * time.Second,
}

func withVoices(t *testing.T, n int, change func(node int, cfg *Config)) *choirRig {
	t.Helper()
	sb := &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "c", NodeGroup: "g", Slots: n}
	sb.ID[0] = 1
	r := &choirRig{t: t, sb: sb, image: make([]byte, diskquorum.DeviceSize(n))}
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(r.image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], sb, which); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		c := testCore(t, n, func(cfg *Config) {
			own, err := roster.New(cfg.Roster.Epoch, cfg.Roster.Members, cfg.Roster.Name(i))
			if err != nil {
				t.Fatal(err)
			}
			cfg.Roster, cfg.LUN, cfg.LUNMode, cfg.Boot = own, true, LUNOr, uint64(100+i)
			cfg.Budget = Budget{MaxAge: 4 * time.Second, Voices: testVoices, Arbitrate: 10 * time.Second}
			if change != nil {
				change(i, cfg)
			}
		})
		c.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
			Devices: []*diskquorum.Superblock{sb}, Roster: c.cfg.Roster, Evidence: c.Merger(), Boot: c.cfg.Boot, Process: uint64(i + 1),
			Timing: choirTiming,
		}))
		r.nodes = append(r.nodes, &slotRig{Core: c, t: t, sb: sb, image: r.image})
	}
	return r
}

// run steps all nodes, except those that are down, four times a second; pairs reports whether two nodes reach each
// other.
func (r *choirRig) run(from, to boottime.Instant, pairs func(a, b int) bool, down ...int) {
	isDown := roster.SetOf(down...)
	for at := from; at <= to; at += sec / 4 {
		for i, n := range r.nodes {
			for j, p := range r.nodes {
				if st := p.fx.Statement; i != j && st != nil && !isDown.Has(i) && !isDown.Has(j) && pairs(i, j) {
					n.Merger().Answered(netgossip.Answer{Peer: j, SentAt: at, Statement: st})
				}
			}
			if !isDown.Has(i) {
				n.step(at)
			}
		}
	}
}

func allPairs(int, int) bool { return true }
func noPairs(int, int) bool  { return false }

// Guards: N1, N5. In an outage of all networks, a node that has the LUN has quorum, with its own reason, and calls the
// others LEFT.
func TestVoicesMakeAQuorum(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	if d := r.nodes[0].Decision(); d.Reason != ReasonNetworkQuorum {
		t.Fatalf("at first %+v", d)
	}
	r.run(40*sec, 60*sec, noPairs)
	for i, n := range r.nodes {
		if d := n.Decision(); d.Action != Feed || d.Reason != ReasonLUNQuorum || !d.Quorum || n.Available() != roster.SetOf(i) || n.ByLUN().Len() != 2 {
			t.Errorf("n%d: %+v, available %v, by the LUN %v", i, d, n.Available(), n.ByLUN())
		}
	}
	r.run(60*sec, 70*sec, allPairs)
	if d := r.nodes[0].Decision(); d.Reason != ReasonNetworkQuorum || r.nodes[0].Available().Len() != 3 {
		t.Errorf("in the end %+v", d)
	}
}

// Guard: N4. The last read blocks on the LUN count for D_lun, and the horizon allows for this and for a tie after it.
func TestVoicesEnd(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	r.run(40*sec, 60*sec, noPairs)
	n := r.nodes[0]
	until := n.Decision().Until
	if until <= 60*sec || until > boottime.Instant(60*time.Second+testVoices) {
		t.Fatalf("at 60 s it lives until %v", time.Duration(until))
	}
	if d := n.Step(until).Decision; d.Reason == ReasonLUNQuorum {
		t.Errorf("nothing is read any more, and it lives by %+v", d)
	}
	b := Budget{MaxAge: 4 * time.Second, Sampling: 2 * time.Second, Voices: 16 * time.Second, Arbitrate: 10 * time.Second, Grant: 5 * time.Second}
	if b.Majority() != 16*time.Second || b.Tie() != 26*time.Second {
		t.Errorf("horizons %v and %v", b.Majority(), b.Tie())
	}
	b.Voices = 0
	if b.Majority() != 6*time.Second || b.Tie() != 16*time.Second {
		t.Errorf("horizons %v and %v without", b.Majority(), b.Tie())
	}
}

// Guard: N4. If the budget does not allow for echo blocks, they do not count.
func TestVoicesNeedABudget(t *testing.T) {
	r := withVoices(t, 3, func(_ int, cfg *Config) { cfg.Budget.Voices = 0 })
	r.run(10*sec, 40*sec, allPairs)
	r.run(40*sec, 60*sec, noPairs)
	if d := r.nodes[0].Decision(); d.Quorum {
		t.Errorf("%+v", d)
	}
}

// Guard: N2, M5. A node in another mode does not state whom it sees, and is not counted.
func TestVoicesOfAnotherMode(t *testing.T) {
	r := withVoices(t, 3, func(i int, cfg *Config) {
		if i > 0 {
			cfg.LUNMode, cfg.Hold = LUNTieBreaker, true
		}
	})
	r.run(10*sec, 40*sec, allPairs)
	if says := r.nodes[1].sees(); !says.IsEmpty() || r.nodes[0].sees() != roster.SetOf(1, 2) {
		t.Errorf("n2 says on the LUN that it sees %v, n1 %v", says, r.nodes[0].sees())
	}
	r.run(40*sec, 60*sec, noPairs)
	if d := r.nodes[0].Decision(); d.Quorum || r.nodes[0].voices.heard != roster.SetOf(1, 2) {
		t.Errorf("%+v, heard %v", d, r.nodes[0].voices.heard)
	}
}

// Guard: N3. A node that is heard on the LUN is sighted: its death is not claimed, and a claim begins when it falls
// silent.
func TestVoiceIsASighting(t *testing.T) {
	r := withVoices(t, 5, func(_ int, cfg *Config) { cfg.OnLoss = LossFence })
	for _, n := range r.nodes {
		n.SetGuard(true, 10*time.Second)
	}
	r.run(10*sec, 40*sec, allPairs)
	alone := func(a, b int) bool { return a != 4 && b != 4 }
	r.run(40*sec, 240*sec, alone)
	if c := r.nodes[0]; c.fx.Statement.Lost.Has(4) || c.proof.Fenced().Has(4) || c.view.Seen.Has(4) {
		t.Fatal("n4 writes to the LUN, and is claimed dead")
	}
	if at := r.nodes[0].proof.peers[4].unseen; at < 239*sec {
		t.Errorf("n4 was sighted last at %v", time.Duration(at))
	}
	r.run(240*sec, 270*sec, alone, 4)
	if c := r.nodes[0]; c.fx.Statement.Lost.Has(4) || c.proof.Fenced().Has(4) {
		t.Error("n4 has been silent for 30 s, and is claimed dead")
	}
	r.run(270*sec, 330*sec, alone, 4)
	if !r.nodes[0].proof.Fenced().Has(4) {
		t.Error("n4 has been silent for 90 s, and is not fenced")
	}
}

// Blocks of a boot do not count after another boot has shown that it ended: otherwise the new boot would be counted
// because of blocks that it did not write.
func TestVoiceOfABootThatHasEnded(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	c := r.nodes[0]
	c.proof.peers[1].death = Death{Proof: ProofBoot, Boot: 101}
	c.view = c.merger.Evaluate(40*sec, c.rosters.quorum)
	if c.followVoices(40 * sec); c.voices.heard != roster.SetOf(2) {
		t.Errorf("heard %v", c.voices.heard)
	}
}

// Guard: N6. While the list of members changes, only the networks count.
func TestVoicesWhileListsChange(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	c := r.nodes[0]
	c.view = c.merger.Evaluate(50*sec, c.rosters.quorum)
	if c.followVoices(50 * sec); c.view.Counted.Len() != 3 {
		t.Fatalf("counted %v", c.view.Counted)
	}
	lists := []*roster.Roster{c.cfg.Roster, rosterOf(t, c.cfg.Roster.Epoch+1, c.cfg.Roster.Name(0), c.cfg.Roster.Name(1))}
	s, err := roster.NewSuccession(&roster.Saved{Chain: lists}, nil, func(r *roster.Roster) int { return r.Quorum(0) })
	if err != nil {
		t.Fatal(err)
	}
	c.cfg.Succession = s
	c.view = c.merger.Evaluate(50*sec, c.rosters.quorum)
	if c.followVoices(50 * sec); c.view.Counted != roster.SetOf(0) || c.voices.heard != roster.SetOf(1, 2) {
		t.Errorf("counted %v, heard %v", c.view.Counted, c.voices.heard)
	}
}

// Guard: H2. If a node states on the LUN that it sees a member, by network or LUN, that member may count the node for
// D_lun.
func TestLatelySeenOnTheLUN(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	r.run(40*sec, 57*sec, noPairs, 1, 2)
	c := r.nodes[0]
	if seen := c.sees(); !seen.IsEmpty() {
		t.Fatalf("it sees %v", seen)
	}
	if got := c.lately(57 * sec); got != roster.SetOf(1, 2) {
		t.Errorf("lately %v", got)
	}
}

// Guard: M1. Even without holds, a claim covers only time in which its node lived, because others may live by the LUN.
func TestClaimsOfWhoCountsByTheLUN(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, func(cfg *Config) { cfg.LUN, cfg.LUNMode = true, LUNOr })
	if got := claims(c, func(d time.Duration) []int {
		if d > 20*time.Second && d < 35*time.Second {
			return []int{1}
		}
		return []int{1, 2, 3}
	}); got < 34*time.Second+testClaim {
		t.Errorf("the majority was lost until 35 s, and the claim is made at %v", got)
	}
}

// condemnedAt condemns the node's boot; the timeout has been read back.
func (r *slotRig) condemnedAt(at boottime.Instant) {
	s := &r.Core.sentence
	s.condemned, s.at, s.answered, s.timeout = true, at, true, time.Second
	r.lun.arbiter.Condemn()
}

// boot starts a node's next agent, in the same boot or another one, which only knows the LUN.
func (r *choirRig) boot(i int, boot uint64, change func(node int, cfg *Config)) *slotRig {
	next := withVoices(r.t, len(r.nodes), func(node int, cfg *Config) {
		if cfg.Boot = boot; change != nil {
			change(node, cfg)
		}
	}).nodes[i]
	next.image, next.sb = r.image, r.sb
	next.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
		Devices: []*diskquorum.Superblock{r.sb}, Roster: next.cfg.Roster, Evidence: next.Merger(), Boot: boot, Process: 77,
		Timing: choirTiming,
	}))
	r.nodes[i] = next
	return next
}

// Guard: P2'. A sentence on the LUN was read back: the next agent of that boot announces it again.
func TestSentenceIsToldAgain(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	r.nodes[2].condemnedAt(40 * sec)
	r.run(40*sec, 42*sec, noPairs)
	n := r.boot(2, 102, nil)
	n.Inherit(42*sec, time.Second)
	r.run(42*sec, 50*sec, noPairs)
	if st := n.fx.Statement; st == nil || st.Sentence != time.Second || n.Decision().Reason != ReasonCondemned {
		t.Errorf("%+v, stated %+v", n.Decision(), st)
	}
}

// Guards: N2, N3, P4. A boot other than the one that was met is heard only on the LUN, and is counted: it runs,
// whatever is proven about the boot before it, and its guard is not known.
func TestBootHeardOnTheLUNAlone(t *testing.T) {
	fences := func(_ int, cfg *Config) { cfg.OnLoss, cfg.Hold = LossFence, true }
	cut := func(a, b int) bool { return a != 2 && b != 2 }
	for _, condemned := range []bool{true, false} {
		r := withVoices(t, 3, fences)
		for _, n := range r.nodes {
			n.SetGuard(true, 10*time.Second)
		}
		r.run(10*sec, 40*sec, allPairs)
		if condemned {
			r.nodes[2].condemnedAt(40 * sec)
		}
		r.run(40*sec, 43*sec, cut)
		r.run(43*sec, 60*sec, cut, 2)
		if c := r.nodes[0]; condemned && !c.fx.Fenced.Has(2) {
			t.Fatalf("the boot before is not FENCED: %+v", c.proof.Of(2))
		}
		next := r.boot(2, 202, fences)
		r.run(60*sec, 100*sec, cut)
		if c := r.nodes[0]; c.fx.Fenced.Has(2) || !c.View().Counted.Has(2) || c.SentenceOf(100*sec, 2) != nil || next.Decision().Reason != ReasonLUNQuorum {
			t.Errorf("condemned %v: counted %v, FENCED %v, sentence %v, the next boot is to %+v", condemned, c.View().Counted, c.fx.Fenced, c.SentenceOf(100*sec, 2), next.Decision())
		}
		for at := 100 * sec; at < 300*sec; at += 10 * sec { // it also loses the LUN; it is not armed, and runs on
			if r.run(at, at+10*sec-1, cut, 2); r.nodes[0].fx.Fenced.Has(2) {
				t.Fatalf("condemned %v: FENCED after %v, by %+v", condemned, time.Duration(at), r.nodes[0].proof.Of(2))
			}
		}
	}
}

// Guards: P2, P5. A condemned node counts nobody by the LUN and is counted by nobody. Its last blocks do not contradict
// its death, although they are fresh enough to count.
func TestVoiceOfACondemnedNode(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	r.nodes[2].condemnedAt(40 * sec)
	r.run(40*sec, 41*sec, func(a, b int) bool { return b == 1 && a == 2 }) // it still hears one of them
	if n := r.nodes[2]; n.sees().Len() != 0 {
		t.Errorf("condemned, it says on the LUN that it sees %v", n.sees())
	}
	r.run(41*sec, 44*sec, noPairs)
	r.run(44*sec, 45*sec, noPairs, 2)
	if n := r.nodes[2]; n.ByLUN().Len() != 0 || n.sees().Len() != 0 || n.Decision().Action != Starve {
		t.Errorf("condemned, it counts %v, sees %v, and is to %v", n.ByLUN(), n.sees(), n.Decision().Action)
	}
	for i, n := range r.nodes[:2] {
		if n.ByLUN() != roster.SetOf(1-i) || n.Decision().Reason != ReasonLUNQuorum {
			t.Errorf("n%d counts %v by the LUN, and is to %v for %v", i, n.ByLUN(), n.Decision().Action, n.Decision().Reason)
		}
	}
	for at := 45 * sec; at < 60*sec; at += sec { // read a moment after 41 s, and out of date 3.03 s later
		r.run(at, at+sec, noPairs, 2)
		for i, n := range r.nodes[:2] {
			if d := n.proof.Of(2); !n.fx.Fenced.Has(2) || d.Proof != ProofSentence || d.Boot != 102 {
				t.Fatalf("%v: n%d says FENCED: %v, for %+v", time.Duration(at), i, n.fx.Fenced, d)
			}
		}
	}
}

// Guard: P5. A sentence that came over a network counts even before the node's next block, which sees nobody any more,
// is read.
func TestVoiceFromBeforeTheSentence(t *testing.T) {
	r := withVoices(t, 3, nil)
	r.run(10*sec, 40*sec, allPairs)
	r.run(40*sec, 45*sec, noPairs)
	n := r.nodes[0]
	n.proof.sentence(45*sec, 2, 102, time.Second)
	if n.Step(45*sec + 1); n.ByLUN() != roster.SetOf(1) || n.View().Counted.Has(2) {
		t.Errorf("it counts %v by the LUN", n.ByLUN())
	}
}

package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: another machine with a member's name proves nothing about the first machine. An unknown identity is not
// compared.
func TestAnotherMachineProvesNoEnd(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second uint64
		dead          bool
	}{{"the same", 7, 7, true}, {"another one", 7, 8, false}, {"the first says none", 0, 8, true}, {"the second says none", 7, 0, true}} {
		c := testCore(t, 3, nil)
		tell(c, 10*sec, 1, netgossip.Statement{Machine: tc.first})
		c.Step(10 * sec)
		tell(c, 11*sec, 1, netgossip.Statement{Boot: 999, Machine: tc.second})
		c.Step(11 * sec)
		if got := c.proof.Of(1).Proof == ProofBoot; got != tc.dead || c.proof.Strangers().Has(1) == tc.dead {
			t.Errorf("%s: dead %v, strangers %v", tc.name, got, c.cfg.Roster.Names(c.proof.Strangers()))
		}
		tell(c, 12*sec, 1, netgossip.Statement{Boot: 1000, Machine: tc.second})
		if c.Step(12 * sec); c.proof.Of(1).Boot != 999 || !c.proof.Strangers().IsEmpty() {
			t.Errorf("%s: the next boot of the same machine: %+v", tc.name, c.proof.Of(1))
		}
		// The slot of a node that is not heard shows the same.
		c = mourners(t, netgossip.Statement{Guard: killing, Machine: tc.first}, nil)
		uid := diskquorum.MachineUID
		c.proof.look(20*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: 9, NodeUID: uid(tc.first), Statement: netgossip.Statement{Boot: 104}})
		c.proof.look(20*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: 11, NodeUID: uid(tc.second), Statement: netgossip.Statement{Boot: 105}})
		if c.proof.Fenced().Has(4) != tc.dead {
			t.Errorf("%s: by its slot fenced %v", tc.name, c.proof.Fenced().Has(4))
		}
	}
}

// A death that the slot has proven is not reported again when the node answers.
func TestEndIsNotToldTwice(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	c.proof.look(20*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: 9, Statement: netgossip.Statement{Boot: 104}})
	c.proof.look(20*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: 11, Statement: netgossip.Statement{Boot: 105}})
	was := c.proof.Of(4)
	tell(c, 30*sec, 4, netgossip.Statement{Boot: 105})
	if c.Step(30 * sec); was.Proof != ProofBoot || c.proof.Of(4) != was {
		t.Errorf("%+v, then %+v", was, c.proof.Of(4))
	}
}

// Guard: a boot that had begun while the former one still answered does not prove a reboot: a container runtime created
// its boot id, or it is another machine. Without an age, the boot is accepted.
func TestBootThatHadBegunBeforeIsNone(t *testing.T) {
	for _, tc := range []struct {
		name string
		age  time.Duration // age at 30 s; the former boot answered until 10 s
		dead bool
	}{
		{"it boots", 5 * time.Second, true},
		{"right after the last answer", 20 * time.Second, true},
		{"within what clocks may differ by", 20*time.Second + clockSlack, true},
		{"it ran before", 20*time.Second + clockSlack + 1, false},
		{"it ran for an hour", time.Hour, false},
		{"it tells no age", 0, true},
	} {
		c := mourners(t, netgossip.Statement{Guard: killing}, nil)
		tell(c, 30*sec, 4, netgossip.Statement{Boot: 999, Stated: boottime.Instant(tc.age)})
		c.Step(30 * sec)
		if got := c.proof.Of(4).Proof == ProofBoot; got != tc.dead || c.proof.Strangers().Has(4) == tc.dead {
			t.Errorf("%s: dead %v, strangers %v", tc.name, got, c.cfg.Roster.Names(c.proof.Strangers()))
		}
		c = mourners(t, netgossip.Statement{Guard: killing}, nil)
		for i, st := range []netgossip.Statement{{Boot: 104}, {Boot: 105, Stated: boottime.Instant(tc.age)}} {
			c.proof.look(30*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: uint64(9 + 2*i), Statement: st})
		}
		if got := c.proof.Fenced().Has(4); got != tc.dead {
			t.Errorf("%s: by its slot fenced %v", tc.name, got)
		}
	}
}

// The statement and the slot have the age of the boot, not the clock's time.
func TestStatementTellsTheAgeOfTheBoot(t *testing.T) {
	c := testCore(t, 3, func(c *Config) { c.Booted = 7 * sec })
	if st := c.Step(10 * sec).Statement; st.Stated != 3*sec {
		t.Errorf("stated at %v", st.Stated)
	}
}

// Guard: an identity that was missing in a node's first statement is compared as soon as it is known, from a later
// statement of the same boot or from its slot.
func TestMachineThatIsToldLater(t *testing.T) {
	c := testCore(t, 3, nil)
	tell(c, 10*sec, 1, netgossip.Statement{})
	c.Step(10 * sec)
	tell(c, 11*sec, 1, netgossip.Statement{Machine: 7})
	c.Step(11 * sec)
	tell(c, 12*sec, 1, netgossip.Statement{Boot: 999, Machine: 8})
	if c.Step(12 * sec); c.proof.Of(1).Proof != 0 || !c.proof.Strangers().Has(1) {
		t.Errorf("by a later statement: %+v", c.proof.Of(1))
	}

	c = mourners(t, netgossip.Statement{Guard: killing}, nil)
	for i, boot := range []uint64{104, 105} {
		uid := diskquorum.MachineUID(uint64(7 + i))
		c.proof.look(20*sec, 4, &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: uint64(9 + 2*i), NodeUID: uid, Statement: netgossip.Statement{Boot: boot}})
	}
	if c.proof.Fenced().Has(4) || !c.proof.Strangers().Has(4) {
		t.Errorf("by its slot: %+v", c.proof.Of(4))
	}
}

// Guard: a statement without a boot does not count as another boot.
func TestStatementWithoutABootProvesNoEnd(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	c.Merger().Answered(netgossip.Answer{Peer: 4, SentAt: 11 * sec, Statement: &netgossip.Statement{
		RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Seen: roster.FullSet(5),
	}})
	if c.Step(11 * sec); c.proof.Of(4).Proof != 0 || c.proof.peers[4].boot != 104 {
		t.Errorf("%+v, met boot %d", c.proof.Of(4), c.proof.peers[4].boot)
	}
}

// Guard: the sequences of one boot in its slot do not apply to the next boot. Otherwise the last record of the former
// boot, read late, would look like a reboot of the boot that has answered since.
func TestSequencesAreOfOneBoot(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	record := func(boot, sequence uint64) *diskquorum.Slot {
		return &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: sequence, Statement: netgossip.Statement{Boot: boot}}
	}
	c.proof.look(20*sec, 4, record(104, 9))
	tell(c, 30*sec, 4, netgossip.Statement{Boot: 105})
	c.Step(30 * sec)
	if c.proof.look(40*sec, 4, record(104, 10)); c.proof.Fenced().Has(4) || c.proof.Of(4).Boot != 104 {
		t.Errorf("fenced %v, %+v", c.proof.Fenced().Has(4), c.proof.Of(4))
	}
}

// If a node's slot shows another boot, this is one death, however often the slot is read.
func TestSlotTellsOneEndOnce(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	for i, boot := range []uint64{104, 105, 105, 105} {
		rec := &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: uint64(9 + i), Statement: netgossip.Statement{Boot: boot}}
		c.proof.look((20+boottime.Instant(i))*sec, 4, rec)
	}
	if d := c.proof.Of(4); d != (Death{Proof: ProofBoot, Boot: 104, At: 21 * sec}) {
		t.Errorf("%+v", d)
	}
}

// The first boot that is met is not a return, even if it has been running for longer than this node.
func TestFirstMeetingIsNoReturn(t *testing.T) {
	c := testCore(t, 3, nil)
	tell(c, 10*sec, 1, netgossip.Statement{Stated: boottime.Instant(time.Hour)})
	if c.Step(10 * sec); c.proof.Of(1).Proof != 0 || !c.proof.Strangers().IsEmpty() {
		t.Errorf("%+v, strangers %v", c.proof.Of(1), c.cfg.Roster.Names(c.proof.Strangers()))
	}
}

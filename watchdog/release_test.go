package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Guard: an answer to one announcement does not count for the next. Peers that have not been asked since then take the
// node for guarded as soon as they hear that it is armed again.
func TestAnswerToTheFirstDisarmIsNoneToTheSecond(t *testing.T) {
	c := guardedCore(t, 3, nil)
	c.SetDisarm("file", "a test")
	c.Step(11 * sec)
	tell(c, 12*sec, 1, netgossip.Statement{})
	if fx := c.Step(12 * sec); !fx.Disarm {
		t.Fatal("a majority knows")
	}
	c.SetGuard(false, 0)
	c.SetDisarm("file", "")
	c.Step(13 * sec)
	c.SetGuard(true, 10*time.Second)
	c.Step(13*sec + 1)
	c.SetDisarm("file", "a test")
	if fx := c.Step(14 * sec); fx.Disarm {
		t.Error("an answer from before the announcement counts")
	}
}

// Guard: a completed release is not withdrawn. The feeder may already have disarmed when the peers are lost a moment
// later, and the node would be starved.
func TestReleaseIsNotTakenBack(t *testing.T) {
	c := guardedCore(t, 3, nil)
	c.SetDisarm("file", "a test")
	c.Step(11 * sec)
	tell(c, 12*sec, 1, netgossip.Statement{})
	if fx := c.Step(12 * sec); !fx.Disarm {
		t.Fatal("a majority knows")
	}
	if fx := c.Step(20 * sec); !fx.Disarm || !c.Released() {
		t.Errorf("alone since: %+v", fx.Decision)
	}
}

// armedBy returns an armed core that uses the lists.
func armedBy(t *testing.T, directory *roster.Roster, chain ...*roster.Roster) *Core {
	t.Helper()
	c := listCore(t, directory, chain...)
	c.SetGuard(true, 10*time.Second)
	if !c.guard.Kills() {
		t.Fatalf("%+v", c.guard)
	}
	c.Step(9 * sec)
	c.SetDisarm("file", "a test")
	won(c)
	c.Step(10 * sec)
	return c
}

// Nobody relies on the watchdog of a node that the list in force does not name.
func TestRemovedNodeIsReleased(t *testing.T) {
	if c := armedBy(t, rosterOf(t, 1, "n0", "n1", "n2"), rosterOf(t, 2, "n1", "n2")); !c.Released() {
		t.Error("it waits for peers that it has no more")
	}
}

// Guard: the members that know of a release are counted by each list that the node uses, since its death could be
// proven by a majority of any of them. Half is only enough in an equal split, which does not exist with two lists.
func TestReleaseIsKnownByEachList(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2", "n3"), rosterOf(t, 2, "n0", "n1", "n2", "n3", "n4", "n5")
	for _, tc := range []struct {
		name  string
		chain []*roster.Roster
		knows []int // besides this node
		want  bool
	}{
		{"half of the one list", []*roster.Roster{old}, []int{1}, true},
		{"half of the older of two lists", []*roster.Roster{old, next}, []int{1}, false},
		{"most of the older, half of the newer", []*roster.Roster{old, next}, []int{1, 2}, false},
		{"most of both", []*roster.Roster{old, next}, []int{1, 2, 4}, true},
	} {
		c := armedBy(t, next, tc.chain...)
		for _, p := range tc.knows {
			tell(c, 11*sec, p, netgossip.Statement{Standing: standingBy(tc.chain...)})
		}
		won(c)
		if c.Step(11 * sec); c.Released() != tc.want {
			t.Errorf("%s: released %v, outcome %v", tc.name, c.Released(), c.outcome)
		}
	}
}

// Guard: the other half learns of a release from the slot. It does not if another tie-breaker decides, and may not read
// the slot if this half is at odds about how to break a tie.
func TestHalfIsReleasedByItsSlot(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Core)
		lives  bool // this node lives by a grant
		want   bool
	}{
		{"of one mind", func(*Core) {}, true, true},
		{"at odds", func(c *Core) { c.SetTerms(24*sec, theirTerms, roster.Set{}) }, true, false},
		{"by another tie-breaker", func(c *Core) { c.BreakTiesBy(&answer{}) }, true, false},
		{"not decided", func(*Core) {}, false, false},
	} {
		r := withSlots(t, guardedCore(t, 4, func(c *Config) { c.LUN = true }))
		r.run(10*sec, 25*sec, netgossip.Statement{Guarded: roster.SetOf(0)}, 1)
		if !r.lun.arbiter.Status(25 * sec).Claimed {
			t.Fatal("the slot is not claimed")
		}
		tc.change(r.Core)
		r.SetDisarm("file", "a test")
		if tc.lives {
			won(r.Core)
		}
		r.step(25*sec + sec/4)
		if tc.lives != (r.release.announced != 0) {
			t.Errorf("%s: announced at %v", tc.name, r.release.announced)
		}
		if tc.lives && r.release.mark == 0 || tc.lives && r.release.mark != r.lun.arbiter.Status(25*sec+sec/4).Sequence {
			t.Errorf("%s: announced at %d of %d", tc.name, r.release.mark, r.lun.arbiter.Status(25*sec).Sequence)
		}
		at := 25*sec + sec/2
		for ; at < 35*sec && !r.Released(); at += sec / 4 {
			tell(r.Core, at, 1, netgossip.Statement{})
			if tc.lives {
				won(r.Core)
			}
			r.step(at)
		}
		if r.Released() != tc.want {
			t.Errorf("%s: released %v", tc.name, r.Released())
		}
		if tc.want {
			r.shows(at)
		}
	}
}

// won simulates that this node's half lived in the step before.
func won(c *Core) {
	c.fx.Decision = Decision{Action: Feed, Reason: ReasonSplitWon, Until: boottime.Never, Quorum: true}
}

// shows checks that this node's slot on the LUN says unarmed.
func (r *slotRig) shows(at boottime.Instant) {
	r.t.Helper()
	var latest diskquorum.Slot
	for which := range 2 {
		var s diskquorum.Slot
		from := diskquorum.SlotOffset(0, which)
		if err := diskquorum.DecodeSlot(r.image[from:from+diskquorum.BlockSize], r.sb.ID, 0, which, &s); err != nil {
			r.t.Fatal(err)
		}
		if s.Sequence > latest.Sequence {
			latest = s
		}
	}
	if latest.Statement.Guard.Armed || at < 26*sec {
		r.t.Errorf("released at %v, the slot says %+v", time.Duration(at), latest.Statement.Guard)
	}
}

// Guard: a node without quorum neither gives its guard up nor announces it, for a planned stop or for maintenance: the
// nodes that live without it rely on the watchdog. When it has quorum again, it does both.
func TestGuardIsKeptWithoutQuorum(t *testing.T) {
	for name, tc := range map[string]struct {
		ask func(*Core)
		out tie.Output
	}{
		"stopped, lost":           {(*Core).Stop, tie.Output{Split: tie.Lost}},
		"stopped, not decided":    {(*Core).Stop, tie.Output{Split: tie.Pending}},
		"maintenance, lost":       {func(c *Core) { c.SetDisarm("file", "a test") }, tie.Output{Split: tie.Lost}},
		"maintenance, undecided":  {func(c *Core) { c.SetDisarm("file", "a test") }, tie.Output{Split: tie.Pending}},
		"stopped, nobody answers": {(*Core).Stop, tie.Output{Split: tie.Unavailable}},
	} {
		b := &answer{out: tc.out}
		b.out.Wake = boottime.Never
		c := splitCore(t, nil, b)
		c.SetGuard(true, 10*time.Second)
		tc.ask(c)
		for at := 17 * sec; at < 40*sec; at += sec / 2 {
			tell(c, at, 1, netgossip.Statement{}) // the other member of its half knows everything that it states
			fx := c.Step(at)
			if st := fx.Statement; fx.Disarm || c.Released() || b.asked.Stop || st.Stopping || !st.Guard.Kills() {
				t.Fatalf("%s, at %v: disarm %v, released %v, says that it stops %v, %+v", name, time.Duration(at), fx.Disarm, c.Released(), st.Stopping, st.Guard)
			}
		}
		for at := 40 * sec; at < 43*sec; at += sec / 2 {
			for p := 1; p < 4; p++ {
				tell(c, at, p, netgossip.Statement{})
			}
			c.Step(at)
		}
		if !c.Released() || c.fx.Statement.Guard.Kills() {
			t.Errorf("%s: it has a majority again and goes on waiting: released %v, %+v", name, c.Released(), c.fx.Statement.Guard)
		}
	}
}

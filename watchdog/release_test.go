package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: an answer to one announcement is none to the next. Peers that have not been asked since take
// the node for guarded as soon as they hear that it is armed again.
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

// Guard: a release that was reached is not taken back. The feeder may have disarmed already when the
// peers are gone a moment later, and the node would be starved for it.
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

// armedBy is an armed core that goes by the lists.
func armedBy(t *testing.T, directory *roster.Roster, chain ...*roster.Roster) *Core {
	t.Helper()
	c := listCore(t, directory, chain...)
	c.SetGuard(true, 10*time.Second)
	if !c.guard.Kills() {
		t.Fatalf("%+v", c.guard)
	}
	c.Step(9 * sec)
	c.SetDisarm("file", "a test")
	c.Step(10 * sec)
	return c
}

// Nobody relies on the watchdog of a node that the list in force does not name.
func TestRemovedNodeIsReleased(t *testing.T) {
	if c := armedBy(t, rosterOf(t, 1, "n0", "n1", "n2"), rosterOf(t, 2, "n1", "n2")); !c.Released() {
		t.Error("it waits for peers that it has no more")
	}
}

// Guard: who knows of a release is counted by each list that the node goes by, since its death could be
// proven by a majority of any of them. Half is enough in an equal split alone, which two lists have not.
func TestReleaseIsKnownByEachList(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2", "n3"), rosterOf(t, 2, "n0", "n1", "n2", "n3", "n4", "n5")
	for _, tc := range []struct {
		name  string
		chain []*roster.Roster
		knows []int // beside this node
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
		if c.Step(11 * sec); c.Released() != tc.want {
			t.Errorf("%s: released %v, outcome %v", tc.name, c.Released(), c.outcome)
		}
	}
}

// Guard: the half on the other side learns of a release from the slot. It does not where another
// tie-breaker decides, nor is it known to look there when this half is at odds about how to break a tie.
func TestHalfIsReleasedByItsSlot(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Core)
		want   bool
	}{
		{"of one mind", func(*Core) {}, true},
		{"at odds", func(c *Core) { c.SetTerms(24*sec, theirTerms, roster.Set{}) }, false},
		{"by another tie-breaker", func(c *Core) { c.BreakTiesBy(&answer{}) }, false},
	} {
		r := withSlots(t, guardedCore(t, 4, func(c *Config) { c.LUN = true }))
		r.run(10*sec, 25*sec, netgossip.Statement{Guarded: roster.SetOf(0)}, 1)
		if !r.lun.arbiter.Status(25 * sec).Claimed {
			t.Fatal("the slot is not claimed")
		}
		tc.change(r.Core)
		r.SetDisarm("file", "a test")
		r.step(25*sec + sec/4)
		if r.release.mark == 0 || r.release.mark != r.lun.arbiter.Status(25*sec+sec/4).Sequence {
			t.Errorf("%s: announced at %d of %d", tc.name, r.release.mark, r.lun.arbiter.Status(25*sec).Sequence)
		}
		at := 25*sec + sec/2
		for ; at < 35*sec && !r.Released(); at += sec / 4 {
			tell(r.Core, at, 1, netgossip.Statement{})
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

// shows checks that the slot of this node says unarmed on the LUN.
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

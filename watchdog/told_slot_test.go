package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// spoil makes both copies of a slot unreadable.
func (r *slotRig) spoil(p int) {
	for copy := range 2 {
		r.image[diskquorum.SlotOffset(p, copy)+100] ^= 0x55
	}
}

// write lets a peer write its slot.
func (r *slotRig) write(p int, sequence uint64) {
	r.put(p, diskquorum.SlotActive, 2*sequence, netgossip.Statement{Boot: 100 + uint64(p), Guard: killing})
}

// others lets the other three answer, which do not see the last one.
func (r *slotRig) others(at boottime.Instant, st netgossip.Statement) {
	st.Guard = killing
	for p := 1; p < 4; p++ {
		state(r.Core, at, p, without4, st)
	}
}

// shelf returns a settled core with a LUN, at 30 s, on which the last node has a slot.
func shelf(t *testing.T, healthy bool) *slotRig {
	t.Helper()
	r := withSlots(t, settled(t))
	r.write(4, 4)
	for at := 11 * sec; at < 30*sec; at += sec / 4 {
		r.others(at, netgossip.Statement{LUNHealthy: healthy})
		r.step(at)
	}
	return r
}

// Guard: an unreadable slot does not count as unchanged. It may be written at that moment.
func TestUnreadableSlotDoesNotStandStill(t *testing.T) {
	for name, tc := range map[string]struct {
		mended boottime.Instant // how long after the report the slot is again written each second; zero: never
		want   Refusal
		after  boottime.Instant
	}{
		"for good":     {0, RefusedUnread, 15 * sec},
		"for a moment": {sec, RefusedWrites, sec},
	} {
		t.Run(name, func(t *testing.T) {
			r := shelf(t, false)
			r.proof.Tell(1, off)
			for passed := boottime.Instant(0); passed < 20*sec; passed += sec / 4 {
				switch {
				case passed == sec/2:
					r.spoil(4)
				case tc.mended != 0 && passed >= tc.mended && passed%sec == 0:
					r.write(4, 20+uint64(passed/sec))
				}
				r.others(30*sec+passed, netgossip.Statement{})
				got := r.step(30*sec + passed).Told
				if len(got) == 0 {
					continue
				}
				if got[0].Err == nil || got[0].Err.Why != tc.want || passed < tc.after || r.proof.Fenced().Has(4) {
					t.Errorf("after %v: %+v", time.Duration(passed), got[0])
				}
				return
			}
			t.Error("no answer")
		})
	}
}

// Guard: a LUN that has not been opened is not the same as no LUN.
func TestWordWaitsForALUNThatIsNotOpen(t *testing.T) {
	c := settled(t)
	c.cfg.LUN = true
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	if _, fenced := verdicts(c, 20*sec+sec/4, 50*sec); fenced < 35*sec || fenced > 36*sec {
		t.Errorf("FENCED at %v", time.Duration(fenced))
	}
}

// Guard: a node that cannot read the LUN does not believe a report that another member could check there.
func TestTellerThatHasLostTheLUN(t *testing.T) {
	for healthy, want := range map[bool]Refusal{true: RefusedBlind, false: 0} {
		r := shelf(t, healthy)
		at := 30 * sec
		for ; at < 40*sec; at += sec / 4 { // its path to the LUN is lost
			r.others(at, netgossip.Statement{LUNHealthy: healthy})
			r.Step(at)
		}
		r.proof.Tell(1, off)
		var got []Answer
		for end := at + 20*sec; at < end && len(got) == 0; at += sec / 4 {
			r.others(at, netgossip.Statement{LUNHealthy: healthy})
			got = r.Step(at).Told
		}
		if len(got) != 1 || (got[0].Err == nil) != (want == 0) || at < 55*sec {
			t.Fatalf("at %v: %+v", time.Duration(at), got)
		}
		if err := got[0].Err; want != 0 && (err.Why != want || err.Other != "n0001") {
			t.Errorf("%+v", err)
		}
	}
}

// Guard: if heartbeats are further apart than a trial takes, the slot is watched for longer, but not for ever.
func TestSlotThatIsWrittenSeldomIsWatchedForLonger(t *testing.T) {
	for name, tc := range map[string]struct {
		interval, writes, least, most boottime.Instant
		want                          Refusal
	}{
		"stands still":  {10 * sec, 0, 22 * sec, 24 * sec, 0},
		"is written":    {10 * sec, 18 * sec, 18 * sec, 19 * sec, RefusedWrites},
		"says nonsense": {3600 * sec, 0, boottime.Instant(slotLimit), boottime.Instant(slotLimit) + sec, RefusedUnread},
	} {
		t.Run(name, func(t *testing.T) {
			r := shelf(t, false)
			r.interval = time.Duration(tc.interval)
			r.write(4, 10)
			for at := 30 * sec; at < 40*sec; at += sec / 4 {
				r.others(at, netgossip.Statement{})
				r.step(at)
			}
			r.proof.Tell(1, off)
			for passed := boottime.Instant(0); passed < 200*sec; passed += sec / 4 {
				if tc.writes != 0 && passed == tc.writes {
					r.write(4, 20)
				}
				r.others(40*sec+passed, netgossip.Statement{})
				if got := r.step(40*sec + passed).Told; len(got) > 0 {
					err := got[0].Err
					if (err == nil) != (tc.want == 0) || err != nil && err.Why != tc.want || passed < tc.least || passed > tc.most {
						t.Errorf("after %v: %+v", time.Duration(passed), got[0])
					}
					return
				}
			}
			t.Error("no answer")
		})
	}
}

// Guard: a boot that has written the slot since the known boot last answered counts as the latest one, although the
// order of the two is not known. A boot that has not written since then is an old one: its record stays if the node has
// lost the LUN.
func TestWordAndTheSlotOfAnotherBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		state diskquorum.SlotState
		first uint64 // boot in the slot before the node was lost
		later uint64 // boot in the slot after the node was lost
		want  Refusal
	}{
		"an old one, which stays":    {diskquorum.SlotActive, 54, 54, 0},
		"a new one has come":         {diskquorum.SlotActive, 54, 204, RefusedOtherBoot},
		"a new one is about to come": {diskquorum.SlotClaiming, 54, 204, 0},
		"the same":                   {diskquorum.SlotActive, 54, 104, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := withSlots(t, settled(t))
			r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: tc.first, Guard: killing})
			var got []Answer
			for at := 10*sec + sec/4; at < 60*sec && len(got) == 0; at += sec / 4 {
				switch {
				case at == 20*sec && tc.later != tc.first:
					r.put(4, tc.state, 10, netgossip.Statement{Boot: tc.later, Guard: killing})
				case at == 30*sec:
					r.proof.Tell(1, off)
				}
				if r.others(at, netgossip.Statement{}); at < 13*sec {
					state(r.Core, at, 4, without4, netgossip.Statement{Guard: killing})
				}
				got = r.step(at).Told
			}
			if len(got) != 1 || (got[0].Err == nil) != (tc.want == 0) || got[0].Err != nil && (got[0].Err.Why != tc.want || got[0].Err.Boot != tc.later) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Guard: a node that has announced a restart of its agent is not called dead while it may return in time.
func TestWordAboutANodeThatRestarts(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.publication.held.Add(4)
	if err := judging(c, 20*sec).objection(20*sec, 4, &c.proof.peers[4], 104); err == nil || err.Why != RefusedRestarts {
		t.Errorf("%+v", err)
	}
}

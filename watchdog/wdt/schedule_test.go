package wdt

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

var scheduleSeed = flag.Uint64("schedule-seed", 0, "run the one random schedule with this seed")

// TestRandomSchedules feeds a watchdog through random grants, withdrawals, requests, slow
// and failing feeds, and checks at every feed what must hold:
//
//   - it lies before the end of a grant in force (guard: the comparison in step);
//   - it is not one after a Disarm (guard: obey before step, loop.open);
//   - it is not one after a reset (guard: ranOut).
//
// In the end the granter dies, and an armed watchdog must fire exactly one timeout after
// the last feed that worked (guard: only Grant extends, and nothing disarms by itself).
func TestRandomSchedules(t *testing.T) {
	if *scheduleSeed != 0 {
		runSchedule(t, *scheduleSeed)
		return
	}
	runs := 300
	if testing.Short() {
		runs = 50
	}
	for range runs {
		runSchedule(t, rand.Uint64())
	}
}

// lease is a grant and when it was given.
type lease struct{ given, until boottime.Instant }

// schedule is the test's own account of what was permitted.
type schedule struct {
	mu     sync.Mutex
	leases []lease
	faults []string
}

// check allows for a grant that is replaced at the very instant of a feed: either of
// the two may have been in force.
func (s *schedule) check(at boottime.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.leases) - 1; i >= 0; i-- {
		if at < s.leases[i].until {
			return
		}
		if s.leases[i].given < at {
			break
		}
	}
	s.faults = append(s.faults, "fed without permission at "+time.Duration(at).String())
}

func (s *schedule) grant(b *bench, until boottime.Instant) {
	s.mu.Lock()
	s.leases = append(s.leases, lease{b.clock(), until})
	s.mu.Unlock()
	b.Grant(until)
}

func runSchedule(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("repeat with -run TestRandomSchedules -schedule-seed=%d", seed)
			}
		}()
		r := rand.New(rand.NewPCG(seed, 0))
		between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
		s := &schedule{}
		slow := time.Duration(r.IntN(2)) * time.Second // feeds take less than that
		b := run(t, watchdogtest.Config{NoWayOut: r.IntN(8) == 0, OnFeed: s.check}, nil)
		s.grant(b, b.clock().Add(between(0, time.Minute)))
		b.Arm()
		for range 60 {
			switch r.IntN(12) {
			case 0:
				s.grant(b, 0)
			case 1:
				b.Disarm("maintenance")
			case 2:
				b.Arm()
			case 3:
				b.device.FailFeeds(unix.EIO)
			case 4:
				b.device.FailFeeds(nil)
			case 5:
				b.device.DelayFeeds(between(0, slow+1))
			default:
				b.device.FailFeeds(nil)
				s.grant(b, b.clock().Add(between(0, 12*time.Second)))
			}
			time.Sleep(between(0, 4*time.Second))
		}
		b.device.FailFeeds(nil)
		b.device.DelayFeeds(0)
		time.Sleep(slow) // a feed may be under way, and a request wait for it
		synctest.Wait()
		state := b.State()
		time.Sleep(12*time.Second + 2*testTimeout) // the granter is dead, the last grant runs out
		at, fired := b.device.FiredAt()
		stats := b.device.Stats()
		switch {
		case state.Armed && state.Status != Faulty && !fired:
			t.Errorf("armed, and alive long after the last grant: %+v", state)
		case !state.Armed && fired:
			t.Errorf("fired at %v although disarmed", at)
		}
		last := b.State().LastFeed
		if late := at.Sub(last.Add(testTimeout)); fired && state.Status != Faulty && (late < 0 || late > slow) {
			t.Errorf("fired at %v, want the timeout after the last feed, begun at %v and done in less than %v", at, last, slow)
		}
		if stats.Unarmed != 0 {
			t.Errorf("%d feeds while not armed", stats.Unarmed)
		}
		for _, fault := range s.faults {
			t.Error(fault)
		}
	})
}

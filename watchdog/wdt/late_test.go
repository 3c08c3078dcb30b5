package wdt

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

func twice(timeout time.Duration) time.Duration { return 2 * timeout }

// A driver that is known to fire late is not overdue before it may have fired: until then the node can be saved, as its peers reckon
// with that. What is left of the countdown is told by what the driver was set to, since it may fire then.
func TestLateDriverIsNotOverdueEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{Identity: "iTCO_wdt", Late: twice}, 3*time.Second)
		time.Sleep(15 * time.Second) // the last feed was at 2 s, and the timeout is 10 s
		b.expect(Starved, true)
		b.grant(3 * time.Second)
		b.expect(Armed, true)
		time.Sleep(testInterval)
		b.expect(Armed, true)
		if s := b.State(); s.Slack > testTimeout-testInterval {
			t.Errorf("slack %v", s.Slack)
		}
		time.Sleep(20 * time.Second)
		b.expect(Faulty, true)
		if at, fired := b.device.FiredAt(); !fired || at != b.last().Add(2*testTimeout) {
			t.Errorf("fired %v at %v", fired, at)
		}
	})
}

// Guard: L9. A watchdog that has not fired when it must have is said to fire no more, and a new arming does not make it one that does. It
// is not said before: the word would make a death that is due unknown.
func TestWatchdogThatDoesNotFire(t *testing.T) {
	for identity, latest := range map[string]time.Duration{"": testTimeout, "iTCO_wdt": 2 * testTimeout} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, watchdogtest.Config{Identity: identity, Late: func(time.Duration) time.Duration { return time.Hour }}, nil)
			b.grant(testInterval / 2)
			b.Arm()
			synctest.Wait()
			fed := b.State().LastFeed
			time.Sleep(latest + time.Second)
			if s := b.expect(Faulty, true); s.Unfired {
				t.Errorf("%q: said %v after the last feed", identity, b.clock().Sub(fed))
			}
			time.Sleep(3 * testInterval)
			if s := b.expect(Faulty, true); !s.Unfired || !b.lastState().Unfired {
				t.Errorf("%q: not said %v after the last feed", identity, b.clock().Sub(fed))
			}
			b.Disarm("replaced")
			b.expect(Disarmed, false)
			b.grant(time.Hour)
			b.Arm()
			time.Sleep(time.Second)
			if s := b.expect(Armed, true); !s.Unfired {
				t.Errorf("%q: forgotten", identity)
			}
		})
	}
}

// Guard: P3. A sentence tells when the driver has fired at the latest, and none is told that this makes too long.
func TestSentenceOfALateDriver(t *testing.T) {
	for name, c := range map[string]struct {
		identity             string
		least, timeout, want time.Duration
		late                 func(time.Duration) time.Duration
	}{
		"one step later":    {"IB700 WDT", 0, time.Second, 2 * time.Second, func(time.Duration) time.Duration { return 2 * time.Second }},
		"one step too late": {"IB700 WDT", 0, 3 * time.Second, 0, func(time.Duration) time.Duration { return 4 * time.Second }},
		"twice":             {"iTCO_wdt", 3 * time.Second, time.Second, 0, twice},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := run(t, watchdogtest.Config{Identity: c.identity, Least: c.least, Late: c.late}, nil)
				b.grant(testInterval / 2)
				b.Arm()
				synctest.Wait()
				b.Condemn(c.timeout)
				time.Sleep(100 * time.Millisecond)
				if s := b.State(); !s.Condemned || s.Sentence != c.want || (s.Err == nil) != (c.want > 0) {
					t.Errorf("told %v, want %v: %v", s.Sentence, c.want, s.Err)
				}
				if c.want > 0 && watchdog.SentenceBound(c.want) < b.device.After() {
					t.Errorf("%v are told and it fires after %v", c.want, b.device.After())
				}
			})
		})
	}
}

// lastState is the newest that OnState was told.
func (b *bench) lastState() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[len(b.states)-1]
}

// Guard: a driver that says of itself that it can do nothing is taken by what it can do, where that is known; else its timeout is tried.
func TestDriverThatUnderstates(t *testing.T) {
	for identity, knowsMagic := range map[string]bool{"IPMI": true, "Something else": false} {
		d := softdog()
		d.identity, d.options = identity, 0
		dev := d.device(t)
		info, err := dev.Arm(10 * time.Second)
		if err != nil || info.Timeout != 10*time.Second || info.MagicClose != knowsMagic {
			t.Errorf("%s: %+v, %v", identity, info, err)
		}
	}
}

// Guard: a watchdog that did not fire when it was tried is not used, nor one that fires so late that nodes which do not
// know this one's horizon would not wait for it.
func TestMeasuredWatchdogThatIsNoGuard(t *testing.T) {
	for name, c := range map[string]struct {
		measured watchdog.Measured
		status   Status
		says     string
	}{
		"never tried": {watchdog.Measured{}, Armed, ""},
		"late":        {watchdog.Measured{Fired: true, Factor: 3}, Armed, ""},
		"failed":      {watchdog.Measured{Failed: true}, Faulty, "did not reset this node when that was tried"},
		"unproven":    {watchdog.Measured{Unproven: true}, Faulty, "was never seen to reset this node"},
		"hours late":  {watchdog.Measured{Offset: 2 * time.Hour}, Faulty, "more than 2h0m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, watchdogtest.Config{Measured: c.measured}, nil)
			b.grant(time.Hour)
			b.Arm()
			synctest.Wait()
			s := b.State()
			if s.Status != c.status || s.Armed != (c.status == Armed) || c.says != "" && (s.Err == nil || !strings.Contains(s.Err.Error(), c.says)) {
				t.Errorf("%s: %v, armed %v, %v", name, s.Status, s.Armed, s.Err)
			}
		})
	}
}

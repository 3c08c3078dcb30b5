package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// fake is a watchdog that fires, or does not, and records the calls in order.
type fake struct {
	refuses error
	stays   error // Disarm fails
	keeps   error // Keep fails
	kept    int   // calls of Keep that succeed before that
	did     []string
	ran     time.Duration // already on record
	full    time.Duration // from then on nothing can be recorded; 0: never
	shown   *atomic.Int64 // ran, for another goroutine; may be nil
}

func (f *fake) Ran(after, _ time.Duration) error {
	if f.full > 0 && after >= f.full {
		return errors.New("no space left")
	}
	f.ran = after
	if f.shown != nil {
		f.shown.Store(int64(after))
	}
	return nil
}

func (f *fake) Leave() error {
	f.did = append(f.did, "leave")
	return nil
}

func (f *fake) Close(end calibration.End) error {
	f.did = append(f.did, string(end))
	return nil
}

func (f *fake) Arm(timeout time.Duration) (Info, error) {
	f.did = append(f.did, "arm")
	return Info{Identity: "fake", Timeout: timeout, NoWayOut: f.stays != nil}, f.refuses
}

func (f *fake) Disarm() error {
	f.did = append(f.did, "disarm")
	return f.stays
}

func trial(f *fake) (*Trial, *strings.Builder) {
	said := new(strings.Builder)
	return &Trial{
		Device: f, Name: "/dev/watchdog0", Timeout: 20 * time.Second, Now: time.Now, Sync: func() {},
		Say:    func(line string) { said.WriteString(line + "\n") },
		Last:   func() error { f.did = append(f.did, "last words"); return nil },
		Failed: func(why string) { f.did = append(f.did, why) },
		Keep: func(Info) (Record, error) {
			f.did = append(f.did, "keep")
			if f.kept--; f.kept >= 0 {
				return f, nil
			}
			return f, f.keeps
		},
	}, said
}

func TestAWatchdogThatDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		tr, said := trial(f)
		began := time.Now()
		err := tr.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "did NOT reset") || time.Since(began) != 2*tr.Timeout+Patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if got := strings.Join(f.did, ", "); got != "last words, keep, arm, keep, leave, failed, disarm, the watchdog did not reset the node in a test" {
			t.Error(got)
		}
		for _, line := range []string{"resets this node at about", "Ctrl-C", "10s are left", "the watchdog is late by 10s"} {
			if !strings.Contains(said.String(), line) {
				t.Errorf("it does not say %q:\n%s", line, said)
			}
		}
	})
}

func TestCalledOff(t *testing.T) {
	for _, stays := range []error{nil, errors.New("nowayout is set")} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{stays: stays}
			tr, said := trial(f)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := tr.Run(ctx)
			switch {
			case stays == nil && !errors.Is(err, ErrCalledOff):
				t.Error(err)
			case stays != nil && (err == nil || !strings.Contains(err.Error(), "may still reset") || !strings.Contains(said.String(), "no longer be called off")):
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// Guard: no countdown starts before it is on record, and the user is told of each one that runs on. A trial whose countdown
// runs on is left on record: the next boot must not take it for one that was called off, and try again.
func TestWhatCannotBegin(t *testing.T) {
	f := &fake{}
	tr, _ := trial(f)
	tr.Last = func() error { return errors.New("read-only file system") }
	if err := tr.Run(t.Context()); err == nil || len(f.did) != 0 {
		t.Errorf("%v, %v", err, f.did)
	}
	f = &fake{}
	tr, _ = trial(f)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := tr.Run(ended); !errors.Is(err, ErrCalledOff) || strings.Join(f.did, ", ") != "last words, keep, the test of the watchdog was called off, called-off" {
		t.Errorf("called off before it is armed: %v, %v", err, f.did)
	}
	f = &fake{refuses: errors.New("no such device")}
	tr, _ = trial(f)
	if err := tr.Run(t.Context()); err == nil || strings.Join(f.did, ", ") != "last words, keep, arm, the watchdog could not be armed, called-off" {
		t.Errorf("%v, %v", err, f.did)
	}
	f = &fake{refuses: StillArmedError{errors.New("EIO")}}
	tr, _ = trial(f)
	if err := tr.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the watchdog counts down") || strings.Join(f.did, ", ") != "last words, keep, arm, leave" {
		t.Errorf("%v, %v", err, f.did)
	}
}

// Guard: the test waits for a watchdog that is known to fire late, and for twice its timeout if nothing is known. While
// it is late, the record says that the machine still runs: nobody can record this after the reset.
func TestLateWatchdogIsWaitedFor(t *testing.T) {
	for factor, want := range map[time.Duration]time.Duration{1: 40 * time.Second, 2: 40 * time.Second, 3: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{shown: new(atomic.Int64)}
			tr, said := trial(f)
			// What a failed trial leaves on disk counts from then on.
			tr.Latest = func(_ string, timeout time.Duration) time.Duration {
				return max(factor*timeout, time.Duration(f.shown.Load()))
			}
			began := time.Now()
			err := tr.Run(t.Context())
			if err == nil || time.Since(began) != want+Patience || !strings.Contains(err.Error(), fmt.Sprint("within ", want+Patience)) {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want+Patience)
			}
			if late := strings.Contains(said.String(), "known to fire late"); late != (factor > 1) {
				t.Errorf("fires %d times as late:\n%s", factor, said)
			}
			if f.ran < want+Patience-2*calibration.Every {
				t.Errorf("on record: it ran for %v", f.ran)
			}
		})
	}
}

// Guard: if the result could not be kept, the test is called off, and the watchdog is disarmed before anything is
// written.
func TestWhatCannotBeKeptEndsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		fake fake
		did  string
	}{
		"from the beginning": {fake{keeps: errors.New("read-only")}, "last words, keep, the test could not be recorded"},
		"once it is armed":   {fake{keeps: errors.New("no space left"), kept: 1}, "last words, keep, arm, keep, disarm, the test could not be recorded, called-off"},
		"and nowayout then":  {fake{keeps: errors.New("no space left"), kept: 1, stays: errors.New("nowayout is set")}, "last words, keep, arm, keep, disarm, leave"},
		"a full disk":        {fake{full: 25 * time.Second}, "last words, keep, arm, keep, leave, disarm, the test of the watchdog was called off, called-off"},
		"and nowayout":       {fake{full: 25 * time.Second, stays: errors.New("nowayout is set")}, "last words, keep, arm, keep, leave, disarm, leave"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := c.fake
			tr, _ := trial(&f)
			began := time.Now()
			err := tr.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "cannot record") || f.stays != nil && !strings.Contains(err.Error(), "may still reset") {
				t.Errorf("%s: %v", name, err)
			}
			if got := strings.Join(f.did, ", "); got != c.did || time.Since(began) > 26*time.Second {
				t.Errorf("%s: %s after %v", name, got, time.Since(began))
			}
		})
	}
}

package wdt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// ReasonPlannedStop is the State.Reason of a watchdog disarmed by [Feeder.Stop].
const ReasonPlannedStop = "planned_stop"

// Config is what a [Feeder] needs. Device, Clock, Timeout and FeedInterval are mandatory.
type Config struct {
	Device       watchdog.Device
	Timeout      time.Duration // wished for; the driver's answer counts
	FeedInterval time.Duration // less than Timeout/2
	Clock        boottime.Clock
	Logger       *slog.Logger // nil: silent
	Metrics      *Metrics     // nil: counted, not published
	// Realtime gives the feeder a thread that waits in the kernel, and asks for what keeps
	// a loaded host from delaying it: see Run. It concerns the whole process.
	Realtime bool
	// OnState is called for changes, never on the feeder's thread. Changes in quick succession coalesce into the
	// newest. It must return soon: Run waits for it.
	OnState func(State)
}

// Feeder feeds one watchdog while it is permitted to.
type Feeder struct {
	device   watchdog.Device
	dry      dryRun // nil: a real device
	timeout  time.Duration
	interval time.Duration
	clock    boottime.Clock
	log      *slog.Logger
	metrics  *Metrics
	onState  func(State)
	host     host // nil: no hardening

	// Written by callers, read by the feeder.
	until     atomic.Int64            // the lease
	request   atomic.Pointer[request] // the newest wish
	asked     atomic.Uint64           // wishes so far
	condemned atomic.Int64            // the timeout of a sentence; 0: there is none
	napper    napper
	stops     chan stopRequest // capacity 1
	started   atomic.Bool
	exited    chan struct{}

	// Written by the feeder, read by anybody.
	view     atomic.Pointer[view]
	obeyed   atomic.Uint64 // number of the latest wish that was looked at
	lastFeed atomic.Int64
	slack    atomic.Int64
	overdue  atomic.Bool
	unfired  atomic.Bool // for good
	failing  atomic.Bool

	// From the feeder to the goroutine that reports.
	changed   chan struct{} // capacity 1
	errors    chan error    // capacity 1
	feedError atomic.Pointer[error]

	// The feeder's own memory.
	loop  loop
	views *views // view points into it
}

// loop is what the feeder knows about the countdown; nobody else reads it.
type loop struct {
	open      bool          // the device is armed
	wantArm   bool          // an Arm waits for a grant
	unsound   bool          // armed, but not as it should be: stays Faulty
	missed    bool          // dry run: this starvation has been noted
	judged    bool          // the sentence was carried out
	countdown time.Duration // as read back: the watchdog may fire after it,
	latest    time.Duration // and has fired after this
	cadence   time.Duration
	next      boottime.Instant // of the next feed; zero: as soon as permitted
	attempt   boottime.Instant // last moment the countdown may have been restarted
}

type request struct {
	number uint64
	arm    bool
	reason string
}

type stopRequest struct {
	ctx   context.Context // ended: the caller does not want it any more
	reply chan<- error    // capacity 1
}

// NewFeeder checks the configuration. It does not touch the device.
func NewFeeder(c Config) (*Feeder, error) {
	if c.Device == nil || c.Clock == nil {
		return nil, errors.New("watchdog feeder: device and clock are mandatory")
	}
	if c.FeedInterval <= 0 || c.Timeout <= 2*c.FeedInterval {
		return nil, fmt.Errorf("watchdog feeder: feed interval %v with timeout %v: the interval must be positive and less than half of the timeout",
			c.FeedInterval, c.Timeout)
	}
	f := &Feeder{
		device: c.Device, timeout: c.Timeout, interval: c.FeedInterval, clock: c.Clock,
		log: c.Logger, metrics: c.Metrics, onState: c.OnState,
		stops: make(chan stopRequest, 1), exited: make(chan struct{}),
		changed: make(chan struct{}, 1), errors: make(chan error, 1),
	}
	f.dry, _ = c.Device.(dryRun)
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.metrics == nil {
		f.metrics = NewMetrics(nil)
	}
	if f.napper = newRuntimeNap(); c.Realtime {
		nap, err := newKernelNap()
		if err != nil {
			return nil, err
		}
		f.napper, f.host = nap, linuxHost{proc: "/proc"}
	}
	f.publish(view{}, Unarmed)
	return f, nil
}

// Grant permits feeding before until and not at or after it. It replaces the permission
// given before, so that an earlier instant shortens it and zero withdraws it.
func (f *Feeder) Grant(until boottime.Instant) {
	f.until.Store(int64(until))
	f.poke()
}

// Arm asks for the device to be armed. It waits for a live grant: a countdown that nobody
// has permitted to be fed would reset the node for nothing. It does nothing while armed;
// after a failed Arm it tries again. Of Arm and Disarm in quick succession the last counts.
func (f *Feeder) Arm() {
	f.ask(&request{arm: true})
}

// Disarm asks for a magic close, also while starved: whether that is right is for the
// caller to decide. A device that is not armed is merely called Disarmed. The resulting state has at least the
// returned number as Obeyed: OnState is called in any case, even if the driver refuses or an Arm replaces the Disarm.
func (f *Feeder) Disarm(reason string) uint64 {
	return f.ask(&request{reason: reason})
}

// ask leaves a wish to the feeder. Arm and Disarm are called by one goroutine.
func (f *Feeder) ask(r *request) uint64 {
	r.number = f.asked.Add(1)
	f.request.Store(r)
	f.poke()
	return r.number
}

// Stop disarms for a planned stop and ends Run. It fails with [ErrStarved] when the
// permission to feed has ended and with [watchdog.ErrNoWayOut] when the driver cannot be stopped;
// Run then goes on, and so should the process, until it is to be ended nevertheless.
func (f *Feeder) Stop(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case f.stops <- stopRequest{ctx, reply}:
		f.poke()
	case <-f.exited:
		return f.afterExit()
	case <-ctx.Done():
		return fmt.Errorf("stop watchdog feeder: %w", ctx.Err())
	}
	select {
	case err := <-reply:
		return err
	case <-f.exited:
		select {
		case err := <-reply: // Run ended because of it
			return err
		default:
			return f.afterExit()
		}
	case <-ctx.Done():
		return fmt.Errorf("stop watchdog feeder: %w", ctx.Err())
	}
}

// afterExit is the answer to a Stop that comes too late.
func (f *Feeder) afterExit() error {
	if f.State().Armed {
		return ErrLeftArmed
	}
	return nil
}

func (f *Feeder) poke() { f.napper.poke() }

// report is the goroutine that logs and calls OnState.
func (f *Feeder) report(end <-chan struct{}) {
	told := State{Status: Unarmed} // is where it begins, which is no news
	tell := func() {
		select {
		case err := <-f.errors:
			f.feedError.Store(&err)
		default:
		}
		s := f.State()
		same := s.Status == told.Status && s.Armed == told.Armed && s.Reason == told.Reason && text(s.Err) == text(told.Err) && s.Condemned == told.Condemned && s.Unfired == told.Unfired
		if same && s.Obeyed == told.Obeyed {
			return // the same feed error again
		}
		told = s
		if !same {
			f.logState(s)
		}
		if f.onState != nil {
			f.onState(s)
		}
	}
	for {
		select {
		case <-f.changed:
			tell()
		case <-end:
			tell()
			return
		}
	}
}

func (f *Feeder) logState(s State) {
	level := slog.LevelInfo
	switch {
	case s.Status == Faulty:
		level = slog.LevelError
	case s.Status == Starved || s.Err != nil:
		level = slog.LevelWarn
	}
	f.log.LogAttrs(context.Background(), level, "watchdog state changed", slog.String("status", s.Status.String()), slog.Bool("armed", s.Armed),
		slog.Bool("dry_run", s.DryRun), slog.String("identity", s.Info.Identity), slog.Duration("timeout", s.Info.Timeout),
		slog.Bool("nowayout", s.Info.NoWayOut), slog.String("reason", s.Reason), slog.Bool("condemned", s.Condemned), slog.Duration("sentence", s.Sentence), slog.String("err", text(s.Err)))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

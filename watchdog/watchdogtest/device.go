package watchdogtest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Errors of a Device.
var (
	ErrNotArmed = errors.New("watchdog is not armed")
	ErrFired    = errors.New("the node has been reset")
	// ErrUnreadable says that a timeout was set but cannot be read back.
	ErrUnreadable = errors.New("the timeout cannot be read back")
)

// Config describes a driver. Clock is mandatory; the zero values of the other fields describe a well-behaved softdog.
type Config struct {
	Clock       boottime.Clock
	Identity    string
	Measured    watchdog.Measured
	Granularity time.Duration // the timeout is rounded up to a multiple; zero: whole seconds
	MaxTimeout  time.Duration // a longer timeout is cut to this; zero: no maximum
	Refuses     bool          // refuses to change the timeout while it counts down, without an error
	Least       time.Duration // a shorter timeout is refused while it counts down
	Garbles     bool          // a change of the timeout works, but cannot be read back
	Hides       bool          // the countdown cannot be seen without opening the device
	Pretimeout  time.Duration // only reported; nothing happens at it
	// Late returns when the watchdog fires, given the timeout that it reports; nil: at that timeout. With a result
	// below the timeout, the driver fires early.
	Late        func(timeout time.Duration) time.Duration
	NoWayOut    bool
	NoMagic     bool // any close disarms, even that of a crash
	BootFencing bool
	OnFeed      func(at boottime.Instant) // before each attempt to feed, on the feeder's goroutine
	OnFire      func(at boottime.Instant) // once, from a separate goroutine
}

// Stats counts the calls of a Device.
type Stats struct {
	Arms, Feeds, FailedFeeds, Disarms int
	// Shortened is how often the countdown was made shorter. Broken is how often it was fed or disarmed after that, or
	// armed by another process.
	Shortened, Broken int
	// AfterFire is the number of calls after the reset. If the node should be dead by then, a test expects zero.
	AfterFire int
	// Unarmed is the number of feeds while not armed.
	Unarmed int
}

// Device is a simulated watchdog.
type Device struct {
	config Config

	mu       sync.Mutex // guards everything below
	open     bool
	running  bool
	timeout  time.Duration
	last     boottime.Instant // when the countdown was last restarted
	timer    *time.Timer
	told     bool
	busy     string
	feedErr  error
	delay    time.Duration
	armError error
	stats    Stats
}

var _ watchdog.Device = (*Device)(nil)

// New returns a device that has not been opened yet.
func New(c Config) *Device {
	if c.Identity == "" {
		c.Identity = "Simulated Watchdog"
	}
	if c.Granularity == 0 {
		c.Granularity = time.Second
	}
	return &Device{config: c}
}

// SetBusy lets another process hold the device; with the empty name, the device is free again.
func (d *Device) SetBusy(holder string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = holder
}

// FailFeeds makes feeds fail without restarting the countdown, until it is called with nil.
func (d *Device) FailFeeds(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.feedErr = err
}

// DelayFeeds delays the effect of each feed by this long.
func (d *Device) DelayFeeds(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// FailArm makes Arm fail after it has opened the device, which starts the countdown. Without nowayout the countdown is
// stopped again; with nowayout, the error is a *watchdog.StillArmedError.
func (d *Device) FailArm(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armError = err
}

// Stats returns the calls seen so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Running reports whether the countdown runs; it does not after the reset.
func (d *Device) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, fired := d.fired()
	return d.running && !fired
}

// FiredAt returns when the watchdog reset the node.
func (d *Device) FiredAt() (boottime.Instant, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fired()
}

// after returns how long the watchdog counts down.
func (d *Device) after() time.Duration {
	if d.config.Late != nil {
		return d.config.Late(d.timeout)
	}
	return d.timeout
}

func (d *Device) fired() (boottime.Instant, bool) {
	at := d.last.Add(d.after())
	if !d.running || d.config.Clock().Before(at) {
		return 0, false
	}
	return at, true
}

// After returns how long the watchdog counts down after the last feed.
func (d *Device) After() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.after()
}

// Kill simulates the death of the process that holds the device: the kernel closes the device without the magic
// character. This restarts the countdown once more and leaves it running, unless the driver does not know the magic
// close. The next process can then arm the device again.
func (d *Device) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open || d.gone() {
		return
	}
	d.open = false
	if d.config.NoMagic && !d.config.NoWayOut {
		d.stop()
		return
	}
	d.restart()
}

// Arm implements watchdog.Device.
func (d *Device) Arm(timeout time.Duration) (watchdog.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone() {
		return watchdog.Info{}, fmt.Errorf("arm: %w", ErrFired)
	}
	if d.busy != "" {
		return watchdog.Info{}, fmt.Errorf("arm: %w: %s", watchdog.ErrBusy, d.busy)
	}
	if d.open {
		return watchdog.Info{}, fmt.Errorf("arm: %w: already armed", watchdog.ErrBusy)
	}
	if c := (watchdog.Countdown{Running: d.running, Timeout: d.timeout}); !d.config.Hides && c.Condemns(timeout) {
		return watchdog.Info{}, fmt.Errorf("arm: %w", watchdog.ErrCondemned)
	}
	d.broken()
	d.stats.Arms++
	d.timeout = (timeout + d.config.Granularity - 1) / d.config.Granularity * d.config.Granularity
	if d.config.MaxTimeout > 0 {
		d.timeout = min(d.timeout, d.config.MaxTimeout)
	}
	d.open, d.running = true, true
	d.restart()
	info := watchdog.Info{
		Driver: d.Known(), Timeout: d.timeout, Pretimeout: d.config.Pretimeout, NoWayOut: d.config.NoWayOut,
		MagicClose: !d.config.NoMagic, BootFencing: d.config.BootFencing,
	}
	if d.armError == nil {
		return info, nil
	}
	if d.config.NoWayOut {
		return info, &watchdog.StillArmedError{Cause: d.armError, Disarm: watchdog.ErrNoWayOut}
	}
	d.open = false
	d.stop()
	return watchdog.Info{}, d.armError
}

// Shorten implements watchdog.Device.
func (d *Device) Shorten(timeout time.Duration) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.gone():
		return 0, ErrFired
	case !d.open:
		return 0, ErrNotArmed
	case d.config.Refuses:
		return d.timeout, nil
	case timeout < d.config.Least:
		return 0, watchdog.ErrRefused
	}
	d.timeout = (timeout + d.config.Granularity - 1) / d.config.Granularity * d.config.Granularity
	d.stats.Shortened++
	d.restart()
	if d.config.Garbles {
		return 0, ErrUnreadable
	}
	return d.timeout, nil
}

// Known implements watchdog.Named.
func (d *Device) Known() watchdog.Driver {
	return watchdog.Driver{Identity: d.config.Identity, Measured: d.config.Measured}
}

// Look implements watchdog.Looker.
func (d *Device) Look() (watchdog.Countdown, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return watchdog.Countdown{Running: d.running, Timeout: d.timeout}, !d.config.Hides
}

// broken counts calls that are forbidden after the countdown was made shorter.
func (d *Device) broken() {
	if d.stats.Shortened > 0 {
		d.stats.Broken++
	}
}

// Feed implements watchdog.Device.
func (d *Device) Feed() error {
	d.mu.Lock()
	delay := d.delay
	d.mu.Unlock()
	if d.config.OnFeed != nil {
		d.config.OnFeed(d.config.Clock())
	}
	if delay > 0 {
		time.Sleep(delay)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone() {
		return ErrFired
	}
	if !d.open {
		d.stats.Unarmed++
		return ErrNotArmed
	}
	if d.feedErr != nil {
		d.stats.FailedFeeds++
		return d.feedErr
	}
	d.broken()
	d.stats.Feeds++
	d.restart()
	return nil
}

// Disarm implements watchdog.Device.
func (d *Device) Disarm() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone() {
		return fmt.Errorf("disarm: %w", ErrFired)
	}
	if !d.open {
		return nil
	}
	if d.config.NoWayOut {
		return fmt.Errorf("disarm: %w", watchdog.ErrNoWayOut)
	}
	d.broken()
	d.stats.Disarms++
	d.open = false
	d.stop()
	return nil
}

func (d *Device) gone() bool {
	_, fired := d.fired()
	if fired {
		d.stats.AfterFire++
	}
	return fired
}

func (d *Device) restart() {
	d.last = d.config.Clock()
	if d.config.OnFire == nil {
		return
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(d.after(), d.fire)
		return
	}
	d.timer.Reset(d.after())
}

func (d *Device) stop() {
	d.running = false
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *Device) fire() {
	d.mu.Lock()
	at, fired := d.fired()
	first := fired && !d.told
	d.told = d.told || fired
	d.mu.Unlock()
	if first {
		d.config.OnFire(at)
	}
}

package watchdog

import "time"

// Info is what a watchdog driver said about itself when it was armed.
type Info struct {
	Identity    string        // e.g. "Software Watchdog"
	Timeout     time.Duration // read back with WDIOC_GETTIMEOUT; this, not the wish, enters the time budget
	NoWayOut    bool          // magic close is ignored: disarming is impossible
	MagicClose  bool          // the driver honours 'V'
	BootFencing bool          // GETBOOTSTATUS: this boot follows a watchdog reset
}

// Device is a watchdog. Arming and feeding belong to the feeder's goroutine alone.
// Implementations: wdt.Device (/dev/watchdog), wdt.None and watchdogtest.Device.
type Device interface {
	// Arm opens the device, sets the timeout and reads it back. After an error the
	// device is not armed, or the error says that it could not be disarmed again.
	Arm(timeout time.Duration) (Info, error)
	// Feed restarts the countdown. It must not allocate, log or wait for a lock.
	Feed() error
	// Disarm writes the magic character and closes. It is for planned stops only;
	// an error path never calls it.
	Disarm() error
}

package watchdog

import "time"

// late are the drivers that are known to fire later than what they were set to, and read back: so long after the last feed at the
// latest. What is measured was measured on QEMU 7.2 with Linux 6.1 and 6.12.
//
// A driver that is not in it, and not any earlier than what was set, is taken at its word. How a board counts can only be measured on
// that board: fencectl watchdog test says what was seen.
var late = map[string]struct {
	latest func(timeout time.Duration) time.Duration
	least  time.Duration // it takes no shorter timeout, and sysfs does not say so
}{
	// The TCO timer of Intel's chipsets counts down twice: at the end of the first round it raises an SMI, at that of the second it resets.
	// Where the firmware takes the SMI, or has it off, the machine may be reset after the first. Linux 5.14 halved what it programs to make
	// up for that, and took it back, since other boards fired too early. Set to 3, 4, 5, 10 and 30 s, QEMU's q35 fires after 6.0, 7.2, 9.6,
	// 19.2 and 60.0 s.
	"iTCO_wdt": {func(timeout time.Duration) time.Duration { return 2 * timeout }, 3 * time.Second},
	// It knows even seconds only, and reads back what was asked for: 9 s are 10.0, 15 s are 16.0.
	"IB700 WDT": {latest: func(timeout time.Duration) time.Duration {
		const step = 2 * time.Second
		return (timeout + step - 1) / step * step
	}},
	// It counts a clock of 33 MHz in steps of a power of two: 60 s are 60.4. That is more than rounding only where the timeout is long.
	"i6300ESB timer": {latest: func(timeout time.Duration) time.Duration { return timeout + timeout*7/1000 }},
}

// granted is what every driver may be late by, here as in the bound of a sentence: less is not reckoned with.
const granted = 500 * time.Millisecond

// Latest is how long after its last feed the watchdog of a driver has fired at the latest, by what the driver calls itself. The
// earliest is the timeout itself, which feeding goes by.
func Latest(identity string, timeout time.Duration) time.Duration {
	if f := late[identity].latest; f != nil {
		if d := f(timeout); d-timeout > granted {
			return d
		}
	}
	return timeout
}

// LatestOfAny is that of the latest of all drivers that are known, for a node whose driver is not.
func LatestOfAny(timeout time.Duration) time.Duration {
	latest := timeout
	for identity := range late {
		latest = max(latest, Latest(identity, timeout))
	}
	return latest
}

// shortest is Latest for the countdown of a sentence: a driver that does not take so short a timeout is asked for the next longer one.
func shortest(identity string, timeout time.Duration) time.Duration {
	return Latest(identity, max(timeout, late[identity].least))
}

// Latest is that of the driver with the timeout that it was read back to have; 0: that is not known.
func (i *Info) Latest() time.Duration { return Latest(i.Identity, i.Timeout) }

// Named is a Device that knows what its driver calls itself before it is armed; "": it does not.
type Named interface{ Identity() string }

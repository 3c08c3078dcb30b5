package boottime

import "golang.org/x/sys/unix"

// Now reads CLOCK_BOOTTIME. It does not allocate.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Linux >= 2.6.39 always has this clock; without it no deadline can be kept.
		panic("boottime: CLOCK_BOOTTIME: " + err.Error())
	}
	return Instant(ts.Nano())
}

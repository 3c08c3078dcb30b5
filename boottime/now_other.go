//go:build !linux

package boottime

// Now needs Linux. No other clock replaces it: one that stops while the machine is suspended would keep no deadline.
func Now() Instant { panic("boottime: CLOCK_BOOTTIME needs Linux") }

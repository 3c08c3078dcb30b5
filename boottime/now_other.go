//go:build !linux

package boottime

// Now needs Linux. A clock that stops while the machine is suspended would keep no promise, so
// there is none in its place.
func Now() Instant { panic("boottime: CLOCK_BOOTTIME needs Linux") }

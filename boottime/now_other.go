//go:build !linux

package boottime

// Now needs Linux. Another clock cannot replace it: a clock that stops while the machine is suspended would miss
// deadlines.
func Now() Instant { panic("boottime: CLOCK_BOOTTIME needs Linux") }

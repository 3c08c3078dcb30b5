package netgossip

import "time"

// MaxSentence is T_max: if a watchdog's timeout is not longer than this, its boot is condemned. It is a constant of the
// protocol: agents with other configurations rely on it, and so does an agent that starts after another one in the same
// boot.
const MaxSentence = 3 * time.Second

// driverSlack is the most by which a driver may be late in one countdown: the minimum heartbeat, and the reset itself.
const driverSlack = 500 * time.Millisecond

// SentenceBound returns B: the time, by a node's own clock, from hearing a sentence until the condemned boot has
// certainly ended. The countdown is the timeout plus the driver's delay. It may run twice: the process that holds the
// device may be killed at the last moment, and the kernel restarts the countdown when it closes the device. One percent
// is added for clocks of different speed.
func SentenceBound(timeout time.Duration) time.Duration {
	twice := 2 * (timeout + driverSlack)
	return twice + twice/100
}

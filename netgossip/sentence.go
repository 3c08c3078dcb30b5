package netgossip

import "time"

// MaxSentence is T_max: a watchdog whose timeout is no longer is that of a condemned boot. It is a constant of the
// protocol: agents of other configurations go by it, and so does one that starts after another in the same boot.
const MaxSentence = 3 * time.Second

// driverSlack is what a driver may be late by in one countdown: its least heartbeat, and the reset itself.
const driverSlack = 500 * time.Millisecond

// SentenceBound is B: so long after a sentence was told, by the clock of who heard it, the boot has ended. The countdown
// is the timeout and what the driver is late by. It may run twice: the process that holds the device is killed in the last
// moment, and the kernel begins again when it closes it. One part in a hundred is for clocks of different speed.
func SentenceBound(timeout time.Duration) time.Duration {
	twice := 2 * (timeout + driverSlack)
	return twice + twice/100
}

package netgossip

import "time"

// MaxSentence is T_max: a watchdog whose timeout is no longer is that of a condemned boot. It is a constant of the
// protocol: agents of other configurations rely on it, and so does one that starts after another in the same boot.
const MaxSentence = 3 * time.Second

// driverSlack is how late a driver may be in one countdown: its least heartbeat, and the reset itself.
const driverSlack = 500 * time.Millisecond

// SentenceBound is B: how long after a node heard a sentence, by its own clock, the condemned boot has ended for
// certain. The countdown is the timeout plus how late the driver is. It may run twice: the process that holds the
// device may be killed at the last moment, and the kernel restarts the countdown when it closes the device. One part in
// a hundred is for clocks of different speed.
func SentenceBound(timeout time.Duration) time.Duration {
	twice := 2 * (timeout + driverSlack)
	return twice + twice/100
}

// Package wdt feeds the kernel's watchdog: it opens /dev/watchdog, sets and reads back
// its timeout, and restarts its countdown for exactly as long as that is permitted.
//
// # State and invariants
//
// A [Device] is /dev/watchdog, a [None] is the dry run that arms nothing. A [Feeder]
// owns one of them and is always in one state:
//
//	          Arm + live grant          grant ended
//	Unarmed ---------------------> Armed ----------> Starved
//	   |                           | ^ ^ new grant in  | |
//	   | Disarm      Disarm, Stop  | | |     time      | | timeout
//	   v                           | | +---------------+ | passed
//	Disarmed <---------------------+ |                   v unfed
//	                                 +-- feed works -- Faulty
//
// Faulty is also a device that could not be armed, and one whose feeds fail. The dry run
// returns from a timeout that passed to Armed.
//
//   - Permission to feed is a lease. [Feeder.Grant] stores the instant at which it ends,
//     nothing but a further Grant extends it, and the clock is read immediately before
//     each feed. A decision loop that hangs therefore starves the watchdog by itself.
//   - No feed follows a Disarm, and none follows a countdown that ran out: a driver that
//     should have reset the node and did not may still do so late, and the peers already
//     count on it. Such a node is Faulty until it resets or is disarmed on purpose.
//   - Nothing is disarmed by an error, by the end of Run's context or by a garbage
//     collected file: a crash must fence. Only [Feeder.Disarm] and [Feeder.Stop] write the
//     magic character, and Stop refuses while starved, since a restart of the agent must
//     not rescue a node that its peers are about to call fenced.
//   - A feed that fails is counted and repeated until the grant ends.
//   - With nowayout, disarming is impossible: it fails with [watchdog.ErrNoWayOut], the descriptor
//     stays open and the feeder goes on feeding while it is granted. A person who wants the node
//     to live through a maintenance must then keep on granting.
//
// The kernel restarts the countdown once more when the last descriptor of an armed
// watchdog is closed without the magic character, which includes the death of the
// process. A starved agent that is killed thus gains up to one more timeout; for that
// reason the agent must not exit while the state is Starved, and the time budget contains
// the timeout twice.
//
// If systemd keeps a copy of the descriptor ([Device.Use]), the death of the process closes nothing, and the next
// agent arms with that copy instead of opening the device. systemd may drop it at any time, which is the close that
// the budget allows for.
//
// # Concurrency
//
// [Feeder.Run] is the only caller of the device's methods, with Config.Realtime on an OS thread of its own.
// Grant, Arm, Disarm and State may be called from any goroutine and never block; Stop
// blocks until the feeder answered or its context ends. Grant, Arm and Disarm leave
// their argument in an atomic and wake the feeder; the feed path takes no lock, does
// not allocate and does not log. A second goroutine, owned by Run, logs and calls
// Config.OnState.
//
// # What blocks
//
// Feeding is one ioctl or one-byte write, microseconds on every driver but those behind a
// service processor (IPMI), where it may take tens of milliseconds. Arm may block as
// long as open(2) of the driver does; it happens before there is anything to feed. [Device.Probe]
// finds at the start of an agent most of what would make Arm fail, without opening.
//
// # Errors
//
// They say what to do, since each ends in front of an operator. [watchdog.ErrNoWayOut], [watchdog.ErrBusy],
// [ErrStarved] and [ErrLeftArmed] can be distinguished. A [watchdog.StillArmedError] says that the countdown runs on.
//
// The unit tests run over a simulated kernel; watchdog/watchdogtest holds the double for
// the tests of others and the conformance suite that all devices pass.
package wdt

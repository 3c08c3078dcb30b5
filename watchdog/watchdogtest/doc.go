// Package watchdogtest has a simulated watchdog, and the conformance suite that it shares with the real ones.
//
// A [Device] counts down on the clock it is given, which in a testing/synctest bubble is virtual. It behaves as the
// kernel's watchdog core does: the timeout may be rounded, a second open is refused, nowayout ignores the magic close,
// and the death of the process ([Device.Kill]) restarts the countdown once more. A countdown that runs out is final:
// the node is gone, [Device.FiredAt] returns since when, and every later call is counted in [Stats].AfterFire.
//
// The methods of a Device may be called from any goroutine. Unlike a real device it takes a mutex, held for a few
// instructions and never while a feed is delayed.
//
// wdt.Device over a simulated kernel, wdt.None and this Device all pass the suite [Conform], so results of tests with
// the simulated Device also apply to the real one.
package watchdogtest

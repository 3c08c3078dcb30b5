// Package trial tests whether a watchdog resets its machine: it arms the watchdog, which feeds it once, and never feeds
// it again. fencectl watchdog test uses it.
//
// Run blocks until the machine is reset, the context ends, or the watchdog has failed the trial. It is called from one
// goroutine.
package trial

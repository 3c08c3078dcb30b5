// Package trial tries whether a watchdog resets its machine: it arms one, feeds it once, by arming it, and never again. It is
// what fencectl watchdog test does.
//
// Run blocks until the machine is reset, the context ends, or the watchdog has failed the trial. It is called from one goroutine.
package trial

// Package recorder keeps the agent's history on disk, so that it survives the reset of its node, and writes one line to
// the kernel's log before the end. The agent's loop calls Note, which never blocks; the status page and the status call
// Recent and Before.
//
// # Concurrency and blocking
//
// Invariant: the part that feeds the watchdog never waits for anything here. The disk has its own goroutine, and so has
// /dev/kmsg. Between them and the loop are queues that drop and count what does not fit. A disk that hangs blocks its
// goroutine for as long as it hangs; Run still returns [stopPatience] after its context has ended.
package recorder

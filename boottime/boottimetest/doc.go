// Package boottimetest has what a test needs inside a bubble of testing/synctest, where time is virtual and a
// goroutine that waits for the kernel keeps it from passing.
//
//   - [Clock] is a clock of the agent that goes with the bubble's time.
//   - [Pipes] is a listener without sockets.
//
// Both must be made inside the bubble, and may be used from any goroutine in it. Pipes.Hand and Pipes.Accept wait for
// each other; nothing else blocks.
package boottimetest

// Package boottimetest has what a test needs inside a bubble of testing/synctest, where time is virtual and does not
// pass while a goroutine waits for the kernel.
//
//   - [Clock] is a clock for the agent that advances with the bubble's time.
//   - [Pipes] is a listener without sockets.
//
// Both must be made inside the bubble, and may be used from any goroutine in it. Pipes.Hand and Pipes.Accept wait for
// each other; nothing else blocks.
package boottimetest

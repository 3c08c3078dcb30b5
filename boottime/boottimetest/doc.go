// Package boottimetest has helpers for tests inside a bubble of testing/synctest, where time is virtual and does not
// advance while a goroutine waits for the kernel.
//
//   - [Clock] is a clock for the agent that advances with the bubble's time.
//   - [Pipes] is a listener without sockets.
//
// Both must be created inside the bubble, and may be used from any goroutine in it. Pipes.Hand and Pipes.Accept wait
// for each other; nothing else blocks.
package boottimetest

// Package dog is the watchdog of a node that has no kernel of its own: a device that counts down
// in the guest and ends the node when nobody feeds it.
//
//	agent (in its container) --(Unix socket /dev/watchdog)--> guest: [Serve] --(OnFire)--> the node ends
//
// [Device] is what an agent opens, with the rules of a driver of the kernel: the countdown begins
// with the opening, a close that was not announced restarts it and lets it run on, and a second
// opening is refused while there is a first. The rules themselves are watchdogtest's, which the
// agents' other tests rely on.
//
// A countdown that ends late, because the host is busy, is one that a kernel would not have: the
// scenarios look at when the node really ended.
//
// # Concurrency and blocking
//
// [Serve] blocks until its listener is closed. A [Device] belongs to one goroutine, but for
// [Device.Look]; each call waits for the guest's answer.
package dog

// Package control is what the harness and the first process of a virtual machine say to each other: the [Boot] file
// that an image carries for each machine, and lines of JSON over a virtio port, which no network under test touches.
//
// # State and invariants
//
// Plain values; no state. A line is one [Message] or one [Request]. A machine that is reset in the middle of a line
// leaves a torn one: both sides skip what they cannot read, and a guest begins each session with an empty line and a
// Hello, by which the harness knows that nothing asked before will be answered.
//
// # Concurrency, blocking, errors
//
// Nothing here blocks or fails.
package control

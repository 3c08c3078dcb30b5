// Package control is the protocol between the harness and the first process of a virtual machine: the [Boot] file
// that an image contains for each machine, and lines of JSON over a virtio port, which is not part of a network under
// test.
//
// # State and invariants
//
// The package has only plain values and no state. A line is one [Message] or one [Request]. A machine that is reset
// in the middle of a line leaves an incomplete line, so both sides skip lines that they cannot read. A guest begins
// each session with an empty line and a Hello. After a Hello the harness knows that earlier requests will not be
// answered.
//
// # Concurrency, blocking, errors
//
// Nothing here blocks or fails.
package control

// Package agent wires one fencing agent together: the gossip instances, the LUN, the
// Kubernetes probe and the disable file on the one side, the watchdog's feeder, the
// gRPC socket and the HTTP listener on the other, and the decision core in between.
//
// # Data flow
//
//	swim, iface, rawdev, apicheck, files --> mailbox --> loop: watchdog.Core.Step --> effects
//	effects, in this order: the feeder's permission, the LUN's next I/O, the statement for
//	the peers, the published set, the log line
//
// # Invariants
//
//   - One goroutine, the loop, owns the core. Nothing else reads or writes it; status
//     pages show a picture that the loop took.
//   - The loop never waits: not for a disk, a peer, a client, the watchdog or a log pipe that it could avoid. If it
//     hangs nevertheless, the permission to feed expires by itself.
//   - Permission is withdrawn before anything else is done with a verdict.
//   - A planned stop disarms the watchdog, after peers and slot have been told; an error
//     never does.
//
// # Errors
//
// What is wrong with the configuration or the machine at start ends [Run] with one error that says what to do. After
// the start only a conflict over the node's identity ends Run; all else is logged, shown in status and metrics, and
// tried again.
package agent

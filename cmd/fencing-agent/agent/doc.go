// Package agent connects the parts of one fencing agent. On one side are the gossip instances, the LUN, the Kubernetes
// probe and the disable file. On the other are the watchdog's feeder, the gRPC socket and the HTTP listener. The
// decision core is in between.
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
//     pages show a snapshot that the loop created.
//   - The loop waits for nothing that it could avoid: not for a disk, a peer, a client, the watchdog or a log pipe. If it hangs nevertheless, the
//     permission to feed expires by itself.
//   - Permission is withdrawn before anything else is done with a verdict.
//   - A planned stop disarms the watchdog, after peers and slot have been told; an error
//     never does.
//
// # Errors
//
// A fault of the configuration or the machine at the start ends [Run] with one error that says what to do. After the
// start only a conflict over the node's identity ends Run; every other fault is logged, shown in status and metrics,
// and the attempt is repeated.
package agent

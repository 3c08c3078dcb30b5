// Package watchdog decides whether this node's watchdog may be fed, until when, and why. It also decides what is
// published about the group.
//
// # State and invariants
//
// [Core] owns the merger of netgossip and steps one tie-breaker (tie.Breaker): the arbiter of diskquorum, or another
// one, about which it knows nothing else. Events go in through its methods, [Core.Step] turns them into [Effects].
// [Decide] is the decision itself: a total function over a small struct, whose table is in testdata/decision_table.txt.
// The [Prover] finds which other nodes are dead. It gets, in one value, the grounds on which this node may live, and
// knows nothing else of the core.
//
//   - A decision is a lease: Until says how long it holds, and the feeder checks it on
//     CLOCK_BOOTTIME right before each feed. Code that hangs, sleeps or is suspended
//     stops feeding by itself.
//   - No decision outlives the evidence it rests on by more than D_max, or by D_max+A
//     while a tie is being arbitrated. Only a counted majority restarts that clock (L8).
//   - The watchdog is not armed before quorum has been seen once, so a node that boots into a partition does not reset
//     in a loop.
//   - Every decision has exactly one [Reason].
//
// # Concurrency
//
// Pure: no I/O, no clock, no locks. One goroutine owns a Core (cmd/fencing-agent/agent).
// The adapters are watchdog/wdt; watchdog/watchdogtest has a watchdog for tests.
package watchdog

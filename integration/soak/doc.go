// Package soak runs a cluster of real agents in network namespaces, on one LUN, breaks it
// at random for as long as it is told to, and checks all the while what must hold. It is what
// "laboratory soak" and `make soak` run.
//
// # What it does
//
// Round after round one to two faults begin, last a while and end; then everybody must count
// everybody again, and a calm time follows. A [Plan] makes the rounds from a seed and knows
// nothing of what happens, so a seed replays the schedule, though not the timing.
//
// All the while somebody on every cable sends old packets again, of any node to any node, through
// every cut. With an odd seed the agents have a gossip key, and some of those packets another version
// of the encryption.
//
// By default the agents run dry. With Options.Armed they have simulated watchdogs and the default timing: a node whose watchdog
// fires is down until the faults of its round have ended, and comes back in another boot. The report says which
// watchdog fired, and what its node said last. Options.Busy and Options.Blink take processors and the LUN away all
// the while.
//
// # What it checks
//
//   - Two nodes whose views have no common member are never both permitted to feed for
//     longer than the budget allows the loser of a tie.
//   - Nobody calls a node LEFT that no fault of the round gives a reason to: not in calm
//     times, not for a loss of packets or of one network, not for a planned restart, and not
//     among nodes on the same side of a cut.
//   - Who is gone for long enough is LEFT; after every round all is as before.
//   - No agent ends by itself. Memory, goroutines and descriptors of the agents that were
//     never restarted are at the end what they were after the first rounds.
//
// # Structure
//
// plan.go and judge.go are pure and tested; cluster.go, resets.go, hosts.go and replay.go act on a lab; watch.go reads the
// agents through package observe; report.go prints; options.go is what the caller sees.
//
// # Concurrency and blocking
//
// Run blocks until the time is over or the context ends, and needs root. Nothing outside the lab is
// touched: the loop device of the LUN and the file below it end with this process, also if it is killed.
package soak

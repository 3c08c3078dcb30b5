// Command laboratory shows, measures and breaks whole clusters on one machine. `make demo`,
// `make simulate` and `make soak` run it; bin/laboratory is never installed on a node.
//
// It is separate from fencectl because it contains what it examines: the agent, memberlist, the simulators, a
// firewall. An operator's tool has no use for these.
//
// # Structure
//
// Each verb has a constructor newVerbCommand(env) that returns its cobra command; what it does is in a package of its own
// beside this one. The scenes that real agents play (scenes.go) have one way to run and one flag --bin for the programs. Verbs
// take streams and environment variables from the [environment], so that tests run them in-process.
//
// Some of what the verbs need has to be a process of its own: an agent
// in another boot of the kernel, a simulation in its bubble. For these the program
// starts itself, with a hidden command (roles.go) or flag.
//
// # Errors
//
// A verb returns its error and prints none. run prints each on one line of stderr and turns
// it into the exit code: 2 for bad usage, else 1. SIGINT, SIGTERM and SIGHUP end the context of a verb.
package main

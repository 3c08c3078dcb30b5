// Command laboratory shows, measures and breaks whole clusters on one machine. `make demo`, `make simulate` and `make
// soak` run it; bin/laboratory is never installed on a node.
//
// It is separate from fencectl because it contains what it examines: the agent, memberlist, the simulators, a firewall.
// An operator's tool has no use for these.
//
// # Structure
//
// Each command has a constructor newVerbCommand(env) that returns its cobra command. A separate package beside this one
// does its work. The scenes with real agents (scenes.go) are run in one way and have one flag --bin for the programs.
// Commands take streams and environment variables from the [environment], so that tests can run them in-process.
//
// Some parts need their own process: an agent in another boot of the kernel, and a simulation in its bubble. For these
// the program starts itself, with a hidden command (roles.go) or a flag.
//
// # Errors
//
// A command returns its error and prints none. run prints each on one line of stderr and turns it into the exit code: 2
// for bad usage, else 1. SIGINT, SIGTERM and SIGHUP end the context of a command.
package main

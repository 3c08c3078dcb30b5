// Package memberbook defines how fencing-controller numbers the list of a group's members, and which of these lists an
// agent refuses (docs/adr/0049).
//
// [Step] is the controller's side. It creates the next book, if there has to be one, from three inputs: the present
// book, the names of the group's Nodes, and the addresses that the agents have reported. Its caller reads the book
// before the Nodes, and writes under the version that it has read. [Gate] is the agent's side: it refuses lists before
// they are proposed to the group.
//
// The package is pure: no I/O, no clock, no locks. One goroutine owns a Gate, and one owns a [Doubt].
package memberbook

// Package memberbook is how fencing-controller numbers the list of a group's members, and what an agent does not believe of
// such a list (docs/adr/0049).
//
// [Step] is the controller's side: from the book as it stands, the names of the group's Nodes and what the agents have told of
// their addresses it makes the next book, if there is to be one. Its caller reads the book before the Nodes and writes under the
// version that it has read. [Gate] is the agent's side: it refuses lists before they become proposals to the group.
//
// The package is pure: no I/O, no clock, no locks. One goroutine owns a Gate, and a [Doubt].
package memberbook

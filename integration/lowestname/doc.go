// Package lowestname is a tie-breaker that nobody should use: of two halves the one with the lowest name lives. It
// shows what a third tie-breaker takes, by a test that wires it through the core of the decision and changes nothing
// there: this package, an entry in the tie-breakers and a value of quorum.tieBreak (cmd/fencing-agent/config) and a line
// that starts it (cmd/fencing-agent/agent). The agent offers no such value.
//
// It writes nothing down, and so keeps less than tie.Breaker promises: nothing but the views that members state
// keeps a half from being granted beside another with the same lowest name, and nobody's horizon is waited for. The half
// without that name is lost even if the other one is dead.
package lowestname

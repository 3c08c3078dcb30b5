// Package roster defines the list of a group's expected members, sets of members, and the rules by which one list
// replaces another.
//
// A [Roster] is a list of members with an epoch. Quorum is counted against it and never against the number of members
// that happen to be alive. A [Set] holds members by their index in one roster, and a [Renumbering] translates the
// indices of one roster into those of another.
//
// A [Succession] takes a group from one list to the next, under majorities of both, so that at
// most one part of a split network has quorum at every moment of the change.
//
// # Concurrency
//
// The package is pure: no I/O, no clock, no locks. A roster does not change after it has been created; one goroutine
// owns a Succession.
package roster

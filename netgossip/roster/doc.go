// Package roster has the list of a group's expected members, sets of members, and the rules by which one list follows
// another.
//
// A [Roster] is a list of members with an epoch. Quorum is counted against it and never against the
// number of members that happen to be alive. A [Set] is members by their index in one roster, and a
// [Renumbering] leads from the indices of one to those of another.
//
// A [Succession] takes a group from one list to the next, under majorities of both, so that at
// most one part of a split network has quorum at every moment of the change.
//
// # Concurrency
//
// The package is pure: no I/O, no clock, no locks. A roster does not change once it is made; one
// goroutine owns a Succession.
package roster

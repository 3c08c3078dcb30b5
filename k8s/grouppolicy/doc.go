// Package grouppolicy is what a group of nodes should run with, as the objects FencingGroup and NodeGroup say it, and how that
// compares with what its agents do run with (docs/adr/0067).
//
// [Resolve] makes one policy of what is said of each group, [Differ] compares, and [Merge] is the next status of a FencingGroup.
// Nothing here changes what an agent does: no settings are taken from a policy.
//
// The package is pure: no I/O, no clock, no locks.
package grouppolicy

// Package hookdir runs the programs of a directory when a death is proven, or turns out to be none, for
// fencectl hooks.
//
//	news --> [Runner.Tell] --> a queue for each node --> the programs of the directory, one after another
//
// # Invariants
//
//   - Tell never waits: what programs do delays nobody who tells.
//   - What is told of one node runs in the order in which it was told, one program at a time; nodes do not wait for
//     each other. A withdrawal never runs beside, or before, what it takes back.
//   - No program is started for a death whose withdrawal was told, and one that runs is ended: the node runs.
//   - A program that takes longer than its timeout is ended, with all that it has started and that stayed in its group.
//   - Only programs that nobody but root, or the user who runs this, can change are run.
//
// The directory is read for each event, so that what is put there counts from then on.
//
// # Concurrency, blocking, errors
//
// All methods may be called from any goroutine. There is one goroutine for each node that has something to run;
// [Runner.Close] ends what runs, and waits for it. Whatever goes wrong with a program is told by Config.Say, and the
// next one runs all the same.
package hookdir

// Package script runs the programs as their users do: real processes, real sockets on
// the loopback, files as LUNs. Each script in testdata is one story, mostly of one
// mistake: what is said, what the exit code is, and that nothing was overwritten.
//
// # State and invariants
//
// The programs are built once per run, into a folder that the run removes. Each script has
// a random network of loopback addresses and random ports of its own, so scripts and
// packages may run at the same time. Processes belong to the script that started them and
// are killed with it.
//
// # Who calls it
//
// `go test`; scripts run in parallel, each on the goroutine of its subtest. Nothing here
// needs root. Scripts that need a user without rights, a network namespace or direct I/O
// skip, with the reason printed, where those cannot be had.
//
// # What blocks
//
// A script waits for conditions, never for a time to pass, and each wait has a limit.
//
// # Errors
//
// A failed script shows its last phase; the logs of its agents follow.
package script

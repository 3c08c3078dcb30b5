// Package script runs the programs as their users do: real processes, real sockets on the loopback, files as LUNs. Each
// script in testdata is one story, usually of one mistake: what is printed, what the exit code is, and that nothing was
// overwritten.
//
// # State and invariants
//
// The programs are built once per run, into a directory that the run removes. Each script has its own random network of
// loopback addresses and its own random ports, so scripts and packages may run at the same time. Processes belong to
// the script that started them and are killed with it.
//
// # Who calls it
//
// `go test` calls it. Scripts run in parallel, each on the goroutine of its subtest. No script needs root. Scripts that
// need a user without rights, a network namespace or direct I/O print the reason and skip where these are not
// available.
//
// # What blocks
//
// A script waits for conditions, never for a time to pass, and each wait has a limit.
//
// # Errors
//
// A failed script prints its last phase; the logs of its agents follow.
package script

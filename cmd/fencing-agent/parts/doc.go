// Package parts keeps track of the parts that an agent lacks: a network without an address, a watchdog without a
// driver, a listener whose address another program has. An agent starts with the parts that are available, reports what
// is missing, and starts a missing part when it becomes available (docs/adr/0071). Each part reports here how its
// latest attempt ended; the programs that show troubles read them here.
//
// # Concurrency
//
// All methods may be called from any goroutine. Only [List.Keep] blocks.
package parts

// Package parts keeps track of the parts that an agent lacks: a network without an address, a watchdog without a
// driver, a listener whose address another program has. An agent starts with the parts that there are, says what is
// missing, and starts a missing part when it becomes available (docs/adr/0071): each part reports here how its latest
// attempt ended, and what shows troubles reads them here.
//
// # Concurrency
//
// All methods may be called from any goroutine. None blocks but [List.Keep].
package parts

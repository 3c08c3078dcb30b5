// Package parts keeps track of the parts that an agent lacks: a network without an address, a watchdog without a
// driver, a listener whose address another program has. An agent starts with what there is, says what is missing, and
// starts it when it appears (docs/adr/0071): each part reports here how its latest attempt ended, and everybody who
// shows troubles asks here.
//
// # Concurrency
//
// All methods may be called from any goroutine. None blocks but [List.Keep].
package parts

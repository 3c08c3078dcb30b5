// Package statuspage is the page at / of the agent's HTTP listener: what fencectl status shows, and the last day, for a
// browser. How it is served, and who may see it, is in api/page.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http. None of them touches the agent's loop: they read the status that the loop has
// published.
package statuspage

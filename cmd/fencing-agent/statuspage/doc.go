// Package statuspage is the page at / of the agent's HTTP listener: the output of fencectl status, and the last day,
// for a browser. Serving and access control are in api/page.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http. None of them touches the agent's loop: they read the status that the loop
// has published.
package statuspage

// Package statuspage is the page at / of the agent's HTTP listener: what fencectl status shows, and the last day, for a
// browser. The HTML is made here and complete without script; the script only replaces parts of it by newer ones, which
// come as server-sent events from what also feeds WatchStatus. Nothing is fetched from elsewhere, and nothing can be
// changed: all requests are GET.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http, which may block on its client for writeLimit at most. None of them touches
// the agent's loop: they read the status that the loop has published.
package statuspage

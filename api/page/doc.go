// Package page is the common part of the status pages of fencing-agent and fencing-controller: access control, style
// and script, and the server-sent events that keep them up to date. The HTML is complete without the script, which only
// replaces sections by newer ones. The page loads nothing from elsewhere, and can change nothing: all requests are GET.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http, which may block on its client for at most writeLimit. All functions of a
// [Config] may be called from any of them, at the same time.
package page

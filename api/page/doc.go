// Package page is what the status pages of fencing-agent and fencing-controller share: who may see them, their style
// and script, and the server-sent events that keep them up to date. The HTML is complete without the script, which
// replaces sections by newer ones. Nothing is fetched from elsewhere, and nothing can be changed: all requests are GET.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http, which may block on its client for writeLimit at most. All functions of a [Config]
// may be called from any of them, at the same time.
package page

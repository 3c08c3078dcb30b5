// Package page drives a real browser, chromium without a window, against the status pages of agents that run here,
// through a split and its end. It is a module of its own, since what speaks to the browser is nobody else's business.
// make test-page runs it.
package page

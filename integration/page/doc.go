// Package page drives a real browser, chromium without a window, against the status pages of agents that run here,
// through a split and its end. It is a separate module, because only these tests need the browser's protocol. make
// test-page runs it.
package page

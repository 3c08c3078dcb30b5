// Package statefile reads and replaces the files that the agent keeps for itself: what it must remember over a
// restart, such as the lists of members and the terms of tie-breaks.
//
// All functions may block for as long as the disk does, so they are for goroutines that may wait, and for the
// start. They share nothing and may be called from any goroutine; one file has one writer.
package statefile

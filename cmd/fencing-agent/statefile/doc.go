// Package statefile reads and replaces the files that the agent keeps for itself: what it must remember over a restart,
// such as the lists of members and the settings of tie-breaks.
//
// All functions may block for as long as the disk does, so they are only called at the start, or from goroutines that
// may wait. They share nothing and may be called from any goroutine; one file has one writer.
package statefile

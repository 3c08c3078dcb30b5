// Package doctor looks at a machine on which an agent will run, or runs: watchdogs and the processes that hold them,
// systemd, keys, networks, and the storage's time limits. fencectl doctor and fencectl watchdog list print its
// findings.
//
// It only reads files below a root, which a test can create. The exception is the parts of the agent: these are checked
// with the code of the agent's start, on this machine. It opens no device and changes nothing. No finding contains any
// part of a key. Its functions are called from one goroutine, and may block on a file system that hangs.
package doctor

// Package doctor looks at a machine on which an agent is to run, or runs: watchdogs and who holds them, systemd, keys, networks,
// and the storage's time limits. It is what fencectl doctor and fencectl watchdog list print.
//
// It only reads files below a root, which a test makes. The exception is the parts of the agent: these are checked
// with the code of the agent's start, on this machine. It opens no device and changes nothing. No finding contains any
// part of a key. Its functions are called from one goroutine, and may block on a file system that hangs.
package doctor

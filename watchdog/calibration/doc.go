// Package calibration is the file that shows how late the watchdogs of this machine fire. fencectl watchdog test writes it
// while it leaves a watchdog unfed; after the reset the agent reads from it what happened, and reckons with it.
//
// The file is lines of JSON: one for each trial, and below it one for each moment at which the machine still ran. All of this
// is pure: cmd/fencing-agent/trials reads and writes the file.
package calibration

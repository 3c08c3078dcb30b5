package wdt

import (
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

var (
	// ErrStarved says that a planned stop was refused since the permission to feed has ended.
	ErrStarved = errors.New("permission to feed has ended: the watchdog is left to expire")
	// ErrLeftArmed says that the feeder ended while its watchdog counts down.
	ErrLeftArmed = errors.New("watchdog left armed: the node will reset when its timeout passes")

	errNotArmed     = errors.New("watchdog is not armed")
	errAlreadyArmed = errors.New("watchdog is already armed")
	errNotWatchdog  = errors.New("not a watchdog device: set watchdog.device to /dev/watchdog or /dev/watchdogN")
	errOverdue      = errors.New("watchdog timeout passed unfed: the node should be resetting now; feeding stays off")
	errTooLate      = errors.New("peers know when this node is dead, and it might outlive that with a new countdown")
)

// unbelieved says why a watchdog that could be armed is not; nil: it is.
func unbelieved(d watchdog.Driver) error {
	switch {
	case d.Measured.Failed:
		return fmt.Errorf("%q did not reset this node when that was tried: look for another driver, or for what feeds it, and try again with fencectl watchdog test", d.Identity)
	case d.Measured.Unproven && d.Identity == "":
		return errors.New("the driver is not in /sys/class/watchdog, so it cannot be tested, and watchdog.driver demands a test: load a driver that appears there, or set watchdog.driver to \"device\"")
	case d.Measured.Unproven:
		return fmt.Errorf("%q was never seen to reset this node, and watchdog.driver is tested: try it with fencectl watchdog test, or set watchdog.driver to device", d.Identity)
	}
	return nil
}

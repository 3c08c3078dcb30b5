package wdt

import (
	"fmt"
	"strings"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// IdentityPrefix marks a watchdog that is chosen by what its driver calls itself, for hosts
// that have several and number them in another order at each boot.
const IdentityPrefix = "identity:"

// Find describes the watchdog that spec names: the path of a device, or [IdentityPrefix] and
// the identity in /sys/class/watchdog, e.g. "identity:iTCO_wdt". It opens nothing. Exactly
// one watchdog must have the identity: the first of two alike may be the one that does
// not reach the reset line.
func Find(spec string) (*Device, error) { return find(NewDevice(spec), spec) }

func find(d *Device, spec string) (*Device, error) {
	d.spec = spec
	if err := d.resolve(); err != nil {
		return nil, err
	}
	return d, nil
}

// Named describes the watchdog that spec names as [Find] does, whether it is there or not: it is looked for at each Arm,
// Probe and Look, so that a driver may be loaded later, and get any number.
func Named(spec string) *Device {
	d := NewDevice(spec)
	d.spec = spec
	return d
}

// resolve finds the path of the device, which has to be looked for by its identity.
func (d *Device) resolve() error {
	want, byIdentity := strings.CutPrefix(d.spec, IdentityPrefix)
	switch {
	case d.spec == "" || d.fd >= 0:
		return nil // the path is known
	case !byIdentity:
		d.path = d.spec
		return nil
	}
	var found, others, silent []string
	for _, name := range d.class() {
		switch identity, ok := d.attribute(name, "identity"); {
		case ok && identity == want:
			found = append(found, name)
		case ok:
			others = append(others, fmt.Sprintf("%q (%s)", identity, name))
		default:
			silent = append(silent, "/dev/"+name)
		}
	}
	switch {
	case len(found) == 1:
		d.path = "/dev/" + found[0]
		return nil
	case len(found) > 1:
		return fmt.Errorf("watchdog %q: %s have this identity: name one by its path in watchdog.device", want, strings.Join(found, " and "))
	case len(others) > 0:
		return fmt.Errorf("watchdog %q: no driver says so, but there is %s: correct watchdog.device or load the driver", want, strings.Join(others, ", "))
	case len(silent) > 0: // a driver is loaded: that is not the advice that helps
		return fmt.Errorf("watchdog %q: this kernel was built without CONFIG_WATCHDOG_SYSFS and does not say what its watchdogs are: name one by its path in watchdog.device; there is %s", want, strings.Join(silent, ", "))
	default:
		return fmt.Errorf("watchdog %q: the kernel has none: load the driver of the hardware or run `modprobe softdog`", want)
	}
}

// Known implements watchdog.Named, by sysfs.
func (d *Device) Known() watchdog.Driver {
	f, err := d.survey()
	if err != nil {
		return watchdog.Driver{}
	}
	return d.driver(f.identity)
}

// Path is the device node, for people.
func (d *Device) Path() string { return d.path }

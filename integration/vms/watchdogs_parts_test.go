package vms

import (
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// part is a watchdog in a machine that QEMU emulates, and its expected behaviour.
type part struct {
	name        string
	board       string   // QEMU's machine type
	qemu        []string // more arguments of QEMU
	modules     []control.Module
	device      string // watchdog.device; empty: /dev/watchdog
	path        string // path of the device, if fencectl must be given it
	identity    string // the name that its driver reports
	timeout     time.Duration
	fires       time.Duration // time after the last feed; 0: never
	unlisted    bool          // the agent is built without the driver in its table of late drivers
	outside     bool          // it does not use the kernel's watchdog core, is not in sysfs, and cannot be tried
	needsKernel bool          // after a kernel panic it fires late, or not at all
	short       bool          // it belongs to the short set
}

// core returns the modules of a driver that uses the kernel's watchdog core, loaded as deploy/node/modprobe.d says.
func core(drivers ...control.Module) []control.Module {
	return append([]control.Module{{Path: "watchdog", Options: "stop_on_reboot=0"}}, drivers...)
}

var (
	softdog  = control.Module{Path: "softdog", Options: "nowayout=0 soft_panic=0"}
	i6300esb = control.Module{Path: "i6300esb"}
	itco     = []control.Module{{Path: "lpc_ich"}, {Path: "i2c_i801"}, {Path: "iTCO_wdt"}}
)

const (
	itcoIdentity = "iTCO_wdt"
	esbIdentity  = "i6300ESB timer"
)

// The timeouts are short, so that a row takes a minute or two.
var parts = []part{
	{name: "softdog", board: "pc", modules: core(softdog), identity: "Software Watchdog", timeout: 8 * time.Second, fires: 8 * time.Second, needsKernel: true},
	{name: "i6300esb", board: "pc", qemu: []string{"-device", "i6300esb"}, modules: core(i6300esb), identity: esbIdentity,
		timeout: 8 * time.Second, fires: 8 * time.Second, short: true},
	{name: "iTCO_wdt, strap off", board: "q35", qemu: []string{"-global", "ICH9-LPC.noreboot=false"}, modules: core(itco...), identity: itcoIdentity,
		timeout: 10 * time.Second, fires: 19200 * time.Millisecond, short: true},
	{name: "iTCO_wdt, not in the table", board: "q35", qemu: []string{"-global", "ICH9-LPC.noreboot=false"}, modules: core(itco...), identity: itcoIdentity,
		timeout: 10 * time.Second, fires: 19200 * time.Millisecond, unlisted: true},
	{name: "iTCO_wdt, strap on", board: "q35", qemu: []string{"-global", "ICH9-LPC.noreboot=true"}, modules: core(itco...), identity: itcoIdentity,
		timeout: 4 * time.Second},
	{name: "ib700wdt", board: "pc", qemu: []string{"-device", "ib700"}, modules: []control.Module{{Path: "ib700wdt"}}, identity: "IB700 WDT",
		timeout: 9 * time.Second, fires: 10 * time.Second, outside: true},
	{name: "ipmi_watchdog", board: "pc", qemu: []string{"-device", "ipmi-bmc-sim,id=bmc", "-device", "isa-ipmi-kcs,bmc=bmc"},
		modules: named("ipmi_si", "ipmi_watchdog"), identity: "IPMI", timeout: 8 * time.Second, fires: 8 * time.Second, outside: true, needsKernel: true},
	{name: "softdog and i6300esb", board: "q35", qemu: []string{"-device", "i6300esb"}, modules: core(softdog, i6300esb),
		device: "identity:" + esbIdentity, path: "/dev/watchdog1", identity: esbIdentity, timeout: 8 * time.Second, fires: 8 * time.Second},
}

package fenceconfig

import (
	"strconv"
	"strings"
	"time"
)

// LUNReset is the barrier that the executor sets: it resets each logical unit. When the reset ends, no command that the
// target had accepted before is still being carried out.
const LUNReset = "lun-reset"

// Storage is what a method of isolation cuts a node off from, and what makes sure that the storage carries out nothing
// afterwards that it had accepted before.
//
// Invariant: there is no Storage without a barrier or a time. A target that has removed a registration may still carry
// out writes that it had accepted under that registration.
type Storage struct {
	Driver  string        // CSI driver of its volumes; empty: this method proves nothing about storage
	Reset   bool          // the barrier is a reset of each logical unit
	Vouched time.Duration // or the time after which the operator vouches that no write lands
}

const barriers = LUNReset + ", or the seconds, 1 to 86400, after which you vouch that no write lands that the storage had accepted before"

// readStorage takes the two keys of a storage.
func readStorage(own, base *reader) [2]string {
	return [2]string{either(own, base, "storage_driver"), either(own, base, "storage_barrier")}
}

// storage compares the two keys with the rest of the method. An on gets them from the template that it shares with its
// off, but does not use them.
func (m *Method) storage(r *reader, given [2]string) {
	driver, barrier := given[0], given[1]
	if m.Action != Off || driver == "" && barrier == "" {
		return
	}
	m.Storage.Driver = driver
	seconds, err := strconv.Atoi(barrier)
	switch {
	case driver == "":
		r.add(0, "storage_barrier is given without storage_driver: name the CSI driver of the volumes that this cuts off")
	case !isName(driver):
		r.add(0, "storage_driver is %q; allowed: the name of a CSI driver", driver)
	case !m.Confirm:
		r.add(0, "storage_driver needs confirm=status: an off that was not confirmed proves nothing")
	case !m.MustSuccess:
		r.add(0, "storage_driver needs must_success=yes: a path that stays open lets the node write")
	case barrier == LUNReset && (len(m.Devices()) == 0 || !m.HostDevices):
		r.add(0, "storage_barrier=%s resets the devices that the option devices lists, and needs host_devices=yes", LUNReset)
	case barrier == LUNReset:
		m.Storage.Reset = true
	case barrier == "":
		r.add(0, "storage_driver needs storage_barrier; allowed: "+barriers)
	case err != nil || seconds < 1 || seconds > 86400 || strconv.Itoa(seconds) != barrier:
		r.add(0, "storage_barrier is %q; allowed: "+barriers, barrier)
	default:
		m.Storage.Vouched = time.Duration(seconds) * time.Second
	}
}

// Devices lists the devices that the agent is given.
func (m Method) Devices() []string {
	return strings.FieldsFunc(m.option("devices"), func(r rune) bool { return r == ',' || r == ' ' })
}

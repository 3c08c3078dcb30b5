package rawdev

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// ErrSlotLocked means that another process of this host has locked the slot: a running agent, or a killed one whose
// write hangs in the kernel and may still land.
var ErrSlotLocked = errors.New("another agent on this host uses it, or an earlier one has an I/O stuck in the kernel that may still land; " +
	"stop the other agent (see /proc/locks), or wait until the storage answers or the node is rebooted")

// ErrInUse means that another process on this host has locked some slot or the whole device.
var ErrInUse = errors.New("another process on this host uses it, an agent or a second `fencectl lun init`: stop it first")

// LockSlot locks both copies of a slot against every other open of the same device node on this host. The lock lasts
// until the device is closed and the last I/O has returned. The error wraps ErrSlotLocked if another process has the
// lock.
func (d *Device) LockSlot(slot int) error {
	if slot < 0 || slot >= diskquorum.MaxSlots {
		return fmt.Errorf("lock slot %d of %s: there is no such slot", slot, d.path)
	}
	from := diskquorum.SlotOffset(slot, 0)
	if err := d.lock(from, diskquorum.SlotOffset(slot+1, 0)-from, ErrSlotLocked); err != nil {
		return fmt.Errorf("lock slot %d of %s: %w", slot, d.path, err)
	}
	return nil
}

// LockAll locks the whole device against agents and other tools of this host. The error
// wraps ErrInUse if one of them has a lock.
func (d *Device) LockAll() error {
	if err := d.lock(0, 0, ErrInUse); err != nil { // length 0: to the end, wherever that is
		return fmt.Errorf("lock %s: %w", d.path, err)
	}
	return d.control(func(fd int) error {
		// udev does not touch a device that is locked with flock.
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return fmt.Errorf("lock %s: %w (%w)", d.path, ErrInUse, err)
		}
		return nil
	})
}

func (d *Device) lock(start, length int64, held error) error {
	return d.control(func(fd int) error {
		l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return held
		}
		return err
	})
}

package lab

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// LoopSet is a number of loop devices over one file. To the agents they are block devices of different machines that
// share one disk.
type LoopSet struct {
	Paths   []string
	devices []*os.File // kept open, because the kernel detaches a device with its last user
}

// loopAttempts limits the number of attempts to get a free device before another program does.
const loopAttempts = 256

// LoopDevices attaches n loop devices with the logical sector size (512 or 4096) to the file. They use direct I/O, so
// that each device reads what another one wrote. This needs the real root; in a user namespace, or if the kernel has no
// loop driver, the error says so. The devices vanish when the LoopSet is closed, or this process dies, and nobody else
// has them open.
func LoopDevices(file string, n, sectorSize int) (_ *LoopSet, err error) {
	if sectorSize != 512 && sectorSize != 4096 {
		return nil, fmt.Errorf("lab: loop devices with sectors of %d bytes are not possible: use 512 or 4096", sectorSize)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: loop devices are not available here: %w", err)
	}
	defer control.Close()
	// O_DIRECT is needed: the device would not see what this descriptor writes or reads through the page cache.
	// os.OpenFile is not used: its poller would query a SlowFile that this process serves, and keep the server from
	// answering.
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: loop devices over file %s: %w", file, err)
	}
	backing := os.NewFile(uintptr(fd), file)
	defer backing.Close()
	set := &LoopSet{}
	defer func() {
		if err != nil {
			set.Close()
		}
	}()
	for range n {
		device, err := attachLoop(control, backing, sectorSize)
		if err != nil {
			return nil, fmt.Errorf("lab: loop device over %s: %w", file, err)
		}
		set.devices = append(set.devices, device)
		set.Paths = append(set.Paths, device.Name())
	}
	return set, nil
}

func attachLoop(control, backing *os.File, sectorSize int) (*os.File, error) {
	for range loopAttempts {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = configureLoop(device, backing, sectorSize)
		if err == nil {
			// A read-only descriptor is enough. If a process had the device open for writing, fencectl could not format
			// it.
			held, err := os.Open(device.Name())
			device.Close()
			return held, err
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, errors.New("another program took every free device: try again")
}

func configureLoop(device, backing *os.File, sectorSize int) error {
	config := &unix.LoopConfig{Fd: uint32(backing.Fd()), Size: uint32(sectorSize)}
	// LO_FLAGS_PARTSCAN: partitions that an earlier user of the device registered with the kernel stay behind, and
	// fencectl refuses to format a device that has some. A scan of the file removes them.
	config.Info.Flags = unix.LO_FLAGS_DIRECT_IO | unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_PARTSCAN
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(device.Fd()), config); err != nil {
		return fmt.Errorf("configure %s: %w", device.Name(), err)
	}
	// If the file's own disk has larger sectors, the driver silently ignores the request for direct I/O, and each
	// device would have a separate cache.
	status, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	if err != nil {
		return fmt.Errorf("read status of %s: %w", device.Name(), err)
	}
	if status.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return fmt.Errorf("%s with sectors of %d bytes: the file's disk does not accept direct I/O of that size", device.Name(), sectorSize)
	}
	return nil
}

// Lose makes a device end after its first block. Its node loses the LUN at once, with an error for each I/O after that
// block, while the others still see the whole LUN. Restore undoes that.
func (s *LoopSet) Lose(i int) error { return s.limit(i, 4096) }

// Restore gives a lost device its whole size again.
func (s *LoopSet) Restore(i int) error { return s.limit(i, 0) }

// limit sets the size of a device; 0: the size of the file.
func (s *LoopSet) limit(i int, size uint64) error {
	fd := int(s.devices[i].Fd())
	status, err := unix.IoctlLoopGetStatus64(fd)
	if err == nil {
		status.Sizelimit = size
		err = unix.IoctlLoopSetStatus64(fd, status)
	}
	if err != nil {
		return fmt.Errorf("lab: limit %s to %d bytes: %w", s.Paths[i], size, err)
	}
	return nil
}

// Close detaches the devices. A device that is still open elsewhere is detached when it is closed there. Close may be
// called twice.
func (s *LoopSet) Close() error {
	var errs []error
	for _, device := range s.devices {
		errs = append(errs, device.Close())
	}
	s.devices = nil
	return errors.Join(errs...)
}

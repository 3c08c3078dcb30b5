package wdt

import (
	"golang.org/x/sys/unix"
)

// kernel is the system calls of a watchdog. It exists so that tests can be drivers that
// round, refuse, fail or know no way out, none of which a build node has.
type kernel interface {
	// stat follows links, so that it also identifies what /proc/PID/fd/N refers to.
	stat(path string) (mode uint32, rdev uint64, err error)
	// descriptor is stat for what is open.
	descriptor(fd int) (mode uint32, rdev uint64, err error)
	// access reports, with EACCES and the like, that opening for writing would be refused.
	access(path string) error
	open(path string) (fd int, err error)
	close(fd int) error
	write(fd int, p []byte) error
	keepAlive(fd int) error
	support(fd int) (*unix.WatchdogInfo, error)
	setTimeout(fd, seconds int) error
	timeout(fd int) (seconds int, err error)
	timeLeft(fd int) (seconds int, err error)
	pretimeout(fd int) (seconds int, err error)
	bootStatus(fd int) (int, error)
	disable(fd int) error
}

// linux is the real kernel. All numbers and sizes come from x/sys/unix: they differ
// between architectures, and a wrong one sets a wrong timeout without an error.
type linux struct{}

func (linux) stat(path string) (uint32, uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, err
	}
	return st.Mode, uint64(st.Rdev), nil // Rdev is narrower on some architectures.
}

func (linux) descriptor(fd int) (uint32, uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	return st.Mode, uint64(st.Rdev), nil
}

func (linux) access(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
}

// open returns a bare descriptor. An os.File would be closed by its finalizer once it
// became unreachable, and on a driver without nowayout or magic close that disarms the
// watchdog of a node that believes itself guarded.
func (linux) open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (linux) close(fd int) error { return unix.Close(fd) }

func (linux) write(fd int, p []byte) error {
	n, err := unix.Write(fd, p)
	if err == nil && n != len(p) {
		return unix.EIO
	}
	return err
}

func (linux) keepAlive(fd int) error { return unix.IoctlWatchdogKeepalive(fd) }

func (linux) support(fd int) (*unix.WatchdogInfo, error) { return unix.IoctlGetWatchdogInfo(fd) }

func (linux) setTimeout(fd, seconds int) error {
	return unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, seconds)
}

// timeout reads 32 bits: the kernel writes a C int, which IoctlGetInt would take for one
// half of a 64-bit integer on a big-endian processor.
func (linux) timeout(fd int) (int, error) {
	v, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETTIMEOUT)
	return int(int32(v)), err
}

func (linux) timeLeft(fd int) (int, error) {
	v, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETTIMELEFT)
	return int(int32(v)), err
}

func (linux) pretimeout(fd int) (int, error) {
	v, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETPRETIMEOUT)
	return int(int32(v)), err
}

func (linux) bootStatus(fd int) (int, error) {
	v, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETBOOTSTATUS)
	return int(int32(v)), err
}

func (linux) disable(fd int) error {
	return unix.IoctlSetPointerInt(fd, unix.WDIOC_SETOPTIONS, unix.WDIOS_DISABLECARD)
}

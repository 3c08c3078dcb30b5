package lunadmin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// A disk, its partitions and the device mapper devices on it are one storage under several names. The kernel's claims
// and the locks of agents are per name: so all of the names are checked.

// disk returns the whole disk of a partition; "" for any other device.
func (k kernel) disk(number devno) devno {
	dir, err := filepath.EvalSymlinks(k.blockDir(number))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err != nil {
		return ""
	}
	return k.attribute(filepath.Dir(dir), "dev")
}

func (k kernel) attribute(dir, name string) devno {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return devno(strings.TrimSpace(string(b)))
}

// below returns the devices on which a device is built: those of device mapper and RAID, and the disk of a partition.
func (k kernel) below(number devno) []devno {
	var out []devno
	if disk := k.disk(number); disk != "" {
		out = append(out, disk)
	}
	entries, _ := os.ReadDir(filepath.Join(k.blockDir(number), "slaves"))
	for _, e := range entries {
		if d := k.attribute(filepath.Join(k.blockDir(number), "slaves", e.Name()), "dev"); d != "" {
			out = append(out, d)
		}
	}
	for _, d := range slices.Clone(out) {
		out = append(out, k.below(d)...)
	}
	return out
}

// node returns the path of a device, or "".
func (k kernel) node(number devno) string {
	b, err := os.ReadFile(filepath.Join(k.blockDir(number), "uevent"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return filepath.Join("/dev", name)
		}
	}
	return ""
}

// lockRelatives locks the partitions of a device, or its disk, in the same way as an agent on them, until they are
// closed.
func (k kernel) lockRelatives(number devno) (held []*rawdev.Device, err error) {
	relatives := k.partitions(number)
	if disk := k.disk(number); disk != "" {
		relatives = append(relatives, disk)
	}
	for _, r := range relatives {
		path := k.node(r)
		if path == "" {
			continue
		}
		dev, err := rawdev.Open(path, rawdev.Options{})
		if err != nil {
			continue // it is gone, or cannot be written: so no other process writes it either
		}
		held = append(held, dev)
		if err := dev.LockAll(); errors.Is(err, rawdev.ErrInUse) {
			closeAll(held)
			return nil, fmt.Errorf("%s: %w", path, rawdev.ErrInUse)
		}
	}
	return held, nil
}

func closeAll(devices []*rawdev.Device) {
	for _, d := range devices {
		_ = d.Close() // it was opened only for its lock
	}
}

// storageID identifies a block device by its number, and a file by file system and inode.
type storageID struct {
	device devno // of the block device, or of the file's file system
	inode  uint64
}

// writers lists the processes, other than this one, that have any of the storage open for writing. A lock is only
// visible to processes that use the same device node; an open file is visible to all.
func (k kernel) writers(storage map[storageID]bool) []string {
	dirs, _ := filepath.Glob(filepath.Join(k.proc, "[0-9]*"))
	var out []string
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, fd := range fds {
			id, ok := identify(filepath.Join(dir, "fd", fd.Name()))
			if !ok || !storage[id] || !opensForWriting(filepath.Join(dir, "fdinfo", fd.Name())) {
				continue
			}
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			out = append(out, fmt.Sprintf("open for writing by %s (process %d)", clean(strings.TrimSpace(string(comm))), pid))
			break
		}
	}
	return out
}

// identify returns the storage to which a path leads, without a request to a file server that may not answer.
func identify(path string) (storageID, bool) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st); err != nil {
		return storageID{}, false
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFBLK:
		return storageID{device: devno(fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor))}, true
	case unix.S_IFREG:
		return storageID{devno(fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)), st.Ino}, true
	}
	return storageID{}, false
}

// opensForWriting reads the flags in an fdinfo, which are octal.
func opensForWriting(fdinfo string) bool {
	b, err := os.ReadFile(fdinfo)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(text), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}

// storage returns all storage that shares data with the path: its partitions and the devices below it, the file of a
// loop device, the loop devices of a file.
func (k kernel) storage(path string) map[storageID]bool {
	id, ok := identify(path)
	if !ok {
		return nil
	}
	all := map[storageID]bool{id: true}
	loops, _ := filepath.Glob(filepath.Join(k.sys, "block", "loop*", "loop", "backing_file"))
	if id.inode == 0 {
		for _, d := range append(k.partitions(id.device), k.below(id.device)...) {
			all[storageID{device: d}] = true
		}
		loops = nil
		for d := range all {
			loops = append(loops, filepath.Join(k.blockDir(d.device), "loop", "backing_file"))
		}
	}
	for _, backing := range loops {
		name, err := os.ReadFile(backing)
		if err != nil {
			continue
		}
		file, ok := identify(strings.TrimSuffix(string(name), "\n"))
		switch {
		case !ok:
		case id.inode == 0:
			all[file] = true
		case file == id:
			all[storageID{device: k.attribute(filepath.Dir(filepath.Dir(backing)), "dev")}] = true
		}
	}
	return all
}

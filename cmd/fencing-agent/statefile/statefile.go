package statefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSize limits how much is read of a file that the agent wrote itself: chains of lists of a thousand members are
// smaller.
const maxSize = 16 << 20 // bytes

// Read reads a file that the agent keeps. It never waits: a file that is not regular, such as a pipe, would block the
// start of the agent until somebody writes to it.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes, so the agent did not write it", path, maxSize)
	}
	return text, nil
}

// Write replaces a file, and returns when that is durable, the name of the file included. A reader finds the old
// content or the new one.
func Write(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(t.Name()) // the returned error matters more
		}
	}()
	_, err = t.Write(text)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// Create makes a file with all of its text, unless there is one.
func Create(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Link(t.Name(), path)
	}
	if err = errors.Join(err, os.Remove(t.Name())); err != nil {
		return err
	}
	return syncFolder(dir)
}

// Empty truncates a file, without changing its lock, and returns when that is durable.
func Empty(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(0), f.Sync(), f.Close())
}

// Sync makes what Read has found durable, including the name of the file: the writer may have been killed before that.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Remove removes a file, and returns when that is durable. It is not an error if the file does not exist.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes the lock of a file without waiting, and creates the file if it does not exist. ok is false while another
// process has the lock. The kernel releases it with the last descriptor of that process, when the process is gone.
func Lock(path string) (release func(), ok bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, err
	}
	// Do not use an os.File: the garbage collector would close it, and a caller that never releases the lock need not
	// keep anything.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return func() { _ = unix.Close(fd) }, true, nil // nothing was written
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}

// Holder is the process that has the lock of a file (Lock). proc is where /proc is mounted. 0: no process has the lock,
// or it is not visible from here, for example because it is in another PID namespace.
func Holder(proc, path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	text, err := os.ReadFile(filepath.Join(proc, "locks"))
	if !ok || err != nil {
		return 0
	}
	exact := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	same, others := 0, 0 // if a file system shows other device numbers than it uses for locks (btrfs does), the inode has to suffice
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		switch {
		case err != nil || pid <= 0:
		case f[5] == exact:
			return pid
		default:
			same, others = pid, others+1
		}
	}
	if others == 1 {
		return same
	}
	return 0
}

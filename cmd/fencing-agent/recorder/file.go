package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/history"
)

// file is the history on disk. All of its space is allocated when it is created, so a disk that fills up later does no
// harm.
type file struct {
	f     *os.File
	shelf *history.Shelf
}

// openFile opens the file with that many slots, and reads it. A file of another size is replaced by a new one with the
// same records, as far as there is room. A file that cannot be read, such as one of a later version, is moved aside.
func openFile(path string, slots int) (store, history.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, history.File{}, err
	}
	s, old, err := useFile(path, slots)
	if !errors.Is(err, errRemake) {
		return s, old, err
	}
	if err := makeFile(path, slots, old.Records); err != nil {
		return nil, history.File{}, err
	}
	return useFile(path, slots)
}

// errRemake means that there is no file that can be continued.
var errRemake = errors.New("the file has to be created")

func useFile(path string, slots int) (_ store, read history.File, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, read, errRemake
	}
	if err != nil {
		return nil, read, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, read, errors.Join(err, fmt.Errorf("%s is not a regular file: remove it", path))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, read, fmt.Errorf("another agent writes it: %w", err)
	}
	size := min(info.Size(), history.Size(history.MaxSlots))
	read, foreign, err := decodeFile(f, size)
	switch {
	case err != nil:
		return nil, read, err
	case foreign != nil:
		if err := os.Rename(path, path+".unreadable"); err != nil {
			return nil, read, err
		}
		return nil, history.File{}, errRemake
	case read.Slots != slots || size != history.Size(slots):
		return nil, read, errRemake
	}
	return &file{f: f, shelf: history.NewShelf(slots, &read)}, read, nil
}

// decodeFile reads the file; foreign says why it is not a file of this version.
//
// Invariant: the megabytes of the file are never in the heap, which does not shrink again in a process whose memory is
// locked.
func decodeFile(f *os.File, size int64) (read history.File, foreign, err error) {
	if size == 0 {
		return read, history.ErrForeign, nil
	}
	text, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return read, nil, fmt.Errorf("room for %d bytes: %w", size, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(text)) }()
	if _, err := f.ReadAt(text, 0); err != nil {
		return read, nil, err
	}
	read, foreign = history.Decode(text)
	return read, foreign, nil
}

// makeFile creates the file under another name, allocates all of it, and then renames it.
func makeFile(path string, slots int, records []history.Record) (err error) {
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(fresh) // this frees the space on a full disk
		}
	}()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, history.Size(slots)); err != nil {
		if !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("allocate %d bytes: %w", history.Size(slots), err)
		}
		if _, err := f.Write(make([]byte, history.Size(slots))); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(history.Header(slots), 0); err != nil {
		return err
	}
	s := file{f: f, shelf: history.NewShelf(slots, &history.File{})}
	if err := s.write(records); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func (s *file) write(records []history.Record) error {
	for i := range records {
		slot, ok := s.shelf.Place(&records[i])
		if !ok {
			continue // a sample, and the file is full of events
		}
		if _, err := s.f.WriteAt(history.Encode(&records[i]), history.Offset(slot)); err != nil {
			return err
		}
	}
	return nil
}

func (s *file) put(records []history.Record) error {
	if err := s.write(records); err != nil {
		return err
	}
	return unix.Fdatasync(int(s.f.Fd()))
}

func (s *file) close() error { return s.f.Close() }

// kernelLog is where the kernel takes lines from user space.
const kernelLog = "/dev/kmsg"

// KernelLog writes a line to the kernel's log, as critical: consoles and pstore show it.
func KernelLog(line string) error {
	f, err := os.OpenFile(kernelLog, os.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	const critical = "<2>"
	_, err = f.WriteString(critical + "fencing-agent: " + line + "\n")
	return errors.Join(err, f.Close())
}

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"
)

// LUNFile is a regular file that serves as the shared LUN.
type LUNFile struct {
	Path   string
	folder string // folder that contains only the file
}

// NewLUNFile creates a file of the given size (a multiple of 4096 bytes) that really supports direct I/O. It uses a new
// folder under dir, or, if that file system cannot do it, under $TMPDIR, the user's cache folder or /var/tmp. The error
// lists all folders that were tried.
func NewLUNFile(dir string, size int64) (*LUNFile, error) {
	if size <= 0 || size%directio.BlockSize != 0 {
		return nil, fmt.Errorf("lab: LUN of %d bytes: give a positive multiple of %d", size, directio.BlockSize)
	}
	candidates := []string{dir, os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, cache)
	}
	candidates = append(candidates, "/var/tmp")
	var errs []error
	for i, candidate := range candidates {
		if candidate == "" || (i > 0 && candidate == dir) {
			continue
		}
		file, err := lunFileIn(candidate, size)
		if err == nil {
			return file, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", candidate, err))
	}
	return nil, fmt.Errorf("lab: no folder supports direct I/O (O_DIRECT): set TMPDIR to one on a disk: %w", errors.Join(errs...))
}

func lunFileIn(dir string, size int64) (_ *LUNFile, err error) {
	folder, err := os.MkdirTemp(dir, "fencing-lun-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(folder)
		}
	}()
	lun := &LUNFile{Path: filepath.Join(folder, "lun.img"), folder: folder}
	f, err := os.OpenFile(lun.Path, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_DIRECT, 0o660)
	if err != nil {
		return nil, fmt.Errorf("open with O_DIRECT: %w", cause(err))
	}
	defer f.Close()
	// The blocks are allocated at once, so that a full disk is noticed now, and not during a split.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	return lun, tryDirectIO(f)
}

// tryDirectIO writes a pattern, reads it back and leaves zeros, because some file systems accept the flag and then
// refuse the first request.
func tryDirectIO(f *os.File) error {
	pattern, read := directio.AlignedBlock(directio.BlockSize), directio.AlignedBlock(directio.BlockSize)
	for i := range pattern {
		pattern[i] = byte(i*7 + 1)
	}
	if _, err := f.WriteAt(pattern, 0); err != nil {
		return fmt.Errorf("write with O_DIRECT: %w", cause(err))
	}
	if _, err := f.ReadAt(read, 0); err != nil {
		return fmt.Errorf("read with O_DIRECT: %w", cause(err))
	}
	if !bytes.Equal(pattern, read) {
		return errors.New("a read with O_DIRECT did not return the data that was written")
	}
	clear(pattern)
	if _, err := f.WriteAt(pattern, 0); err != nil {
		return fmt.Errorf("write with O_DIRECT: %w", cause(err))
	}
	return f.Sync()
}

// Close removes the file and its folder.
func (l *LUNFile) Close() error { return os.RemoveAll(l.folder) }

// cause removes the path from a file operation's error when the caller adds it.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

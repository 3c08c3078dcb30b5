package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// makeFile makes a file that must not exist yet, whole or not at all: a disk that is full leaves no half of a key behind,
// which the next try would take for one that is in use. It returns when the file is durable, its name included. The
// error is fs.ErrExist if something has that name.
func makeFile(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if _, err := os.Lstat(name); err == nil {
		return &fs.PathError{Op: "make", Path: name, Err: fs.ErrExist}
	}
	dir := filepath.Dir(name)
	t, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer func() { _ = os.Remove(t.Name()) }() // of what was renamed there is nothing left
	err = write(t)
	if err == nil {
		err = errors.Join(t.Chmod(mode), t.Sync())
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	// A link is refused if the name was taken meanwhile; a rename would not be, but not all file systems have links.
	if err := os.Link(t.Name(), name); errors.Is(err, fs.ErrExist) {
		return err
	} else if err != nil {
		if err := os.Rename(t.Name(), name); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// syncDir makes the names of a folder durable, where a system can do that.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

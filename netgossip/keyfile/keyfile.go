// Package keyfile reads the gossip keys, for callers that use them and for callers that only validate them.
package keyfile

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// most bounds the bytes that are read from a key file: its path may point to another file by mistake.
const most = 64 << 10

// Read reads a key file: one base64 AES key of 16, 24 or 32 bytes a line, blank lines and # comments allowed. It returns
// at least one key or an error, and the permissions of the file. Errors name the line and never quote it.
func Read(path string) (keys [][]byte, mode fs.FileMode, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for a writer
	if err != nil {
		return nil, 0, fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("key file: %w", err)
	}
	if mode = info.Mode().Perm(); !info.Mode().IsRegular() {
		return nil, mode, fmt.Errorf("key file: %s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, mode, fmt.Errorf("key file: %w", err)
	}
	if len(text) > most {
		return nil, mode, fmt.Errorf("key file %s: it is larger than %d bytes: is it the right file?", path, most)
	}
	if keys, err = parse(text); err != nil {
		return nil, mode, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, mode, nil
}

// Open reports whether a file with this mode can be read or written by users other than its owner.
func Open(mode fs.FileMode) bool { return mode&0o077 != 0 }

// parse returns at least one key or an error.
func parse(text []byte) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line, _, _ = bytes.Cut(line, []byte("#")) // base64 has no such character
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: it is not base64", number)
		}
		switch len(key) {
		case 16, 24, 32:
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("line %d: key has %d bytes, but must have 16, 24 or 32 (make one with: head -c 32 /dev/urandom | base64)", number, len(key))
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key in it: write one base64 AES key a line, or configure no key file")
	}
	return keys, nil
}

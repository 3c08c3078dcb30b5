package agent

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxStateFile bounds what is read of a file that the agent wrote itself: a chain of lists
// of a thousand members stays far below.
const maxStateFile = 16 << 20 // bytes

// readState reads a file that the agent keeps. It never waits: what is not a regular file,
// such as a pipe, would block the start of the agent for as long as nobody writes to it.
func readState(path string) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(f, maxStateFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxStateFile {
		return nil, fmt.Errorf("%s is larger than %d bytes, the agent did not write it", path, maxStateFile)
	}
	return text, nil
}

package soak

import (
	"errors"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// freezer shows the file of the LUN as a block device, whose writes hang while it is frozen. Both vanish with this process.
// Where FUSE is not to be had the LUN is the file, and cannot be frozen.
type freezer struct {
	store *lab.SlowFile // nil: it cannot be frozen
	loops *lab.LoopSet
}

// show returns where the agents find the LUN of that file.
func (f *freezer) show(file string) (string, error) {
	store, err := lab.NewSlowFile(file)
	if err != nil {
		return file, nil // it is a file like any other
	}
	loops, err := lab.LoopDevices(store.Path, 1, 512)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	f.store, f.loops = store, loops
	return loops.Paths[0], nil
}

// canFreeze reports whether freeze works.
func (f *freezer) canFreeze() bool { return f.store != nil }

// close detaches the device. Nobody has it open any more, and it is not frozen.
func (f *freezer) close() {
	if f.store != nil {
		_ = f.loops.Close()
		_ = f.store.Close() // what is left ends with this process
	}
}

package diskquorum

import (
	"github.com/fencing-agent/fencing-agent/boottime"
)

// OpKind is the kind of an I/O.
type OpKind uint8

const (
	OpRead OpKind = iota + 1
	OpWrite
)

// Op is one I/O that the arbiter requests on one device. The device's engine runs at most one at a time and never
// drops, repeats or cancels one: the result of an I/O that takes too long is unknown until it completes.
type Op struct {
	ID     uint64 // echoed in the completion
	Device int    // position in ArbiterConfig.Devices; echoed, too
	Kind   OpKind
	Offset int64  // bytes, a multiple of BlockSize
	Length int    // OpRead: bytes, a multiple of BlockSize
	Data   []byte // OpWrite: whole blocks; the engine copies it before Submit returns
	Own    bool   // the superblock is read at the same time, so that the next write need not wait for it (B10)

	// Beside is one more block that an OpWrite writes, at BesideAt, at the same time: the operation ends when both
	// writes have ended. The two writes have no order, and the result of one proves nothing about the other. Nil: there
	// is none.
	Beside   []byte
	BesideAt int64
}

// Completion is the end of an Op.
type Completion struct {
	ID      uint64
	Device  int
	Kind    OpKind
	Started boottime.Instant // before the I/O was handed to the kernel
	Ended   boottime.Instant // after the kernel returned
	Err     error            // a failed read proves nothing about the LUN, a failed write may still land
	Data    []byte           // OpRead: owned by the receiver until the next Submit on this device
	Own     []byte           // the result of Op.Own, owned likewise; nil if that read failed
	// OwnEnded is the instant at which the read of Own ended, which may be long before a hanging operation ends; zero:
	// together with the operation.
	OwnEnded boottime.Instant

	BesideErr error // error of the write of Op.Beside
}

// OwnSize is the number of bytes that Op.Own reads, from the start of the device.
const OwnSize = superblockBlocks * BlockSize

// Device is a LUN as the tools and the engine use it: aligned, uncached, synchronous. A call blocks for as long as the
// kernel blocks; there is no deadline and no cancellation. Implementations: rawdev.Device (O_DIRECT) and
// diskquorumtest.MemDevice.
type Device interface {
	// ReadAt fills p from offset off; len(p) and off are multiples of BlockSize. p need not be aligned in memory.
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt returns after the data is durable on the device.
	WriteAt(p []byte, off int64) (int, error)
	// Size returns the usable size in bytes.
	Size() int64
	Close() error
}

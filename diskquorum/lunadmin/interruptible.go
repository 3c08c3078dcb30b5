package lunadmin

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// interruptible lets a person end a command whose I/O hangs: each call returns when its
// context ends. The I/O goes on in a goroutine that is left behind, with a buffer that
// nobody else has.
type interruptible struct {
	diskquorum.Device
	ctx context.Context
}

func (d *interruptible) ReadAt(p []byte, off int64) (int, error) {
	buf := make([]byte, len(p))
	n, err := d.await("read", off, func() (int, error) { return d.Device.ReadAt(buf, off) })
	if err != nil {
		return 0, err
	}
	return copy(p, buf[:n]), nil
}

func (d *interruptible) WriteAt(p []byte, off int64) (int, error) {
	buf := slices.Clone(p)
	return d.await("write", off, func() (int, error) { return d.Device.WriteAt(buf, off) })
}

func (d *interruptible) await(op string, off int64, io func() (int, error)) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := io()
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-d.ctx.Done():
		return 0, fmt.Errorf("%s at byte %d: interrupted, it may still be carried out: %w", op, off, d.ctx.Err())
	}
}

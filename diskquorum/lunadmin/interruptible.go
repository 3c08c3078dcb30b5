package lunadmin

import (
	"context"
	"errors"
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
		return 0, fmt.Errorf("%s at byte %d: %w, it may still be carried out", op, off, ended(d.ctx))
	}
}

// interruption is the error of a context in the words of the person who ended it.
type interruption struct{ error }

func (interruption) Error() string { return "interrupted" }

func (i interruption) Unwrap() error { return i.error }

// ended is the error of a context that has ended, and nil of one that has not.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return interruption{err}
	}
	return nil
}

// InterruptedError is how a command ends that was stopped on the way. It says what has become of
// the device.
type InterruptedError struct {
	Op, Path string
	State    string // what was done and what to do
	cause    error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%s %s: interrupted: %s", e.Op, e.Path, e.State)
}

func (e *InterruptedError) Unwrap() error { return e.cause }

// stoppedOnTheWay explains err if it comes from the end of the context.
func stoppedOnTheWay(err error, op, path, state string) error {
	if errors.As(err, new(interruption)) {
		return &InterruptedError{Op: op, Path: path, State: state, cause: err}
	}
	return err
}

// untouched is the state of a device that was only read so far.
const untouched = "nothing was written, the device is as it was; repeat the command, the watch for signs of life begins again"

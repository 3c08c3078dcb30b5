package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// interruptible lets a person end a command whose I/O hangs: each call returns when its context ends. The I/O goes on
// in a goroutine that is left behind, with a buffer that no other code uses.
type interruptible struct {
	diskquorum.Device
	ctx context.Context
}

func (d *interruptible) ReadAt(p []byte, off int64) (int, error) {
	buf := make([]byte, len(p))
	n, err := await(d.ctx, func() (int, error) { return d.Device.ReadAt(buf, off) })
	if err != nil {
		return 0, underWay("read", off, err)
	}
	return copy(p, buf[:n]), nil
}

func (d *interruptible) WriteAt(p []byte, off int64) (int, error) {
	buf := slices.Clone(p)
	n, err := await(d.ctx, func() (int, error) { return d.Device.WriteAt(buf, off) })
	return n, underWay("write", off, err)
}

func underWay(op string, off int64, err error) error {
	if errors.As(err, new(interruption)) {
		return fmt.Errorf("%s at byte %d: %w, it may still be carried out", op, off, err)
	}
	return err
}

// await returns when f returns or the context ends.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ended(ctx)
	}
}

// interruption is the error of a context, with a text for the person who ended it.
type interruption struct{ error }

func (interruption) Error() string { return "interrupted" }

func (i interruption) Unwrap() error { return i.error }

// ended returns the error of a context that has ended, or nil.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return interruption{err}
	}
	return nil
}

// InterruptedError is the error of a command that was stopped before its end. It describes the state of the device.
type InterruptedError struct {
	Op, Path string
	State    string // what was done, and what to do
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

// untouched describes the state of a device that has only been read so far.
const untouched = "nothing was written, the device is as it was; repeat the command, the watch for signs of life begins again"

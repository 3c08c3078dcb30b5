package rawdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

var (
	// ErrBusy means that an I/O is in flight; there is never more than one.
	ErrBusy = errors.New("an I/O is in flight")
	// ErrClosed means that the engine accepts no more I/O.
	ErrClosed = errors.New("engine is closed")
	// ErrStuck means that Close gave up waiting for an I/O that is still in the kernel.
	ErrStuck = errors.New("an I/O is stuck in the kernel and may still land")
)

// Engine runs the I/Os of one device, one at a time.
//
//	idle --Submit--> in flight --the device returns--> idle, then onComplete is called
//
// So onComplete may submit the next operation.
type Engine struct {
	dev        diskquorum.Device
	clock      boottime.Clock
	onComplete func(diskquorum.Completion)

	wake boottime.Wake // there is work
	done chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	op        diskquorum.Op
	inFlight  bool
	since     boottime.Instant // time of Submit, while inFlight
	closed    bool
	abandoned bool // Close gave up: no further completion is delivered

	rbuf, wbuf, bbuf, obuf []byte // owned by the goroutine while inFlight, otherwise by Submit
}

// NewEngine starts an engine on dev. The caller closes dev, after Close. onComplete is called on the engine's
// goroutine, once per accepted operation.
func NewEngine(dev diskquorum.Device, clock boottime.Clock, onComplete func(diskquorum.Completion)) *Engine {
	e := &Engine{
		dev: dev, clock: clock, onComplete: onComplete,
		wake: boottime.NewWake(), done: make(chan struct{}),
	}
	go e.run()
	return e
}

// Submit hands an operation to the engine and returns at once. It copies the data of a write; the receiver must no
// longer use the data of the previous read. If it returns an error, which wraps ErrBusy, ErrClosed or ErrBadRange, the
// operation is not carried out.
func (e *Engine) Submit(op diskquorum.Op) error {
	if err := checkOp(&op); err != nil {
		return err
	}
	now := e.clock()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return fmt.Errorf("submit I/O %d: %w", op.ID, ErrClosed)
	case e.inFlight:
		return fmt.Errorf("submit I/O %d: %w since %v: number %d", op.ID, ErrBusy, now.Sub(e.since), e.op.ID)
	}
	if op.Kind == diskquorum.OpWrite {
		e.wbuf = append(e.wbuf[:0], op.Data...)
		op.Data = e.wbuf
		if op.Beside != nil {
			e.bbuf = append(e.bbuf[:0], op.Beside...)
			op.Beside = e.bbuf
		}
	}
	e.op, e.inFlight, e.since = op, true, now
	e.wake.Signal()
	return nil
}

func checkOp(op *diskquorum.Op) error {
	length := op.Length
	switch op.Kind {
	case diskquorum.OpRead:
	case diskquorum.OpWrite:
		length = len(op.Data)
	default:
		return fmt.Errorf("submit I/O %d: kind %d is not known", op.ID, op.Kind)
	}
	if op.Beside != nil && (op.Kind != diskquorum.OpWrite || len(op.Beside)%diskquorum.BlockSize != 0 || len(op.Beside) == 0 ||
		op.BesideAt < 0 || op.BesideAt%diskquorum.BlockSize != 0) {
		return fmt.Errorf("submit I/O %d: %d bytes beside it at %d: %w", op.ID, len(op.Beside), op.BesideAt, ErrBadRange)
	}
	if length <= 0 || length%diskquorum.BlockSize != 0 || op.Offset < 0 || op.Offset%diskquorum.BlockSize != 0 {
		return fmt.Errorf("submit I/O %d: %d bytes at %d: %w", op.ID, length, op.Offset, ErrBadRange)
	}
	return nil
}

// Close accepts no more operations and waits for the one in flight, but only until ctx ends. Then it returns an error
// that wraps ErrStuck and leaves goroutine, thread and buffers to the kernel, because an I/O cannot be cancelled. No
// completion is delivered after Close has returned.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.wake.Signal()
	e.mu.Unlock()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	stuck, since := e.inFlight, e.since
	e.abandoned = true
	e.mu.Unlock()
	if !stuck { // only the callback may still run: this ends by itself
		<-e.done
		return nil
	}
	return fmt.Errorf("close engine: %w: in flight for %v: %w", ErrStuck, e.clock().Sub(since), ctx.Err())
}

// run does one I/O after the other. An I/O that hangs in the kernel blocks its thread, but no other goroutine.
func (e *Engine) run() {
	defer close(e.done)
	for range e.wake {
		e.mu.Lock()
		op, todo, closed := e.op, e.inFlight, e.closed
		e.mu.Unlock()
		if todo {
			e.deliver(e.perform(&op))
			e.mu.Lock()
			closed = e.closed && !e.inFlight
			e.mu.Unlock()
		}
		if closed {
			return
		}
	}
}

// perform does the I/O, and reads the superblock at the same time if Op.Own asks for it, which takes no extra time.
func (e *Engine) perform(op *diskquorum.Op) diskquorum.Completion {
	if !op.Own {
		return e.do(op)
	}
	own, ended := make(chan error, 1), boottime.Instant(0)
	if e.obuf == nil {
		e.obuf = make([]byte, diskquorum.OwnSize)
	}
	go func() { // ends before the operation does
		n, err := e.dev.ReadAt(e.obuf, 0)
		if err == nil && n != len(e.obuf) {
			err = io.ErrUnexpectedEOF
		}
		ended = e.clock()
		own <- err
	}()
	c := e.do(op)
	if err := <-own; err == nil {
		c.Own, c.OwnEnded = e.obuf, ended
	}
	c.Ended = e.clock()
	return c
}

// do does the operation itself. A short read or write is an error: a part of the data proves nothing (B9).
func (e *Engine) do(op *diskquorum.Op) diskquorum.Completion {
	c := diskquorum.Completion{ID: op.ID, Kind: op.Kind, Started: e.clock()}
	if op.Kind == diskquorum.OpWrite {
		e.write(op, &c)
		return c
	}
	if cap(e.rbuf) < op.Length {
		e.rbuf = make([]byte, op.Length)
	}
	buf := e.rbuf[:op.Length]
	n, err := e.dev.ReadAt(buf, op.Offset)
	c.Ended, c.Err = e.clock(), err
	if err == nil && n != len(buf) {
		c.Err = fmt.Errorf("read at %d: only %d of %d bytes were read", op.Offset, n, len(buf))
	}
	if c.Err == nil {
		c.Data = buf
	}
	return c
}

// write does both writes of an operation at the same time, so that they take no longer than one.
func (e *Engine) write(op *diskquorum.Op, c *diskquorum.Completion) {
	if op.Beside == nil {
		c.Err = e.writeAt(op.Data, op.Offset)
		c.Ended = e.clock()
		return
	}
	beside := make(chan error, 1)
	go func() { beside <- e.writeAt(op.Beside, op.BesideAt) }() // ends before the operation does
	c.Err = e.writeAt(op.Data, op.Offset)
	c.BesideErr = <-beside
	c.Ended = e.clock()
}

func (e *Engine) writeAt(p []byte, off int64) error {
	n, err := e.dev.WriteAt(p, off)
	if err == nil && n != len(p) {
		err = fmt.Errorf("write at %d: only %d of %d bytes were written", off, n, len(p))
	}
	return err
}

func (e *Engine) deliver(c diskquorum.Completion) {
	e.mu.Lock()
	e.inFlight = false
	drop := e.abandoned
	e.mu.Unlock()
	if !drop {
		e.onComplete(c)
	}
}

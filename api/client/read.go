package client

import (
	"context"
	"sync/atomic"
	"time"
)

// callbackPatience is how long a callback may keep the stream from being read on. It is far
// less than what the agent and the stream queue for one subscriber.
const callbackPatience = 10 * time.Millisecond

// lull is how long nothing must have come before an event for it to be reported at once. What comes faster, when a
// group falls apart or events have piled up during a callback, is reported by Follow's goroutine while the stream is
// still read: many events in few calls.
const lull = 100 * time.Microsecond

// What the goroutine that reads a stream is doing.
const (
	reading int32 = iota
	calling
	relieved // its callback takes long, and another goroutine reads on
)

// read reads the events of a session until its stream ends, and returns why it did. The
// goroutine that reads an event after a lull calls back itself, without waking another one
// for it. If the callback does not return soon another goroutine reads on, so a slow one
// costs the stream a delay, once.
//
// Exactly one goroutine reads at any time; it alone ends the reading, by its error.
func (f *follower) read(ctx context.Context, events *events) error {
	ended := make(chan error, 1)
	f.readers.Go(func() { f.readOn(ctx, events, ended) })
	return <-ended
}

// readOn reads until the stream ends or this goroutine was relieved.
func (f *follower) readOn(ctx context.Context, events *events, ended chan<- error) {
	var doing atomic.Int32
	relief := time.AfterFunc(callbackPatience, func() {
		if doing.CompareAndSwap(calling, relieved) {
			f.readers.Go(func() { f.readOn(ctx, events, ended) })
		}
	})
	defer relief.Stop()
	for {
		idle := time.Now()
		ev, err := events.next()
		if err != nil {
			ended <- err
			return
		}
		now := time.Now()
		f.mu.Lock()
		f.word = now
		f.event(ev)
		f.mu.Unlock()
		if now.Sub(idle) < lull {
			f.rouse()
			continue
		}
		doing.Store(calling)
		relief.Reset(callbackPatience)
		f.callBack(ctx)
		relief.Stop()
		if !doing.CompareAndSwap(calling, reading) {
			return
		}
	}
}

// callBack calls the callback with what is new, unless another goroutine is doing so: then Follow's goroutine does it
// afterwards.
func (f *follower) callBack(ctx context.Context) {
	select {
	case f.turn <- struct{}{}:
		f.tell(ctx)
	default:
		f.rouse()
	}
}

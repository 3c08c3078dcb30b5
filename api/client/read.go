package client

import (
	"context"
	"sync/atomic"
	"time"
)

// callbackPatience is the time for which a callback may keep the stream from being read. The queues of the agent and
// the stream hold far more events than arrive in this time.
const callbackPatience = 10 * time.Millisecond

// lull is the time for which the stream must have been quiet before an event is reported at once. Events in faster
// succession, when a group falls apart or after a long callback, are reported by Follow's goroutine while the stream is
// being read: many events in few calls.
const lull = 100 * time.Microsecond

// The states of the goroutine that reads a stream.
const (
	reading int32 = iota
	calling
	relieved // its callback takes long, and another goroutine has taken over
)

// read reads the events of a session until its stream ends, and returns why it did. The goroutine that reads an event
// after a lull calls back itself, without waking another goroutine. If the callback does not return soon, another
// goroutine continues to read, so a slow callback delays the stream only once.
//
// Exactly one goroutine reads at any time; only its error ends the reading.
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
			f.wake.Signal()
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

// callBack calls the callback with what is new. If another goroutine is calling it, Follow's goroutine does so
// afterwards.
func (f *follower) callBack(ctx context.Context) {
	select {
	case f.turn <- struct{}{}:
		f.tell(ctx)
	default:
		f.wake.Signal()
	}
}

package swim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGatePassesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var inside, calls atomic.Int32
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				g.pass(func() {
					if inside.Add(1) != 1 {
						t.Error("two calls inside")
					}
					time.Sleep(time.Second)
					inside.Add(-1)
					calls.Add(1)
				})
			})
		}
		callers.Wait()
		if calls.Load() != 10 {
			t.Errorf("%d of 10 calls passed", calls.Load())
		}
	})
}

func TestGateCloseWaitsForTheCallInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		release := make(chan struct{})
		var waiting sync.WaitGroup
		waiting.Go(func() { g.pass(func() { <-release }) })
		synctest.Wait()
		late := false
		waiting.Go(func() { g.pass(func() { late = true }) }) // queues behind it
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close with a call inside: %v", err)
		}
		close(release)
		if err := g.close(t.Context()); err != nil {
			t.Errorf("close after the call: %v", err)
		}
		waiting.Wait()
		g.pass(func() { late = true })
		if late {
			t.Error("a call passed the closed gate")
		}
	})
}

func TestGateCloseBeatsWaitingCalls(t *testing.T) {
	for range 200 { // select chooses at random between the turn and the closing
		g := newGate()
		var callers sync.WaitGroup
		var closed atomic.Bool
		for range 4 {
			callers.Go(func() {
				for range 20 {
					g.pass(func() {
						if closed.Load() {
							t.Error("a call passed the closed gate")
						}
					})
				}
			})
		}
		if err := g.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed.Store(true)
		callers.Wait()
	}
}

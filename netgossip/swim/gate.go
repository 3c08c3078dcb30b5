package swim

import (
	"context"
	"sync"
)

// gate lets the calls to a Sink through one at a time, and none after it is closed:
// memberlist's timers outlive its Shutdown.
type gate struct {
	turn chan struct{} // holds a token during a call
	shut chan struct{} // closed by close
	once sync.Once
}

func newGate() *gate {
	return &gate{turn: make(chan struct{}, 1), shut: make(chan struct{})}
}

// pass runs call unless the gate is closed. It waits for the call that is inside.
func (g *gate) pass(call func()) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-g.shut:
		return
	}
	select {
	case <-g.shut: // both were ready and select chose the turn
	default:
		call()
	}
}

// close ends the passing at once and waits for the call that is inside.
func (g *gate) close(ctx context.Context) error {
	g.once.Do(func() { close(g.shut) })
	select {
	case g.turn <- struct{}{}:
		<-g.turn
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

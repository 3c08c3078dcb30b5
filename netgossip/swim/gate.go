package swim

import (
	"context"
	"sync"
)

// gate lets calls to a Sink through one at a time, and none after it has been closed: memberlist's timers outlive its
// Shutdown.
type gate struct {
	turn chan struct{} // holds a token during a call
	shut chan struct{} // closed by close
	once sync.Once
}

func newGate() *gate {
	return &gate{turn: make(chan struct{}, 1), shut: make(chan struct{})}
}

// pass runs call unless the gate is closed. It waits for a running call.
func (g *gate) pass(call func()) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-g.shut:
		return
	}
	select {
	case <-g.shut: // both channels were ready and select chose turn
	default:
		call()
	}
}

// close lets no further calls through and waits for a running call.
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

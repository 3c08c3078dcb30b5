package boottimetest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Clock returns a clock that begins at an instant and advances with time.Now.
func Clock(begin boottime.Instant) boottime.Clock {
	began := time.Now()
	return func() boottime.Instant { return begin.Add(time.Since(began)) }
}

// Pipes is a listener whose connections are ends of net.Pipe.
type Pipes struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Pipes)(nil)

// NewPipes returns a listener whose Addr is the given address.
func NewPipes(addr net.Addr) *Pipes {
	return &Pipes{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Hand passes the listener its end of a connection. It fails after Close, or if ctx ends before the connection is
// accepted.
func (p *Pipes) Hand(ctx context.Context, far net.Conn) error {
	select {
	case p.conns <- far:
		return nil
	case <-p.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return p.addr }

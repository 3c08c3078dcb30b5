package controlplane

import (
	"net"
	"sync"
)

// gateListener is a listener that can hold all its connections at once.
type gateListener struct {
	net.Listener

	mu       sync.Mutex
	conns    map[*gateConn]bool
	open     chan struct{} // closed: bytes pass
	refusing bool
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (l *gateListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g := &gateConn{Conn: c, gate: l, closed: make(chan struct{})}
		l.mu.Lock()
		refusing := l.refusing
		if !refusing {
			l.conns[g] = true
		}
		l.mu.Unlock()
		if !refusing {
			return g, nil
		}
		g.reset()
	}
}

func (l *gateListener) passing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *gateListener) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default: // the listener is frozen
	}
}

func (l *gateListener) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing = false
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

func (l *gateListener) refuse() {
	l.mu.Lock()
	l.refusing = true
	l.mu.Unlock()
	l.cut()
}

func (l *gateListener) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[*gateConn]bool{}
	l.mu.Unlock()
	for c := range conns {
		c.reset()
	}
}

// gateConn reads and writes only while its listener's gate is open.
type gateConn struct {
	net.Conn

	gate   *gateListener
	once   sync.Once
	closed chan struct{}
}

func (c *gateConn) pass() error {
	select {
	case <-c.gate.passing():
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *gateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if held := c.pass(); held != nil {
		return 0, held
	}
	return n, err
}

func (c *gateConn) Write(b []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// reset ends the connection in a way that the peer notices at once.
func (c *gateConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection is closed next, even if this fails
	}
	_ = c.Close()
}

package kube

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// gossipGate is a port that passes UDP and TCP on to another port until it is shut. A replica of the operator announces
// the gate's address in place of its own, so that a shut gate cuts it off from the others' gossip.
type gossipGate struct {
	port   int
	shut   atomic.Bool
	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
}

func newGossipGate(t *testing.T) *gossipGate {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gossipGate{port: tcp.Addr().(*net.TCPAddr).Port, conns: map[net.Conn]bool{}}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: g.port})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { g.packets(udp) })
	wg.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { g.stream(c) })
		}
	})
	t.Cleanup(func() {
		g.close()
		_, _ = tcp.Close(), udp.Close()
		wg.Wait()
	})
	return g
}

// to sets the address to which the gate leads.
func (g *gossipGate) to(target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = target
}

func (g *gossipGate) leads() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.target
}

// close shuts the gate and ends what is under way. open opens it.
func (g *gossipGate) close() {
	g.shut.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
	}
}

func (g *gossipGate) open() { g.shut.Store(false) }

func (g *gossipGate) packets(udp *net.UDPConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := udp.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		target := g.leads()
		if g.shut.Load() || target == "" {
			continue
		}
		if to, err := net.ResolveUDPAddr("udp", target); err == nil {
			// Answers go to the sender's own gate, whose address is in its messages.
			_, _ = udp.WriteToUDP(buffer[:n], to)
		}
	}
}

func (g *gossipGate) stream(c net.Conn) {
	defer c.Close()
	target := g.leads()
	if g.shut.Load() || target == "" {
		return
	}
	o, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer o.Close()
	g.mu.Lock()
	g.conns[c] = true
	g.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, o}, {o, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	_, _ = c.Close(), o.Close()
	<-done
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
}

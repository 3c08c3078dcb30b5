package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// frameLimit is larger than a frame of the greatest MTU.
const frameLimit = 1 << 16

// Hop is a direction between two machines on one network.
type Hop struct{ Network, From, To string }

// Rules describes which frames are dropped. A value is never changed after it was set.
type Rules struct {
	Cut  map[Hop]bool
	Loss map[string]float64 // share of the frames of a network that are dropped, 0 to 1
}

// Fabric holds all networks.
type Fabric struct {
	dir   string
	rules atomic.Pointer[Rules]
	wg    sync.WaitGroup

	mu    sync.RWMutex
	ports []*Port // guarded by mu
}

// Port is a machine's card on a network.
type Port struct {
	Network, Machine string
	MAC              net.HardwareAddr
	// Local is the path of QEMU's socket, and Remote that of the switch's socket.
	Local, Remote string

	conn      *net.UnixConn
	raw       rawConn
	to        unix.SockaddrUnix
	Delivered atomic.Uint64
	Dropped   atomic.Uint64
}

type rawConn interface {
	Write(f func(fd uintptr) (done bool)) error
}

// New creates a fabric whose sockets are in dir. The path of dir must be short.
func New(dir string) *Fabric {
	f := &Fabric{dir: dir}
	f.rules.Store(&Rules{})
	return f
}

// Connect adds a card, or returns the one that was added before. The machine need not be running.
func (f *Fabric) Connect(network, machine string, mac net.HardwareAddr) (*Port, error) {
	if p := f.port(network, machine, mac); p != nil {
		return p, nil
	}
	base := filepath.Join(f.dir, network+"-"+machine)
	p := &Port{Network: network, Machine: machine, MAC: mac, Local: base + ".q", Remote: base + ".s"}
	p.to = unix.SockaddrUnix{Name: p.Local}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.Remote, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("port %s of %s: %w", network, machine, err)
	}
	p.conn = conn
	if p.raw, err = conn.SyscallConn(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("port %s of %s: %w", network, machine, err)
	}
	// Frames that a stopped machine does not read fill the sender's buffer, until the machine's queue is full. The host
	// sets the length of that queue (net.unix.max_dgram_qlen, 10 or 512).
	if err := p.conn.SetWriteBuffer(sendBuffer); err != nil {
		return nil, fmt.Errorf("port %s of %s: %w", network, machine, errors.Join(err, p.conn.Close()))
	}
	f.mu.Lock()
	f.ports = append(f.ports, p)
	f.mu.Unlock()
	f.wg.Go(func() { f.forward(p) })
	return p, nil
}

// port returns the card that a machine has on a network, or nil if it has none.
func (f *Fabric) port(network, machine string, mac net.HardwareAddr) *Port {
	f.mu.RLock()
	defer f.mu.RUnlock()
	i := slices.IndexFunc(f.ports, func(p *Port) bool {
		return p.Network == network && p.Machine == machine && bytes.Equal(p.MAC, mac)
	})
	if i < 0 {
		return nil
	}
	return f.ports[i]
}

// Set replaces the rules.
func (f *Fabric) Set(r Rules) { f.rules.Store(&r) }

// Close ends all traffic and removes the sockets.
func (f *Fabric) Close() {
	f.mu.RLock()
	for _, p := range f.ports {
		p.conn.Close()
		_ = os.Remove(p.Remote)
	}
	f.mu.RUnlock()
	f.wg.Wait()
}

func (f *Fabric) forward(p *Port) {
	frame := make([]byte, frameLimit)
	for {
		n, err := p.conn.Read(frame)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < 14 {
			continue
		}
		f.deliver(p, frame[:n])
	}
}

func (f *Fabric) deliver(from *Port, frame []byte) {
	rules := f.rules.Load()
	group := frame[0]&1 != 0
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, to := range f.ports {
		if to == from || to.Network != from.Network || !group && string(frame[:6]) != string(to.MAC) {
			continue
		}
		if rules.Cut[Hop{from.Network, from.Machine, to.Machine}] || rand.Float64() < rules.Loss[from.Network] || !to.send(from, frame) {
			to.Dropped.Add(1)
			continue
		}
		to.Delivered.Add(1)
	}
}

// sendBuffer is large enough for the queues of several stopped machines.
const sendBuffer = 8 << 20

// send never waits: the machine may be stopped, or may not exist.
func (p *Port) send(by *Port, frame []byte) bool {
	ok := false
	err := by.raw.Write(func(fd uintptr) bool {
		ok = unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, &p.to) == nil
		return true
	})
	return ok && err == nil
}

package swim

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// ledger counts the traffic of an instance's transport.
type ledger struct {
	*counters
	clock boottime.Clock
	peers map[netip.Addr]struct{} // fixed after creation
	heard atomic.Int64            // boottime.Instant of the last packet of a peer
	// foreign is called for packets that are refused because they do not come from a peer's address; nil: none are
	// refused. It must not block.
	foreign func(from netip.Addr)
	screen  screen                             // nil: no check
	report  func(why refusal, from netip.Addr) // called for each frame that screen refuses; nil: no report. It must not block
}

func newLedger(count *counters, clock boottime.Clock, targets []target) *ledger {
	l := &ledger{counters: count, clock: clock, peers: make(map[netip.Addr]struct{}, len(targets))}
	for _, t := range targets {
		if at, err := netip.ParseAddrPort(t.addr.Addr); err == nil { // never fails: targets has checked it
			l.peers[at.Addr()] = struct{}{}
		}
	}
	return l
}

// received counts a packet. Only packets from the roster's addresses end the silence of the network: a port scan must
// not.
func (l *ledger) received(n int, from netip.Addr) {
	l.packetsIn.add(1)
	l.bytesIn.add(n)
	if _, ok := l.peers[from]; ok {
		l.heard.Store(int64(l.clock()))
	}
}

func (l *ledger) sent(n int) {
	l.packetsOut.add(1)
	l.bytesOut.add(n)
}

// streams holds the open streams of a transport. They are counted, and closed when the transport ends, so that nothing
// waits for their deadlines.
type streams struct {
	ledger *ledger

	mu   sync.Mutex
	open map[*stream]struct{} // nil after the transport has ended
}

// maxStreams bounds the open streams. The memory that a stream may use until memberlist gives up on it is bounded, so
// the number of streams must be, too.
const maxStreams = 256

var errCrowd = errors.New("too many open streams")

func newStreams(l *ledger) *streams {
	return &streams{ledger: l, open: make(map[*stream]struct{})}
}

// accepted takes over a stream that a peer opened.
func (s *streams) accepted(c net.Conn) (net.Conn, error) { return s.add(c, true) }

// dialed takes over a stream to a peer.
func (s *streams) dialed(c net.Conn) (net.Conn, error) { return s.add(c, false) }

// add takes a stream over, or closes it if the transport has ended or, with errCrowd, if too many streams are open.
func (s *streams) add(c net.Conn, accepted bool) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		c.Close()
		return nil, net.ErrClosed
	}
	if accepted && len(s.open) >= maxStreams {
		c.Close()
		s.ledger.refused[refusedOverflow].add(1)
		return nil, errCrowd
	}
	st := &stream{Conn: c, streams: s, mute: accepted}
	if s.ledger.screen != nil {
		st.screen = s.ledger.screen.screenStream()
	}
	s.open[st] = struct{}{}
	return st, nil
}

// cut breaks all open streams, and with end all later ones, too.
func (s *streams) cut(end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.open {
		st.Conn.Close()
	}
	clear(s.open)
	if end {
		s.open = nil
	}
}

type stream struct {
	net.Conn
	streams *streams
	mute    bool         // accepted, and no byte has come yet; memberlist reads from one goroutine
	screen  streamScreen // nil: further bytes are not checked any more
	// turnedAway is true if the screen has refused the stream.
	turnedAway bool
}

// errMute is the error of a read from an accepted stream that ended without a byte. Without it, memberlist takes this
// for a stream without a label, that is, from another cluster. The real cause is a peer that gave up, or a port scan.
var errMute = errors.New("closed before anything was sent")

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.streams.ledger.bytesIn.add(n)
	if s.mute && n == 0 && err == io.EOF {
		return 0, errMute
	}
	s.mute = s.mute && n == 0
	if err := s.check(b[:n]); err != nil {
		return 0, err
	}
	return n, err
}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.streams.ledger.bytesOut.add(n)
	return n, err
}

func (s *stream) Close() error {
	s.streams.mu.Lock()
	delete(s.streams.open, s)
	s.streams.mu.Unlock()
	return s.Conn.Close()
}

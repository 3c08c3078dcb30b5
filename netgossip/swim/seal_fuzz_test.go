package swim_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// The targets of this file feed bytes, like the network, into a complete instance with a keyring and a label: the
// transport's checks, memberlist, the evidence protocol. Each target either feeds them as they are, like a sender
// without the key, or sealed by the harness, like a sender with the key, so that they reach the decoders. A panic in
// any goroutine ends the run.

// wall is the transport of the instance: it receives the target's input, and discards what is sent.
type wall struct {
	packets chan *memberlist.Packet
	accepts chan net.Conn
	dialed  chan net.Conn // the result of the next dial; empty: the dial is refused
}

func (w *wall) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return fuzzSelf.Addr().AsSlice(), int(fuzzSelf.Port()), nil
}
func (w *wall) PacketCh() <-chan *memberlist.Packet { return w.packets }
func (w *wall) StreamCh() <-chan net.Conn           { return w.accepts }
func (w *wall) Shutdown() error                     { return nil }
func (w *wall) WriteTo(b []byte, to string) (time.Time, error) {
	return w.WriteToAddress(b, memberlist.Address{Addr: to})
}

func (w *wall) WriteToAddress([]byte, memberlist.Address) (time.Time, error) { return time.Now(), nil }

func (w *wall) DialTimeout(string, time.Duration) (net.Conn, error) {
	select {
	case c := <-w.dialed:
		return c, nil
	default:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	}
}

func (w *wall) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return w.DialTimeout(a.Addr, timeout)
}

// tape is a stream that plays recorded bytes and accepts writes.
type tape struct {
	*bytes.Reader
	closed chan struct{}
}

func newTape(b []byte) *tape { return &tape{bytes.NewReader(b), make(chan struct{}, 8)} }

func (t *tape) Write(b []byte) (int, error)      { return len(b), nil }
func (t *tape) Close() error                     { t.closed <- struct{}{}; return nil }
func (t *tape) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(fuzzSelf) }
func (t *tape) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(fuzzPeer) }
func (t *tape) SetDeadline(time.Time) error      { return nil }
func (t *tape) SetReadDeadline(time.Time) error  { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }

var (
	fuzzSelf = netip.AddrPortFrom(memory(0), testPort)
	fuzzPeer = netip.AddrPortFrom(memory(1), testPort)
)

// deaf is a Sink that ignores all reports.
type deaf struct{}

func (deaf) MemberChanged(int, int, bool, boottime.Instant) {}
func (deaf) Answered(netgossip.Answer)                      {}
func (deaf) Vouched(int, boottime.Instant)                  {}
func (deaf) Missed(int, int, boottime.Instant, bool)        {}
func (deaf) Doubted(int)                                    {}
func (deaf) Heard(int, int, boottime.Instant)               {}
func (deaf) Conflict(int, string, string)                   {}

// press seals the harness's messages, as memberlist would.
type press struct {
	gcm   cipher.AEAD
	nonce [12]byte
}

func newPress(f testing.TB) *press {
	block, err := aes.NewCipher(bytes.Repeat([]byte(sealedKey), 32))
	if err != nil {
		f.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		f.Fatal(err)
	}
	return &press{gcm: gcm}
}

// open returns what is in a frame, from its version on; more is authenticated with it.
func (p *press) open(f testing.TB, sealed, more []byte) []byte {
	plain, err := p.gcm.Open(nil, sealed[1:13], sealed[13:], more)
	if err != nil {
		f.Fatalf("captured frame: %v", err)
	}
	return plain
}

func (p *press) packet(plain []byte) []byte {
	head := append(bytes.Clone(labelHeader), 1)
	return p.gcm.Seal(append(head, p.nonce[:]...), p.nonce[:], plain, []byte(testLabel))
}

// stream seals what one side sends, without a label header.
func (p *press) stream(plain []byte) []byte {
	head := binary.BigEndian.AppendUint32([]byte{10}, uint32(len(plain)+29))
	more := append(bytes.Clone(head), testLabel...)
	return p.gcm.Seal(append(append(head, 1), p.nonce[:]...), p.nonce[:], plain, more)
}

// fuzzed starts an instance behind a wall, directly or with the layers that New adds.
func fuzzed(f testing.TB, directly, key bool) (*swim.Instance, *wall, *press) {
	p := newPress(f)
	w := &wall{packets: make(chan *memberlist.Packet), accepts: make(chan net.Conn), dialed: make(chan net.Conn, 1)}
	nd := configureF(f, 2, 0)
	nd.Transport = func(netip.AddrPort) (memberlist.NodeAwareTransport, error) { return w, nil }
	if key {
		nd.Keyring = keyring(f, sealedKey)
	}
	in, err := swim.New(nd)
	if err != nil {
		f.Fatal(err)
	}
	if directly {
		if err := in.ReadFrom(w); err != nil {
			f.Fatal(err)
		}
	}
	if err := in.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Context()), patience)
		defer cancel()
		if err := in.Stop(ctx, false); err != nil {
			f.Error(err)
		}
	})
	return in, w, p
}

// configureF returns a configuration whose instance does nothing by itself while a target runs.
func configureF(f testing.TB, n, self int) swim.Config {
	p := netgossip.Tune(n)
	p.RejoinInterval, p.ProbeInterval, p.EvidenceInterval, p.EvidenceMaxAge = time.Hour, time.Hour, time.Hour, 2*time.Hour
	return swim.Config{
		Name: "mgmt", Label: testLabel, Roster: testRoster(f, n, self, memory), BindAddr: memory(self), Port: testPort,
		Params: p, Clock: clock, Sink: deaf{}, Statement: func() *netgossip.Statement { return nil },
		Logger: slog.New(slog.DiscardHandler),
	}
}

// FuzzPacket feeds packets that arrive by UDP.
func FuzzPacket(f *testing.F) {
	in, w, p := fuzzed(f, true, true)
	for _, b := range readFrames(f, "packet") {
		f.Add(false, b)
		flipped := bytes.Clone(b)
		flipped[len(labelHeader)] = 0
		f.Add(false, flipped)
		f.Add(true, p.open(f, b[len(labelHeader):], []byte(testLabel)))
	}
	from := net.UDPAddrFromAddrPort(fuzzPeer)
	nothing := &memberlist.Packet{From: from}
	f.Fuzz(func(_ *testing.T, key bool, b []byte) {
		if key {
			b = p.packet(b)
		} else {
			b = bytes.Clone(b)
		}
		if in.Opens(b, fuzzPeer.Addr()) {
			w.packets <- &memberlist.Packet{Buf: b, From: from, Timestamp: time.Now()}
			w.packets <- nothing // is received when memberlist has finished with the packet before
		}
	})
}

// FuzzStream feeds a stream that a peer has opened.
func FuzzStream(f *testing.F) {
	_, w, p := fuzzed(f, false, true)
	seedStreams(f, p)
	f.Fuzz(func(_ *testing.T, key bool, b []byte) {
		if key {
			b = append(bytes.Clone(labelHeader), p.stream(b)...)
		}
		t := newTape(b)
		w.accepts <- t
		<-t.closed
	})
}

// FuzzReply feeds the reply on a stream to a peer.
func FuzzReply(f *testing.F) {
	in, w, p := fuzzed(f, false, true)
	seedStreams(f, p)
	f.Fuzz(func(_ *testing.T, key bool, b []byte) {
		if key {
			b = p.stream(b)
		}
		t := newTape(b)
		w.dialed <- t
		in.Join(1)
		<-t.closed
	})
}

// Without a key, no message from a member's address may make memberlist allocate more than the largest table needs.
const plainMemory = 8 << 20

// bounded fails if call allocates more memory than allowed.
func bounded(t *testing.T, call func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > plainMemory {
		t.Errorf("%d MiB for what was sent", n>>20)
	}
}

// FuzzPlainPacket feeds packets that arrive by UDP without a key.
func FuzzPlainPacket(f *testing.F) {
	in, w, p := fuzzed(f, true, false)
	for _, b := range readFrames(f, "packet") {
		f.Add(p.open(f, b[len(labelHeader):], []byte(testLabel)))
	}
	for _, b := range greedy {
		f.Add(b)
	}
	from := net.UDPAddrFromAddrPort(fuzzPeer)
	nothing := &memberlist.Packet{From: from}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(bytes.Clone(labelHeader), b...)
		bounded(t, func() {
			if in.Opens(b, fuzzPeer.Addr()) {
				w.packets <- &memberlist.Packet{Buf: b, From: from, Timestamp: time.Now()}
				w.packets <- nothing
			}
		})
	})
}

// FuzzPlainStream feeds streams without a key, from the opening and from the dialed side.
func FuzzPlainStream(f *testing.F) {
	in, w, p := fuzzed(f, false, false)
	for _, b := range append(readFrames(f, "stream"), readFrames(f, "reply")...) {
		b = bytes.TrimPrefix(b, labelHeader)
		f.Add(p.open(f, b[5:], append(bytes.Clone(b[:5]), testLabel...)))
	}
	for _, b := range greedy {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, func() {
			opened := newTape(append(bytes.Clone(labelHeader), b...))
			w.accepts <- opened
			<-opened.closed
			dialed := newTape(b)
			w.dialed <- dialed
			in.Join(1)
			<-dialed.closed
		})
	})
}

// seedStreams adds both sides of streams, each also in the role of the other.
func seedStreams(f *testing.F, p *press) {
	for _, b := range append(readFrames(f, "stream"), readFrames(f, "reply")...) {
		b = bytes.TrimPrefix(b, labelHeader)
		flipped := bytes.Clone(b)
		flipped[5] = 0
		for _, raw := range [][]byte{b, flipped} {
			f.Add(false, raw)
			f.Add(false, append(bytes.Clone(labelHeader), raw...))
		}
		f.Add(true, p.open(f, b[5:], append(bytes.Clone(b[:5]), testLabel...)))
	}
}

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

const (
	// MaxSize bounds a packet in bytes. The largest that Append makes is smaller, and
	// with label (257) and encryption (29) it still fits an Ethernet frame.
	MaxSize = 1024
	// MaxName and MaxVersion bound the strings of a packet in bytes.
	MaxName    = 253
	MaxVersion = 64

	checksumSize = 4
)

// Kind tells probes from replies.
type Kind uint8

const (
	Probe Kind = iota + 1
	Answer
)

// Message is one decoded packet.
type Message struct {
	Kind      Kind
	ID        uint64
	Sender    string
	Statement *netgossip.Statement // nil only in the probe of a node that has none yet
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append encodes m and appends it to dst. It fails only for a sender that no roster
// may hold.
func Append(dst []byte, m Message) ([]byte, error) {
	if m.Sender == "" || len(m.Sender) > MaxName {
		return dst, fmt.Errorf("encode packet: sender name has %d bytes, 1 to %d are possible", len(m.Sender), MaxName)
	}
	x := &Exchange{Id: m.ID, Sender: m.Sender, Statement: statementToWire(m.Statement)}
	p := &Packet{Kind: &Packet_Probe{Probe: x}}
	if m.Kind == Answer {
		p.Kind = &Packet_Reply{Reply: x}
	}
	start := len(dst)
	out, err := proto.MarshalOptions{}.MarshalAppend(append(dst, 0, 0, 0, 0), p)
	if err != nil {
		return dst, fmt.Errorf("encode packet: %w", err)
	}
	binary.LittleEndian.PutUint32(out[start:], crc32.Checksum(out[start+checksumSize:], castagnoli))
	return out, nil
}

// Decode reads a packet. r is the own roster: a statement that claims to be about the
// same one may not name members beyond it. It keeps no reference to b.
func Decode(b []byte, r *netgossip.Roster) (Message, error) {
	if len(b) <= checksumSize || len(b) > MaxSize {
		return Message{}, fmt.Errorf("packet of %d bytes, %d to %d are possible", len(b), checksumSize+1, MaxSize)
	}
	body := b[checksumSize:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b) {
		return Message{}, errors.New("packet: checksum does not match")
	}
	var p Packet
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &p); err != nil {
		return Message{}, fmt.Errorf("packet: %w", err)
	}
	m := Message{Kind: Probe}
	x := p.GetProbe()
	if x == nil {
		m.Kind, x = Answer, p.GetReply()
	}
	switch {
	case x == nil:
		return Message{}, errors.New("packet: neither probe nor reply")
	case x.GetId() == 0:
		return Message{}, errors.New("packet: id is zero")
	case x.GetSender() == "" || len(x.GetSender()) > MaxName:
		return Message{}, fmt.Errorf("packet: sender name has %d bytes, 1 to %d are possible", len(x.GetSender()), MaxName)
	case x.GetStatement() == nil && m.Kind == Answer:
		return Message{}, errors.New("reply without a statement")
	}
	m.ID, m.Sender = x.GetId(), x.GetSender()
	if x.GetStatement() == nil {
		return m, nil
	}
	s, err := statementFromWire(x.GetStatement(), r)
	if err != nil {
		return Message{}, fmt.Errorf("statement of %q: %w", m.Sender, err)
	}
	m.Statement = s
	return m, nil
}

func statementToWire(s *netgossip.Statement) *Statement {
	if s == nil {
		return nil
	}
	return &Statement{
		Boot:              s.Boot,
		RosterEpoch:       s.RosterEpoch,
		RosterDigest:      s.RosterDigest,
		TokenNonce:        s.Token.Nonce,
		TokenCounter:      s.Token.Counter,
		Seen:              setToWire(s.Seen),
		View:              setToWire(s.View),
		Armed:             s.Guard.Armed,
		Fences:            s.Guard.Fences,
		WatchdogTimeoutMs: millisUp(s.Guard.Timeout),
		Feeding:           s.Feeding,
		Stopping:          s.Stopping,
		LunHealthy:        s.LUNHealthy,
		ApiReachable:      s.APIReachable,
		Version:           cutVersion(s.Version),
		Guarded:           setToWire(s.Guarded),
		Lost:              setToWire(s.Lost),
		HorizonMs:         millisUp(s.Guard.Horizon),
		Leases:            s.Guard.Leases,
	}
}

// millisUp rounds up: a peer must never assume too short a time.
func millisUp(d time.Duration) uint32 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return uint32(min(max(0, ms), math.MaxUint32))
}

func statementFromWire(w *Statement, r *netgossip.Roster) (*netgossip.Statement, error) {
	limit := netgossip.MaxNodes
	if w.GetRosterDigest() == r.Digest {
		// With another roster the sets count other members, possibly more than we
		// know; such a statement is of use only to tell that its sender is alive.
		limit = r.Size()
	}
	seen, err := setFromWire(w.GetSeen(), limit)
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	view, err := setFromWire(w.GetView(), limit)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	guarded, err := setFromWire(w.GetGuarded(), limit)
	if err != nil {
		return nil, fmt.Errorf("guarded: %w", err)
	}
	lost, err := setFromWire(w.GetLost(), limit)
	if err != nil {
		return nil, fmt.Errorf("lost: %w", err)
	}
	if n := len(w.GetVersion()); n > MaxVersion {
		return nil, fmt.Errorf("version has %d bytes, at most %d are possible", n, MaxVersion)
	}
	return &netgossip.Statement{
		Boot:         w.GetBoot(),
		RosterEpoch:  w.GetRosterEpoch(),
		RosterDigest: w.GetRosterDigest(),
		Token:        netgossip.Token{Nonce: w.GetTokenNonce(), Counter: w.GetTokenCounter()},
		Seen:         seen,
		View:         view,
		Guard: netgossip.Guard{
			Armed:   w.GetArmed(),
			Fences:  w.GetFences(),
			Leases:  w.GetLeases(),
			Timeout: time.Duration(w.GetWatchdogTimeoutMs()) * time.Millisecond,
			Horizon: time.Duration(w.GetHorizonMs()) * time.Millisecond,
		},
		Guarded:      guarded,
		Lost:         lost,
		Feeding:      w.GetFeeding(),
		Stopping:     w.GetStopping(),
		LUNHealthy:   w.GetLunHealthy(),
		APIReachable: w.GetApiReachable(),
		Version:      w.GetVersion(),
	}, nil
}

// setToWire drops trailing zero bytes: a cluster of a few nodes pays one byte.
func setToWire(s netgossip.Set) []byte {
	b := make([]byte, 0, netgossip.MaxNodes/8)
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return b[:n]
}

func setFromWire(b []byte, limit int) (netgossip.Set, error) {
	var s netgossip.Set
	if len(b) == 0 {
		return s, nil
	}
	if len(b) > netgossip.MaxNodes/8 {
		return s, fmt.Errorf("set of %d bytes, at most %d are possible", len(b), netgossip.MaxNodes/8)
	}
	last := b[len(b)-1]
	if last == 0 {
		return s, errors.New("set is not of minimal length")
	}
	if width := (len(b)-1)*8 + bits.Len8(last); width > limit {
		return s, fmt.Errorf("set names member %d of a roster of %d", width-1, limit)
	}
	for i, v := range b {
		s[i/8] |= uint64(v) << (8 * (i % 8))
	}
	return s, nil
}

// cutVersion makes any version string fit: it is for people, and a long build tag must
// not silence a node.
func cutVersion(v string) string {
	v = strings.ToValidUTF8(v, "?")
	if len(v) <= MaxVersion {
		return v
	}
	n := MaxVersion
	for !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

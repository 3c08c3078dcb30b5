package swim

import (
	"bytes"
	"errors"
	"net/netip"
)

const (
	labelByte = 244
	// stateShare is more than a table needs for one member, whatever its name. There is always room for stateMembers:
	// the peer may have a longer list.
	stateShare, stateMembers = 512, 256
)

// screen judges what arrives, before memberlist gets it.
type screen interface {
	// packet says whether memberlist may have a packet: "" if so.
	packet(b []byte) refusal
	screenStream() streamScreen
}

// streamScreen judges what arrives on one stream.
type streamScreen interface {
	// next takes the next bytes, before memberlist gets any of them. more says that it has to be called again; after
	// a refusal it is not called.
	next(b []byte) (r refusal, more bool)
}

// newScreen returns the screen of an instance.
func (c *Config) newScreen() screen {
	members := max(c.Roster.Size(), stateMembers)
	own, maxStream := newLabel(c.Label), uint32(stateShare*members)
	if c.Keyring == nil {
		return &plainScreen{label: own, maxStream: maxStream, maxNodes: uint64(members)}
	}
	return &sealer{label: own, maxStream: maxStream}
}

// label is the header of our own label, empty if there is none.
type label []byte

func newLabel(text string) label {
	if text == "" {
		return nil
	}
	return append([]byte{labelByte, byte(len(text))}, text...)
}

// cut takes the label off a packet. ours is false if there is none, or another one, or a part of one.
func (l label) cut(b []byte) (rest []byte, ours bool) {
	if len(l) == 0 {
		return b, len(b) == 0 || b[0] != labelByte
	}
	return bytes.CutPrefix(b, l)
}

// cutStream takes the label off the beginning of a stream. An answer has none. whole is false if it
// takes more of the stream to say.
func (l label) cutStream(head []byte) (rest []byte, ours, whole bool) {
	switch {
	case len(head) == 0:
		return nil, true, false
	case head[0] != labelByte:
		return head, true, true
	case len(head) < len(l) && bytes.HasPrefix(l, head):
		return nil, true, false
	}
	rest, ours = l.cut(head)
	return rest, ours, true
}

// opens reports whether memberlist may have a packet, and counts and reports it if not.
func (l *ledger) opens(b []byte, from netip.Addr) bool {
	if l.screen == nil {
		return true
	}
	r := l.screen.packet(b)
	if r != "" {
		l.turnAway(r, from)
	}
	return r == ""
}

func (l *ledger) turnAway(r refusal, from netip.Addr) {
	l.refused[r].add(1)
	if l.report != nil {
		l.report(r, from)
	}
}

// errFrame is what a refused stream reads as.
var errFrame = errors.New("frame refused before it was read")

// check examines the bytes of a stream as they come, so that memberlist gets no part that it must not have. How the
// bytes are cut into reads makes no difference.
func (s *stream) check(b []byte) error {
	if s.turnedAway {
		return errFrame // memberlist reads on
	}
	if s.screen == nil {
		return nil
	}
	r, more := s.screen.next(b)
	if r != "" {
		s.turnedAway = true
		s.streams.ledger.turnAway(r, addrOf(s.RemoteAddr()))
		return errFrame
	}
	if !more {
		s.screen = nil
	}
	return nil
}

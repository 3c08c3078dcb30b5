package swim

import (
	"bytes"
	"errors"
	"net/netip"
)

const (
	labelByte = 244
	// stateShare is more than a table needs for one member with the longest name. There is always room for stateMembers
	// members: the peer may have a longer list than this node.
	stateShare, stateMembers = 512, 256
)

// screen checks arriving data before memberlist gets it.
type screen interface {
	// packet returns why memberlist must not get a packet; "": it may.
	packet(b []byte) refusal
	screenStream() streamScreen
}

// streamScreen checks the data that arrives on one stream.
type streamScreen interface {
	// next checks the next bytes before memberlist gets any of them. more reports that it must be called again with
	// later bytes; after a refusal it is not called.
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

// label is the header with our own label; empty if there is none.
type label []byte

func newLabel(text string) label {
	if text == "" {
		return nil
	}
	return append([]byte{labelByte, byte(len(text))}, text...)
}

// cut removes the label from a packet. ours is false if the label is missing, different or incomplete.
func (l label) cut(b []byte) (rest []byte, ours bool) {
	if len(l) == 0 {
		return b, len(b) == 0 || b[0] != labelByte
	}
	return bytes.CutPrefix(b, l)
}

// cutStream removes the label from the beginning of a stream. An answer has no label. whole is false if more bytes are
// needed to decide.
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

// opens reports whether memberlist may get a packet. If not, it counts and reports the refusal.
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

// errFrame is the error of reads from a refused stream.
var errFrame = errors.New("frame refused before it was read")

// check checks the bytes of a stream as they come, before memberlist gets them. It does not depend on how the bytes are
// divided into reads.
func (s *stream) check(b []byte) error {
	if s.turnedAway {
		return errFrame // memberlist would read on
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

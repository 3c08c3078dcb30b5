package swim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/hashicorp/memberlist"
)

// With a keyring, memberlist v0.7.0 seals a packet as
//
//	[244, length of the label, label]  version  nonce (12)  AES-GCM of the message, and its tag (16)
//
// and a stream as
//
//	[244, length of the label, label]  10  length of the rest (4)  version  nonce (12)  ...
//
// The tag covers the label, the length and the message, but not the version. Version 1 is what all
// send; version 0 had padding, which memberlist still takes off without looking whether it is there.
// So anybody who can send a recorded packet once more, with the version set to 0, makes memberlist
// slice with a negative length, which ends the process. A stream that seals nothing ends it as well,
// and one that announces 20 MiB is given them before its seal is looked at.
//
// The sealer lets none of that get as far as memberlist (docs/adr/0016-frames-before-memberlist.md).
// What memberlist itself refuses before it decrypts is left to it: it says why.

const (
	labelByte   = 244
	sealedByte  = 10
	sealVersion = 1
	// leastSealed is version, nonce and tag. A stream holds the type of its message besides.
	leastSealed = 1 + 12 + 16
	// maxStreamHead is as much of a stream as it takes to judge it.
	maxStreamHead = 2 + memberlist.LabelMaxSize + 1 + 4 + 1
	// stateShare is more than a table needs for one member, whatever its name, and stateMembers are
	// allowed for in any case: the peer may have a longer list.
	stateShare, stateMembers = 512, 256
)

// sealer judges frames by what can be read of them without a key.
type sealer struct {
	header    []byte // of the own label
	maxStream uint32 // the largest table that a peer of the same list can send, and then some
}

// newSealer returns the sealer of an instance, nil without a keyring: nothing is sealed then.
func (c *Config) newSealer() *sealer {
	if c.Keyring == nil {
		return nil
	}
	s := &sealer{maxStream: uint32(stateShare * max(c.Roster.Size(), stateMembers))}
	if c.Label != "" {
		s.header = append([]byte{labelByte, byte(len(c.Label))}, c.Label...)
	}
	return s
}

// packet says whether memberlist may have a packet: "" if so.
func (s *sealer) packet(b []byte) refusal {
	sealed, ours := s.unlabelled(b)
	if !ours || len(sealed) == 0 {
		return "" // memberlist refuses another label first of all
	}
	return version(sealed[0])
}

// unlabelled takes the own label off. ours is false if there is none, or another one, or a part of one.
func (s *sealer) unlabelled(b []byte) (rest []byte, ours bool) {
	if len(s.header) == 0 {
		return b, len(b) == 0 || b[0] != labelByte
	}
	return bytes.CutPrefix(b, s.header)
}

// version judges the byte where the version of the encryption stands. In a packet of an agent
// without a key it is the type of the message, which is 0 for a ping of memberlist.
func version(b byte) refusal {
	switch b {
	case sealVersion:
		return ""
	case 0:
		return refusedVersion
	default:
		return refusedKey
	}
}

// stream judges a stream by how it begins. more says that this takes more of it.
func (s *sealer) stream(head []byte) (r refusal, more bool) {
	if len(head) == 0 {
		return "", true
	}
	frame := head
	if head[0] == labelByte {
		if len(head) < len(s.header) {
			return "", bytes.HasPrefix(s.header, head)
		}
		var ours bool
		if frame, ours = s.unlabelled(head); !ours {
			return "", false
		}
	}
	switch {
	case len(frame) == 0:
		return "", true
	case frame[0] != sealedByte:
		return "", false // memberlist takes no plain stream where there is a keyring
	case len(frame) < 5:
		return "", true
	}
	if n := binary.BigEndian.Uint32(frame[1:5]); n <= leastSealed || n > s.maxStream {
		return refusedMalformed, false
	}
	if len(frame) < 6 {
		return "", true
	}
	return version(frame[5]), false
}

// opens reports whether memberlist may have a packet, and counts and reports it if not.
func (l *ledger) opens(b []byte, from netip.Addr) bool {
	if l.seals == nil {
		return true
	}
	r := l.seals.packet(b)
	if r != "" {
		l.unsealed(r, from)
	}
	return r == ""
}

func (l *ledger) unsealed(r refusal, from netip.Addr) {
	l.refused[r].add(1)
	if l.report != nil {
		l.report(r, from)
	}
}

// errFrame is what a refused stream reads as.
var errFrame = errors.New("frame refused before it was read")

// check looks at the first bytes of a stream as they come, before memberlist has any of a part that
// it must not have. How the bytes are cut into reads makes no difference.
func (s *stream) check(b []byte) error {
	if s.seals == nil {
		return nil
	}
	s.head = append(s.head, b[:min(len(b), maxStreamHead-len(s.head))]...)
	r, more := s.seals.stream(s.head)
	if r != "" {
		s.streams.ledger.unsealed(r, addrOf(s.RemoteAddr()))
		return errFrame // and again if memberlist should read on: seals stays
	}
	if !more {
		s.seals, s.head = nil, nil
	}
	return nil
}

package swim

import (
	"encoding/binary"

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
// The tag covers the label, the length and the message, but not the version. Version 1 is what all send; version 0 had
// padding, which memberlist still takes off without looking whether it is there. So anybody who can send a recorded
// packet once more, with the version set to 0, makes memberlist slice with a negative length, which crashes the
// process. A stream that seals nothing crashes it as well, and a stream that announces 20 MiB is given them before its
// seal is looked at.
//
// The sealer lets none of that get as far as memberlist (docs/adr/0016-frames-before-memberlist.md).
// What memberlist itself refuses before it decrypts is left to memberlist, which says why.

const (
	sealedByte  = 10
	sealVersion = 1
	// leastSealed is version, nonce and tag. A stream has the type of its message as well.
	leastSealed = 1 + 12 + 16
	// maxStreamHead is as much of a stream as it takes to judge it.
	maxStreamHead = 2 + memberlist.LabelMaxSize + 1 + 4 + 1
)

// sealer judges frames by what can be read of them without a key.
type sealer struct {
	label     label
	maxStream uint32 // the largest table that a peer of the same list can send, and then some
}

func (s *sealer) packet(b []byte) refusal {
	sealed, ours := s.label.cut(b)
	if !ours || len(sealed) == 0 {
		return "" // memberlist refuses another label first of all
	}
	return version(sealed[0])
}

func (s *sealer) screenStream() streamScreen { return &sealedStream{screen: s} }

// version checks the byte with the version of the encryption. In a packet of an agent without a key it is the type of
// the message, which is 0 for a ping of memberlist.
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

// sealedStream judges a stream by how it begins.
type sealedStream struct {
	screen *sealer
	head   []byte
}

func (s *sealedStream) next(b []byte) (r refusal, more bool) {
	s.head = append(s.head, b[:min(len(b), maxStreamHead-len(s.head))]...)
	frame, ours, whole := s.screen.label.cutStream(s.head)
	switch {
	case !ours:
		return "", false
	case !whole || len(frame) == 0:
		return "", true
	case frame[0] != sealedByte:
		return "", false // memberlist takes no plain stream where there is a keyring
	case len(frame) < 5:
		return "", true
	}
	if n := binary.BigEndian.Uint32(frame[1:5]); n <= leastSealed || n > s.screen.maxStream {
		return refusedMalformed, false
	}
	if len(frame) < 6 {
		return "", true
	}
	return version(frame[5]), false
}

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
// The tag covers the label, the length and the message, but not the version. All agents send version 1. Version 0 had
// padding, which memberlist still removes without a check that it exists. So an attacker who replays a recorded packet
// with the version set to 0 makes memberlist slice with a negative length, which crashes the process. A stream that
// seals an empty message also crashes it. And if a stream announces 20 MiB, memberlist allocates them before it checks
// the seal.
//
// The sealer keeps all of these from memberlist (docs/adr/0016-frames-before-memberlist.md). Frames that memberlist
// itself refuses before it decrypts are left to memberlist, which logs the reason.

const (
	sealedByte  = 10
	sealVersion = 1
	// leastSealed is the size of version, nonce and tag. A stream also has the type of its message.
	leastSealed = 1 + 12 + 16
	// maxStreamHead is the number of bytes of a stream that are needed to check it.
	maxStreamHead = 2 + memberlist.LabelMaxSize + 1 + 4 + 1
)

// sealer checks frames by the parts that can be read without a key.
type sealer struct {
	label     label
	maxStream uint32 // more than the largest table that a peer with the same list can send
}

func (s *sealer) packet(b []byte) refusal {
	sealed, ours := s.label.cut(b)
	if !ours || len(sealed) == 0 {
		return "" // memberlist checks the label first and refuses another one
	}
	return version(sealed[0])
}

func (s *sealer) screenStream() streamScreen { return &sealedStream{screen: s} }

// version checks the byte with the version of the encryption. In a packet of an agent without a key, this byte is the
// type of the message, which is 0 for a ping of memberlist.
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

// sealedStream checks the beginning of a stream.
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
		return "", false // with a keyring, memberlist refuses a plain stream
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

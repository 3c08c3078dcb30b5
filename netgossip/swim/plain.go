package swim

// Without a keyring, packets from any sender at a member's address are accepted. memberlist v0.7.0 passes them to a
// MessagePack decoder that, for some types, allocates the announced length before it looks at the data: ten bytes can
// cost up to 4 GiB. In the same way memory is allocated for the announced number of nodes in the head of a table, and
// for the announced length of a user message, up to bounds of 140 and 20 MB.
//
// Agents only use a small part of MessagePack: maps of at most 15 pairs whose keys are strings and whose values are
// integers, booleans, strings and bytes, without compression and without user state on streams. Only messages of this
// form reach memberlist, and no length in them may exceed the packet, or the longest table
// (docs/adr/0016-frames-before-memberlist.md).
//
// With a keyring, the sender of such a message has the key, so it is trusted.

// The types of memberlist's messages: the first byte of a message.
const (
	pingMsg         = 0
	indirectPingMsg = 1
	ackRespMsg      = 2
	suspectMsg      = 3
	aliveMsg        = 4
	deadMsg         = 5
	pushPullMsg     = 6
	compoundMsg     = 7
	userMsg         = 8
	compressMsg     = 9
	nackRespMsg     = 11
	hasCrcMsg       = 12
	errMsg          = 13
)

// crcHead is the size of the type and the checksum in front of a message with a checksum.
const crcHead = 1 + 4

// plainScreen checks frames of a group without a keyring.
type plainScreen struct {
	label     label
	maxStream uint32
	maxNodes  uint64
}

// packet follows memberlist's ingestPacket and handleCommand.
func (s *plainScreen) packet(b []byte) refusal {
	b, ours := s.label.cut(b)
	if !ours {
		return "" // memberlist checks the label first and refuses another one
	}
	if len(b) >= crcHead && b[0] == hasCrcMsg {
		b = b[crcHead:] // memberlist checks the checksum itself
	}
	if len(b) > 0 && b[0] == compoundMsg {
		return compound(b[1:])
	}
	return message(b)
}

// compound checks the parts that memberlist would extract from a compound message. Agents do not nest compound
// messages.
func compound(b []byte) refusal {
	if len(b) == 0 {
		return refusedMalformed
	}
	parts := int(b[0])
	if b = b[1:]; len(b) < 2*parts {
		return refusedMalformed
	}
	lengths, rest := b[:2*parts], b[2*parts:]
	for i := range parts {
		n := int(lengths[2*i])<<8 | int(lengths[2*i+1])
		if n > len(rest) {
			return refusedMalformed
		}
		if r := message(rest[:n]); r != "" {
			return r
		}
		rest = rest[n:]
	}
	return ""
}

// message checks a single message of a packet.
func message(b []byte) refusal {
	if len(b) == 0 {
		return refusedMalformed
	}
	switch b[0] {
	case pingMsg, indirectPingMsg, ackRespMsg, suspectMsg, aliveMsg, deadMsg, nackRespMsg:
		w := mapWalk{budget: len(b) - 1}
		for _, c := range b[1:] {
			if !w.step(c) {
				return refusedMalformed
			}
			if w.done() {
				return "" // memberlist ignores bytes after a message
			}
		}
		return refusedMalformed
	case compoundMsg, compressMsg:
		return refusedMalformed
	default:
		return "" // a user message, which this package decodes, or a type that memberlist does not know
	}
}

// screenStream returns the check for one stream.
func (s *plainScreen) screenStream() streamScreen { return &plainStream{screen: s} }

// plainStream checks one direction of a stream as it arrives.
type plainStream struct {
	screen *plainScreen
	head   []byte // the bytes received before the type of the message is known
	known  bool
	table  bool // heads and nodes follow each other until the end
	walk   mapWalk
}

func (s *plainStream) next(b []byte) (r refusal, more bool) {
	if !s.known {
		s.head = append(s.head, b...)
		frame, ours, whole := s.screen.label.cutStream(s.head)
		if !whole || ours && len(frame) == 0 {
			return "", true
		}
		if !ours {
			return "", false
		}
		b = frame[1:]
		if r, more = s.begin(frame[0]); r != "" || !more {
			return r, more
		}
	}
	for _, c := range b {
		if !s.walk.step(c) {
			return refusedMalformed, false
		}
		if !s.walk.done() {
			continue
		}
		if !s.table {
			return "", false
		}
		s.walk = mapWalk{budget: s.walk.budget} // the next map is that of a node; only numbers in the head are lengths
	}
	return "", true
}

// begin handles the type of a stream's message.
func (s *plainStream) begin(kind byte) (r refusal, more bool) {
	s.known, s.head = true, nil
	s.walk.budget = int(s.screen.maxStream)
	switch kind {
	case pushPullMsg:
		s.table, s.walk.limit = true, s.screen.maxNodes
		return "", true
	case pingMsg, ackRespMsg, errMsg:
		return "", true
	case userMsg, compressMsg:
		return refusedMalformed, false
	default:
		return "", false // memberlist does not know the type, or has no key for it
	}
}

// mapWalk parses one map of MessagePack, byte by byte. The zero value with a budget is the start state.
type mapWalk struct {
	budget int    // bytes that may still come
	limit  uint64 // the largest number among the values; 0: any
	begun  bool
	left   int    // keys and values that have not begun yet
	need   int    // bytes of a number or length that are still missing
	number uint64 // its value so far
	length bool   // number is a length
	skip   uint64 // bytes of a string that are still missing
}

// done reports whether the map is complete.
func (w *mapWalk) done() bool { return w.begun && w.left == 0 && w.need == 0 && w.skip == 0 }

// step handles the next byte, and reports whether an agent would have sent it.
func (w *mapWalk) step(c byte) bool {
	w.budget--
	if w.budget < 0 {
		return false
	}
	switch {
	case w.skip > 0:
		w.skip--
		return true
	case w.need > 0:
		w.number = w.number<<8 | uint64(c)
		if w.need--; w.need > 0 {
			return true
		}
		return w.take(w.number)
	case !w.begun:
		w.begun, w.left = true, 2*int(c&0x0f)
		return c&0xf0 == 0x80
	}
	w.left--
	return w.value(c)
}

// value handles the first byte of a key or a value.
func (w *mapWalk) value(c byte) bool {
	w.number, w.length = 0, false
	switch {
	case c >= 0xa0 && c <= 0xbf: // a short string
		w.length = true
		return w.take(uint64(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb: // a string
		w.length, w.need = true, 1<<(c-0xd9)
		return true
	case w.left%2 == 1: // nothing else is a key
		return false
	case c <= 0x7f: // a small number
		return w.take(uint64(c))
	case c >= 0xc4 && c <= 0xc6: // bytes
		w.length, w.need = true, 1<<(c-0xc4)
		return true
	case c >= 0xcc && c <= 0xcf, c >= 0xd0 && c <= 0xd3: // a number; memberlist refuses negative ones
		w.need = 1 << (c & 3)
		return true
	}
	return c == 0xc0 || c == 0xc2 || c == 0xc3 // nil, false, true
}

// take checks a complete number or length.
func (w *mapWalk) take(n uint64) bool {
	if !w.length {
		return w.limit == 0 || n <= w.limit
	}
	w.skip = n
	return n <= uint64(w.budget)
}

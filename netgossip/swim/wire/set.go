package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A set is its form and then either
//
//   - the lengths of its runs as varints, alternately of members that are absent and of
//     such that are present, from member 0 on and ending with one that is present, or
//   - a little-endian bitmap without trailing zero bytes,
//
// whichever is shorter. An empty set takes no bytes. Common sets are short: a healthy view of 1000 members takes six
// bytes, and so does a cut between two racks of consecutive members.
const (
	formRuns   = 1
	formBitmap = 2
)

const maxSetSize = 1 + roster.MaxNodes/8

// setToWire encodes a set in the shorter form.
func setToWire(s roster.Set) []byte {
	b := make([]byte, 1, 1+roster.MaxNodes/8)
	b[0] = formBitmap
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	n := len(b)
	for n > 1 && b[n-1] == 0 {
		n--
	}
	if b = b[:n]; n == 1 {
		return nil
	}
	runs := make([]byte, 1, n+2*binary.MaxVarintLen16)
	runs[0] = formRuns
	done := 0 // the members below are already encoded
	present := false
	for i := 0; i < (n-1)*8; i++ {
		if s.Has(i) == present {
			continue
		}
		if runs = binary.AppendUvarint(runs, uint64(i-done)); len(runs) >= n {
			return b
		}
		done, present = i, !present
	}
	if present { // up to the last bit of the bitmap
		runs = binary.AppendUvarint(runs, uint64((n-1)*8-done))
	}
	if len(runs) >= n {
		return b
	}
	return runs
}

func setFromWire(b []byte, limit int) (roster.Set, error) {
	switch {
	case len(b) == 0:
		return roster.Set{}, nil
	case len(b) > maxSetSize:
		return roster.Set{}, fmt.Errorf("set has %d bytes, but at most %d are allowed", len(b), maxSetSize)
	case b[0] == formRuns:
		return setFromRuns(b[1:], limit)
	case b[0] == formBitmap:
		return setFromBitmap(b[1:], limit)
	default:
		return roster.Set{}, fmt.Errorf("set has the unknown form %d", b[0])
	}
}

func setFromRuns(b []byte, limit int) (roster.Set, error) {
	var s roster.Set
	at, present := 0, true // the first run is of absent members and may be empty
	for first := true; len(b) > 0; first = false {
		length, n := binary.Uvarint(b)
		if n <= 0 || length == 0 && !first {
			return s, errors.New("set has a run without a length")
		}
		if length > uint64(limit-at) {
			return s, fmt.Errorf("set names member %d of a roster of %d", uint64(at)+min(length, roster.MaxNodes)-1, limit)
		}
		if present = !present; present {
			for i := at; i < at+int(length); i++ {
				s.Add(i)
			}
		}
		at, b = at+int(length), b[n:]
	}
	if !present {
		return s, errors.New("set is not of minimal length")
	}
	return s, nil
}

func setFromBitmap(b []byte, limit int) (roster.Set, error) {
	var s roster.Set
	if len(b) == 0 || b[len(b)-1] == 0 {
		return s, errors.New("set is not of minimal length")
	}
	for i, v := range b {
		s[i/8] |= uint64(v) << (8 * (i % 8))
	}
	for i := range s.All() {
		if i >= limit {
			return s, fmt.Errorf("set names member %d of a roster of %d", i, limit)
		}
	}
	return s, nil
}

// difference returns the members in exactly one of the two sets. A node sees, counts and takes for guarded nearly the
// same nodes, so the second and third sets are sent as this difference.
func difference(a, b roster.Set) roster.Set { return a.Minus(b).Union(b.Minus(a)) }

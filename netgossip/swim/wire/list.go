package wire

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// PieceSize bounds a piece of a list's text in bytes: a packet has room for it and the longest name.
	PieceSize = 512
	// MaxList bounds the text of a list in bytes. 1000 members on two networks have some 40 KiB.
	MaxList = 256 << 10
)

// Wanted asks for a piece of the text of a list. The zero value asks for nothing.
type Wanted struct {
	List   roster.Ref
	Offset int // in bytes
}

// Piece is a piece of the text of a list, as EncodeList returns it. The zero value is no piece.
type Piece struct {
	List   roster.Ref
	Offset int // in bytes
	Total  int // bytes of the whole text
	Text   []byte
}

// PieceAt returns the piece that begins at an offset of a text; zero: the text is shorter. It shares text's memory.
func PieceAt(list roster.Ref, text []byte, offset int) Piece {
	if offset < 0 || offset >= len(text) {
		return Piece{}
	}
	return Piece{list, offset, len(text), text[offset:min(len(text), offset+PieceSize)]}
}

func wantedToWire(w Wanted) *Wish {
	if w.List.IsZero() {
		return nil
	}
	return &Wish{List: &RosterRef{Epoch: w.List.Epoch, Digest: w.List.Digest}, Offset: uint32(w.Offset)}
}

func wantedFromWire(w *Wish) (Wanted, error) {
	list := roster.Ref{Epoch: w.GetList().GetEpoch(), Digest: w.GetList().GetDigest()}
	switch {
	case w == nil:
		return Wanted{}, nil
	case list.IsZero():
		return Wanted{}, errors.New("probe wants a list without naming it")
	case w.GetOffset() >= MaxList:
		return Wanted{}, fmt.Errorf("probe wants byte %d of a list, but a list has at most %d bytes", w.GetOffset(), MaxList)
	}
	return Wanted{list, int(w.GetOffset())}, nil
}

func pieceToWire(p Piece) *Part {
	if p.List.IsZero() {
		return nil
	}
	return &Part{List: &RosterRef{Epoch: p.List.Epoch, Digest: p.List.Digest}, Offset: uint32(p.Offset), Total: uint32(p.Total), Text: p.Text}
}

func pieceFromWire(w *Part) (Piece, error) {
	list := roster.Ref{Epoch: w.GetList().GetEpoch(), Digest: w.GetList().GetDigest()}
	n := uint64(len(w.GetText()))
	switch {
	case w == nil:
		return Piece{}, nil
	case list.IsZero():
		return Piece{}, errors.New("the reply has a piece of an unknown list")
	case n == 0 || n > PieceSize || w.GetTotal() > MaxList || uint64(w.GetOffset())+n > uint64(w.GetTotal()):
		return Piece{}, fmt.Errorf("the reply has %d bytes from byte %d of a list of %d bytes", n, w.GetOffset(), w.GetTotal())
	}
	return Piece{list, int(w.GetOffset()), int(w.GetTotal()), w.GetText()}, nil
}

// EncodeList returns the text of a list.
func EncodeList(members []roster.Member) ([]byte, error) {
	all := map[string]bool{}
	for _, m := range members {
		for network := range m.Addresses {
			all[network] = true
		}
	}
	l := &List{Networks: slices.Sorted(maps.Keys(all))}
	for _, m := range members {
		e := &ListMember{Name: m.Name}
		for _, network := range l.Networks {
			e.Addresses = append(e.Addresses, m.Addresses[network])
		}
		l.Members = append(l.Members, e)
	}
	text, err := proto.Marshal(l)
	if err == nil && len(text) > MaxList {
		err = fmt.Errorf("the text has %d bytes, but at most %d are allowed", len(text), MaxList)
	}
	if err != nil {
		return nil, fmt.Errorf("encode list of members: %w", err)
	}
	return text, nil
}

// DecodeList reads the text of a list. The text comes from the network: names and addresses are checked as for a
// source of lists, but only the digest of the result shows which list it is.
func DecodeList(text []byte) ([]roster.Member, error) {
	fail := func(format string, args ...any) ([]roster.Member, error) {
		return nil, fmt.Errorf("text of a list: "+format, args...)
	}
	if len(text) > MaxList {
		return fail("it has %d bytes, but at most %d are allowed", len(text), MaxList)
	}
	var l List
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &l); err != nil {
		return fail("%w", err)
	}
	if n := len(l.GetMembers()); n == 0 || n > roster.MaxNodes {
		return fail("it has %d members, but 1 to %d are allowed", n, roster.MaxNodes)
	}
	for i, network := range l.GetNetworks() {
		if network == "" || i > 0 && network <= l.GetNetworks()[i-1] {
			return fail("its networks are not in order")
		}
	}
	members := make([]roster.Member, 0, len(l.GetMembers()))
	for _, e := range l.GetMembers() {
		if n := len(e.GetName()); n == 0 || n > MaxName || !utf8.ValidString(e.GetName()) {
			return fail("a name has %d bytes, but must have 1 to %d and be UTF-8", n, MaxName)
		}
		if len(e.GetAddresses()) != len(l.GetNetworks()) {
			return fail("a member has %d addresses on %d networks", len(e.GetAddresses()), len(l.GetNetworks()))
		}
		m := roster.Member{Name: e.GetName(), Addresses: map[string]string{}}
		for i, at := range e.GetAddresses() {
			if at == "" {
				continue
			}
			if ip, err := netip.ParseAddr(at); err != nil || ip.Zone() != "" || ip.IsUnspecified() {
				return fail("member %q has the address %q", e.GetName(), at)
			}
			m.Addresses[l.GetNetworks()[i]] = at
		}
		members = append(members, m)
	}
	return members, nil
}

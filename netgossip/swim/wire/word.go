package wire

import (
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// wordFromWire reads a word. It contains the numbers of two members, so it is only useful between nodes that use the
// same roster.
func wordFromWire(w *Word, r *roster.Roster, tag uint32) (Message, error) {
	size := uint32(r.Size())
	switch member, peer, kind := w.GetMember(), w.GetPeer(), w.GetSilence(); {
	case w.GetRoster() != tag:
		return Message{}, fmt.Errorf("packet: %w", ErrOtherRoster)
	case member == 0 || member > size || peer == 0 || peer > size:
		return Message{}, fmt.Errorf("the word is by member %d about member %d of a roster of %d", member, peer, size)
	case member == peer:
		return Message{}, errors.New("the word is by a member about itself")
	case kind < Silence_SILENCE_ASK || kind > Silence_SILENCE_FIRM:
		return Message{}, fmt.Errorf("the word has the unknown kind %d", kind)
	case w.GetClock() == 0 || w.GetCookie() == 0:
		return Message{}, errors.New("the word lacks the clock of its sender or the cookie of its receiver")
	}
	return Message{
		Kind: Doubt, Member: int(w.GetMember() - 1), Roster: w.GetRoster(), Clock: w.GetClock(), Cookie: w.GetCookie(),
		Word: doubt.Word{Kind: doubt.Kind(w.GetSilence()), Peer: int(w.GetPeer() - 1)},
	}, nil
}

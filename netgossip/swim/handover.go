package swim

import (
	"errors"
	"log/slog"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// Lists of members are handed over in pieces, with the probes and replies that are sent anyway. The node that lacks a
// list asks one peer for one piece after the other. So it sets the pace, and the peer that hands over keeps no state. A
// peer of an earlier version does not understand the request, and only answers the probe. A fetched list counts only if
// it has the digest that the peer announced.

const (
	// fetchStuck is the silence after which another peer may be asked for the list.
	fetchStuck = 2 * time.Second
	// fetchEnd is the silence after which a list is no longer requested.
	fetchEnd = 10 * time.Second
)

// handover is the state of the list that an instance fetches, and of the list that it hands over. The evidence
// goroutine owns it.
type handover struct {
	peer  *peer // the peer that is asked; nil: no list is fetched
	list  roster.Ref
	text  []byte           // the text received so far
	total int              // size of the whole text in bytes
	moved boottime.Instant // when the fetch began, or the latest piece came

	gives roster.Ref // the list to which the text in given belongs
	given []byte
}

// Fetch asks a peer for the text of a list that it uses and this node lacks. Config.Handed is called when the list has
// arrived, which may never happen: call Fetch again every few seconds, for this peer or another one. It does not block.
func (in *Instance) Fetch(peer string, list roster.Ref) {
	in.evidence.ask(func(r *request) { r.fetch = fetchOf{peer, list} })
}

type fetchOf struct {
	peer string
	list roster.Ref
}

// fetch begins to fetch a list, unless it is already being fetched.
func (e *evidence) fetch(f fetchOf, now boottime.Instant) {
	i, ok := e.cfg.Roster.Index(f.peer)
	p := e.peers[i]
	h := &e.handover
	if !ok || p == nil || e.cfg.Handed == nil || h.peer != nil && h.list == f.list && (h.peer == p || now.Sub(h.moved) < fetchStuck) {
		return
	}
	h.peer, h.list, h.text, h.total, h.moved = p, f.list, nil, 0, now
	e.schedule.Urge(p.Peer, now)
}

// wants returns the piece that a probe of a peer should request.
func (e *evidence) wants(p *peer, now boottime.Instant) wire.Wanted {
	h := &e.handover
	if h.peer != nil && now.Sub(h.moved) >= fetchEnd {
		h.peer, h.text = nil, nil
	}
	if h.peer != p {
		return wire.Wanted{}
	}
	return wire.Wanted{List: h.list, Offset: len(h.text)}
}

// piece returns the piece that a prober requests, if this node may hand it over.
func (e *evidence) piece(w wire.Wanted) wire.Piece {
	if w.List.IsZero() || e.cfg.HandsOver == nil {
		return wire.Piece{}
	}
	r := e.cfg.HandsOver(w.List) // checked each time: the right to hand the list over may end while its text is cached
	if r == nil {
		return wire.Piece{}
	}
	h := &e.handover
	if h.gives != w.List {
		text, err := wire.EncodeList(r.Members)
		if err != nil {
			e.journal.warn("hand over", "a list of members cannot be handed over", slog.Any("error", err))
		}
		h.gives, h.given = w.List, text
	}
	return wire.PieceAt(w.List, h.given, w.Offset)
}

// takePiece adds a received piece to the fetched text.
func (e *evidence) takePiece(p *peer, piece wire.Piece, now boottime.Instant) {
	h := &e.handover
	if piece.List.IsZero() || p != h.peer || piece.List != h.list || piece.Offset != len(h.text) || h.total != 0 && piece.Total != h.total {
		return // a piece of an earlier request, or not requested at all
	}
	h.text, h.total, h.moved = append(h.text, piece.Text...), piece.Total, now
	if len(h.text) < h.total {
		e.schedule.Urge(p.Peer, now)
		return
	}
	text := h.text
	h.peer, h.text = nil, nil
	r, err := e.read(h.list, text)
	if err != nil {
		e.refuse(refusedMalformed, "a list of members that was handed over is refused", slog.String("peer", p.addr.Name), slog.String("list", h.list.String()), slog.Any("error", err))
		return
	}
	e.gate.pass(func() { e.cfg.Handed(r) })
}

var errDigest = errors.New("its text does not have the digest that was announced")

func (e *evidence) read(list roster.Ref, text []byte) (*roster.Roster, error) {
	members, err := wire.DecodeList(text)
	if err != nil {
		return nil, err
	}
	r, err := roster.Of(list.Epoch, members, e.self)
	if err != nil {
		return nil, err
	}
	// Otherwise another text would be taken for the list that the others use, and this node would count by it.
	if r.Ref() != list {
		return nil, errDigest
	}
	return r, nil
}

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// MaxSize bounds a packet in bytes. The largest packet that Append creates is smaller. With label (257) and
	// encryption (29) a packet still fits into an Ethernet frame.
	MaxSize = 1024
	// MaxName and MaxVersion bound the strings of a packet in bytes.
	MaxName    = 253
	MaxVersion = 64

	checksumSize = 4
)

// ErrOtherRoster says that a packet numbers its sender by another roster than this node's. The sender uses its name if
// it gets no answer.
var ErrOtherRoster = errors.New("packet numbers its sender by another roster")

// Kind distinguishes probes from replies.
type Kind uint8

const (
	Probe Kind = iota + 1
	Answer
	Doubt
)

// Message is one decoded packet.
type Message struct {
	Kind Kind
	ID   uint64 // random, never 0; the same in a probe and its reply

	// The sender is given by Name or, if Name is empty, as Member of a roster that both have. Decode sets Member to -1
	// for a name that is not on this node's roster.
	Name   string
	Member int
	Clock  uint64 // ClockOf the sender when it created the packet; 0: not given

	// Of a probe:
	Roster uint32 // RosterTag of the prober
	Holds  uint64 // digest that came with the receiver's latest statement; 0: the sender has none
	News   uint32 // NewsOf a statement for which the receiver should ask; 0: none
	Brief  bool   // the prober asks only whether it is seen, not for the statement
	Wanted Wanted // the requested piece of a list that the prober lacks
	Bare   bool   // the prober has no cookie of the receiver

	// Of a reply, exactly one:
	Unchanged bool // the statement is the one that the prober holds, according to its probe
	Sight     netgossip.Sight
	Statement *netgossip.Statement
	Digest    uint64 // of Statement, as the replier computes it
	// Sees is sent with one of these to a prober with another roster, which cannot use the sets of a statement.
	Sees bool
	// Relay is sent with any of these. Its Anchor is not used: other nodes have other clocks.
	Relay netgossip.Relay
	// RelayAge is the age of Relay when the reply is created. Append rounds it up.
	RelayAge time.Duration
	// Piece is sent with any of these except a statement, which might leave no room for it.
	Piece Piece
	// Cookie is sent with any of these. A word contains the cookie that its receiver gave only to its sender. This is
	// needed because any member can write another member's number into a packet.
	Cookie uint64

	// For a word, which has no ID: its contents.
	Word doubt.Word
}

// RosterTag returns a short digest of a roster and its epoch.
func RosterTag(r *roster.Roster) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, r.Digest)
	return crc32.Checksum(binary.LittleEndian.AppendUint64(b, r.Epoch), castagnoli)
}

// ClockOf returns a clock reading: milliseconds, counted from a random number of the boot. Two packets of one boot can
// be compared by it; the readings of two boots are years apart. It never returns 0.
func ClockOf(boot uint64, at boottime.Instant) uint64 {
	return max(1, boot+uint64(at/boottime.Instant(time.Millisecond)))
}

// ReadingOf returns what the clock of a boot showed when it gave a ClockOf, or up to a millisecond less; 0: unknown.
func ReadingOf(clock, boot uint64) boottime.Instant {
	if ms := clock - boot; clock != 0 && boot != 0 && ms <= maxUptime {
		return boottime.Instant(ms) * boottime.Instant(time.Millisecond)
	}
	return 0
}

// ClockBetween returns the time from one reading of a sender's clock to another, negative if the other is earlier; ok
// is false if they are from two boots.
func ClockBetween(one, other uint64) (d time.Duration, ok bool) {
	ms := int64(other - one)
	if ms > maxUptime || ms < -maxUptime {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// maxUptime, in milliseconds, is 20 years. Two boots have numbers that are no further apart with a
// probability of 7e-8.
const maxUptime = 20 * 365 * 24 * 3600 * 1000

// NewsOf shortens a digest for Message.News, which only decides whether the receiver asks.
func NewsOf(digest uint64) uint32 { return max(1, uint32(digest)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append encodes m and appends it to dst. It fails only for a sender that no roster may contain.
func Append(dst []byte, m Message) ([]byte, error) {
	number := uint32(0)
	switch {
	case len(m.Name) > MaxName:
		return dst, fmt.Errorf("encode packet: sender name has %d bytes, but 1 to %d are allowed", len(m.Name), MaxName)
	case m.Name == "" && (m.Member < 0 || m.Member >= roster.MaxNodes):
		return dst, errors.New("encode packet: the sender has neither a name nor a number")
	case m.Name == "":
		number = uint32(m.Member + 1)
	}
	p := &Packet{}
	switch m.Kind {
	case Doubt:
		p.Kind = &Packet_Word{Word: &Word{
			Roster: m.Roster, Member: number, Clock: m.Clock, Cookie: m.Cookie, Peer: uint32(m.Word.Peer + 1), Silence: Silence(m.Word.Kind),
		}}
	case Answer:
		r := &Reply{Id: m.ID, Member: number, Sender: m.Name, Unchanged: m.Unchanged, Sight: Sight(m.Sight), Sees: m.Sees, Clock: m.Clock, Cookie: m.Cookie}
		if m.Relay.Log != 0 {
			r.Relay = &Relay{Log: m.Relay.Log, Instance: m.Relay.Instance, AgeMs: millisUp(m.RelayAge)}
		}
		if m.Statement != nil {
			r.Statement, r.Digest = statementToWire(m.Statement), m.Digest
		} else {
			r.Part = pieceToWire(m.Piece)
		}
		p.Kind = &Packet_Reply{Reply: r}
	default:
		p.Kind = &Packet_Probe{Probe: &Question{
			Id: m.ID, Member: number, Sender: m.Name, Roster: m.Roster, Holds: m.Holds, News: m.News, Brief: m.Brief, Wants: wantedToWire(m.Wanted), Clock: m.Clock,
			WantsCookie: m.Bare,
		}}
	}
	start := len(dst)
	out, err := proto.MarshalOptions{}.MarshalAppend(append(dst, 0, 0, 0, 0), p)
	for st := p.GetReply().GetStatement(); err == nil && len(out)-start > MaxSize && shorten(st, m.Statement); {
		out, err = proto.MarshalOptions{}.MarshalAppend(append(dst, 0, 0, 0, 0), p)
	}
	if err != nil {
		return dst, fmt.Errorf("encode packet: %w", err)
	}
	binary.LittleEndian.PutUint32(out[start:], crc32.Checksum(out[start+checksumSize:], castagnoli))
	return out, nil
}

// shorten leaves out a part of a statement without which deaths are proven later; without a packet the receiver would
// see no peer. ok is false if there is no such part.
func shorten(st *Statement, said *netgossip.Statement) (ok bool) {
	facts, dues := len(st.GetFacts()), len(st.GetDues())
	if facts > 0 && dues <= 1 {
		st.Facts = st.Facts[:facts-1]
		return true
	}
	fewer := said.Dues
	for ok = dues > 0; ok && len(st.GetDues()) == dues; {
		fewer.Shorten()
		st.Dues = duesToWire(&fewer)
	}
	return ok
}

// Decode reads a packet. r is this node's roster and tag its RosterTag. A sender given by number must use the same
// roster, and a statement by the same roster must not name members beyond it. Decode keeps no reference to b. Its error
// wraps ErrOtherRoster if a name instead of the number would have helped.
func Decode(b []byte, r *roster.Roster, tag uint32) (Message, error) {
	if len(b) <= checksumSize || len(b) > MaxSize {
		return Message{}, fmt.Errorf("packet has %d bytes, but %d to %d are allowed", len(b), checksumSize+1, MaxSize)
	}
	body := b[checksumSize:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b) {
		return Message{}, errors.New("packet: checksum does not match")
	}
	var p Packet
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &p); err != nil {
		return Message{}, fmt.Errorf("packet: %w", err)
	}
	var m Message
	var number uint32
	if w := p.GetWord(); w != nil {
		return wordFromWire(w, r, tag)
	}
	if q := p.GetProbe(); q != nil {
		m = Message{
			Kind: Probe, ID: q.GetId(), Name: q.GetSender(),
			Roster: q.GetRoster(), Holds: q.GetHolds(), News: q.GetNews(), Brief: q.GetBrief(), Clock: q.GetClock(),
			Bare: q.GetWantsCookie(),
		}
		number = q.GetMember()
		var err error
		if m.Wanted, err = wantedFromWire(q.GetWants()); err != nil {
			return Message{}, err
		}
	} else if a := p.GetReply(); a != nil {
		m = Message{Kind: Answer, ID: a.GetId(), Name: a.GetSender(), Clock: a.GetClock(), Cookie: a.GetCookie()}
		number = a.GetMember()
		if err := m.say(a, r); err != nil {
			return Message{}, err
		}
	} else {
		return Message{}, errors.New("packet: neither probe nor reply nor word")
	}
	if m.ID == 0 {
		return Message{}, errors.New("packet: id is zero")
	}
	return m, m.from(number, r, tag)
}

// from resolves the sender. The receiver of a reply knows from its id which peer it probed. A reply has its sender's
// number only if the probe's tag was that of the replier; a probe must prove that both use the same roster.
func (m *Message) from(number uint32, r *roster.Roster, tag uint32) error {
	switch {
	case (number == 0) == (m.Name == ""):
		return errors.New("packet: the sender must be either named or numbered")
	case len(m.Name) > MaxName:
		return fmt.Errorf("packet: sender name has %d bytes, but 1 to %d are allowed", len(m.Name), MaxName)
	case m.Name != "":
		m.Member = -1
		if i, ok := r.Index(m.Name); ok {
			m.Member = i
		}
		return nil
	case m.Kind == Probe && m.Roster != tag:
		return fmt.Errorf("packet: %w", ErrOtherRoster)
	case number > uint32(r.Size()):
		return fmt.Errorf("packet: sender is member %d of a roster of %d", number, r.Size())
	}
	m.Member = int(number - 1)
	return nil
}

func (m *Message) say(a *Reply, r *roster.Roster) error {
	said := 0
	for _, part := range []bool{a.GetUnchanged(), a.GetSight() != Sight_SIGHT_UNSPECIFIED, a.GetStatement() != nil} {
		if part {
			said++
		}
	}
	switch {
	case said != 1:
		return fmt.Errorf("reply has %d kinds of content, but exactly one is allowed", said)
	case a.GetSight() > Sight_SIGHT_UNSEEN || a.GetSight() < 0:
		return fmt.Errorf("reply with the unknown sight %d", a.GetSight())
	case (a.GetStatement() == nil) != (a.GetDigest() == 0):
		return errors.New("reply with a statement or its digest alone")
	}
	m.Unchanged, m.Sight, m.Sees = a.GetUnchanged(), netgossip.Sight(a.GetSight()), a.GetSees()
	if relay := a.GetRelay(); relay != nil {
		if relay.GetLog() == 0 || relay.GetInstance() == 0 {
			return errors.New("reply relays no decision")
		}
		m.Relay = netgossip.Relay{Log: relay.GetLog(), Instance: relay.GetInstance()}
		m.RelayAge = time.Duration(relay.GetAgeMs()) * time.Millisecond
	}
	if a.GetStatement() == nil {
		var err error
		m.Piece, err = pieceFromWire(a.GetPart())
		return err
	}
	s, err := statementFromWire(a.GetStatement(), r)
	if err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	m.Statement, m.Digest = s, a.GetDigest()
	return nil
}

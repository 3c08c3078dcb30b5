package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Digest identifies a statement: a prober names the statement that it holds by it, and a reply "unchanged" stands for
// the whole statement. With a collision a peer would use an outdated view, so it is 64 bits of SHA-256. It is never 0.
// Only the node that makes the statement computes it; for other nodes it is a number that came with the statement, so
// two versions of the program need not use the same encoding.
func Digest(s *netgossip.Statement) uint64 {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(statementToWire(s))
	if err != nil {
		return 1 // impossible: all fields are valid by construction
	}
	sum := sha256.Sum256(b)
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}

func statementToWire(s *netgossip.Statement) *Statement {
	if s == nil {
		return nil
	}
	return &Statement{
		Boot:              s.Boot,
		Machine:           s.Machine,
		RosterEpoch:       s.RosterEpoch,
		RosterDigest:      s.RosterDigest,
		TokenNonce:        s.Token.Nonce,
		TokenCounter:      s.Token.Counter,
		Seen:              setToWire(s.Seen),
		View:              setToWire(difference(s.View, s.Seen)),
		Armed:             s.Guard.Armed,
		Fences:            s.Guard.Fences,
		WatchdogTimeoutMs: millisUp(s.Guard.Timeout),
		Feeding:           s.Feeding,
		Stopping:          s.Stopping,
		LunHealthy:        s.LUNHealthy,
		ApiReachable:      s.APIReachable,
		Unheard:           s.Unheard,
		Version:           cutVersion(s.Version),
		Guarded:           setToWire(difference(s.Guarded, s.Seen)),
		Lost:              setToWire(s.Lost),
		Dues:              duesToWire(&s.Dues),
		HorizonMs:         millisUp(s.Guard.Horizon),
		Leases:            s.Guard.Leases,
		Standing:          standingToWire(&s.Standing),
		Stated:            uint64(max(0, s.Stated)),
		TermsBy:           uint32(s.Terms.By),
		TermsLog:          s.Terms.Log,
		Agreed:            s.Agreed,
		SentenceMs:        millisUp(s.Sentence),
		Heeds:             true,
		Facts:             factsToWire(&s.Facts),
	}
}

func standingToWire(s *roster.Standing) *Standing {
	if s.Chain[0].IsZero() {
		return nil
	}
	w := &Standing{Fresh: s.Fresh}
	for _, ref := range s.Chain {
		if !ref.IsZero() {
			w.Chain = append(w.Chain, &RosterRef{Epoch: ref.Epoch, Digest: ref.Digest})
		}
	}
	if !s.Offer.IsZero() {
		w.Offer = &RosterRef{Epoch: s.Offer.Epoch, Digest: s.Offer.Digest}
	}
	if !s.Known.IsZero() {
		w.Known = &RosterRef{Epoch: s.Known.Epoch, Digest: s.Known.Digest}
	}
	return w
}

func standingFromWire(w *Standing) (s roster.Standing, err error) {
	if w == nil {
		return s, nil
	}
	if n := len(w.GetChain()); n < 1 || n > roster.MaxChain {
		return s, fmt.Errorf("names %d rosters, but 1 to %d are allowed", n, roster.MaxChain)
	}
	s.Fresh = w.GetFresh()
	for i, ref := range w.GetChain() {
		s.Chain[i] = roster.Ref{Epoch: ref.GetEpoch(), Digest: ref.GetDigest()}
		if s.Chain[i].IsZero() || i > 0 && ref.GetEpoch() <= s.Chain[i-1].Epoch {
			return s, errors.New("rosters are not in the order of their epochs")
		}
	}
	s.Offer = roster.Ref{Epoch: w.GetOffer().GetEpoch(), Digest: w.GetOffer().GetDigest()}
	s.Known = roster.Ref{Epoch: w.GetKnown().GetEpoch(), Digest: w.GetKnown().GetDigest()}
	return s, nil
}

// millisUp rounds up: a peer must never assume too short a time.
func millisUp(d time.Duration) uint32 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return uint32(min(max(0, ms), math.MaxUint32))
}

func statementFromWire(w *Statement, r *roster.Roster) (*netgossip.Statement, error) {
	limit := roster.MaxNodes
	if w.GetRosterDigest() == r.Digest {
		// With another roster the sets use other indices, possibly of more members than we know; such a statement only
		// shows that its sender is alive.
		limit = r.Size()
	}
	var sets [5]roster.Set
	for i, f := range [len(sets)]struct {
		name string
		text []byte
	}{{"seen", w.GetSeen()}, {"view", w.GetView()}, {"guarded", w.GetGuarded()}, {"lost", w.GetLost()}, {"lately", w.GetLately()}} {
		var err error
		if sets[i], err = setFromWire(f.text, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	seen, view, guarded, lost, lately := sets[0], sets[1], sets[2], sets[3], sets[4]
	dues, err := duesFromWire(w.GetDues(), limit)
	if err != nil {
		return nil, fmt.Errorf("dues: %w", err)
	}
	standing, err := standingFromWire(w.GetStanding())
	if err != nil {
		return nil, fmt.Errorf("standing: %w", err)
	}
	if n := len(w.GetVersion()); n > MaxVersion {
		return nil, fmt.Errorf("version has %d bytes, but at most %d are allowed", n, MaxVersion)
	}
	return &netgossip.Statement{
		Boot:         w.GetBoot(),
		Machine:      w.GetMachine(),
		RosterEpoch:  w.GetRosterEpoch(),
		RosterDigest: w.GetRosterDigest(),
		Standing:     standing,
		Token:        netgossip.Token{Nonce: w.GetTokenNonce(), Counter: w.GetTokenCounter()},
		Seen:         seen,
		View:         difference(view, seen),
		Guard: netgossip.Guard{
			Armed:   w.GetArmed(),
			Fences:  w.GetFences(),
			Leases:  w.GetLeases(),
			Timeout: time.Duration(w.GetWatchdogTimeoutMs()) * time.Millisecond,
			Horizon: time.Duration(w.GetHorizonMs()) * time.Millisecond,
		},
		Guarded:      difference(guarded, seen),
		Lost:         lost.Union(lately),
		Dues:         dues,
		Feeding:      w.GetFeeding(),
		Stopping:     w.GetStopping(),
		LUNHealthy:   w.GetLunHealthy(),
		APIReachable: w.GetApiReachable(),
		Unheard:      w.GetUnheard(),
		Version:      w.GetVersion(),
		Stated:       boottime.Instant(min(w.GetStated(), math.MaxInt64)),
		Terms:        termsFromWire(w),
		Agreed:       w.GetAgreed(),
		Sentence:     time.Duration(w.GetSentenceMs()) * time.Millisecond,
		Facts:        factsFromWire(w.GetFacts()),
	}, nil
}

// termsFromWire treats terms that a later version may add as not settled: this version cannot tell whether they are
// the same.
func termsFromWire(w *Statement) netgossip.Terms {
	by := w.GetTermsBy()
	if by > math.MaxUint8 {
		by = uint32(netgossip.Unsettled)
	}
	return netgossip.Terms{By: netgossip.Breakers(by), Log: w.GetTermsLog()}
}

// cutVersion cuts a version string to the maximum size: it is for people, and a long build tag must not keep a node
// from sending.
func cutVersion(v string) string {
	v = strings.ToValidUTF8(v, "?")
	if len(v) <= MaxVersion {
		return v
	}
	n := MaxVersion
	for !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

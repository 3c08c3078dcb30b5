package diskquorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A slot's block, by sector. Fixed offsets, little-endian, no field crosses a sector;
// reserved bytes are zero when written and ignored when read.
//
//	sector 0: identity, liveness, statement
//	   0   8  magic "FENCSLOT"
//	   8   2  format version
//	  10   2  minor version
//	  12   1  slot index
//	  13   1  copy: sequence mod 2
//	  14   1  state: 0 free, 1 claiming, 2 active, 3 stopped
//	  15   1  flags: 1 armed, 2 fences, 4 feeding, 8 stopping, 16 LUN healthy, 32 API reachable
//	  16   8  process
//	  24   8  boot nonce
//	  32   8  token nonce
//	  40   4  token counter
//	  44   4  heartbeat interval, ms
//	  48   8  roster epoch
//	  56   8  roster digest
//	  64   8  wall clock, Unix ms
//	  72   4  watchdog timeout, ms
//	  76   2  roster index
//	  78   2  roster size
//	  80  32  seen: bit i of the bytes is roster index i
//	 112  32  view
//	 144   1  length of the node UID
//	 145   1  length of the node name
//	 146   1  late: devices on which a failed write may still land, one bit each
//	 147   5  reserved
//	 152  64  node UID, zero padded
//	 216 253  node name, zero padded
//	 469   3  reserved
//	 472   4  grant lifetime, ms; 0: not stated
//	 476   4  horizon, ms; 0: not stated, or unbounded
//	 480   8  terms: log; 0: not stated
//	 488   1  terms: by what ties are broken; 0: not stated
//	 489   1  flags: 1 agreed
//	 490   6  age of the boot, ms; 0: not stated
//	sector 1: ballot
//	   0   8  instance
//	   8   8  mbal
//	  16   8  bal
//	  24   8  decided instance
//	  32   8  value: roster epoch
//	  40   8  value: roster digest
//	  48   8  decided: roster epoch
//	  56   8  decided: roster digest
//	  64   1  value: holders; 0: no value
//	  65   1  decided: holders; 0: no decision
//	  66   1  length of the agent version
//	  67   5  reserved
//	  72  64  agent version, zero padded, cut to 64 bytes
//	 136 338  holders 228..253
//	 474  22  reserved
//	sectors 2..7: holders 38(k-2)..38(k-2)+37 in sector k, then 2 reserved bytes
//
// Holders 0..126 are the value's, 127..253 the decision's; each is 13 bytes:
// {slot 1, token nonce 8, token counter 4}.
const (
	slotMagic = "FENCSLOT"
	slotMinor = 0

	slVersion      = 8
	slMinor        = 10
	slIndex        = 12
	slCopy         = 13
	slState        = 14
	slFlags        = 15
	slProcess      = 16
	slBoot         = 24
	slNonce        = 32
	slCounter      = 40
	slHeartbeat    = 44
	slRosterEpoch  = 48
	slRosterDigest = 56
	slWall         = 64
	slTimeout      = 72
	slRosterIndex  = 76
	slRosterSize   = 78
	slSeen         = 80
	slView         = 112
	slUIDLen       = 144
	slNameLen      = 145
	slLate         = 146
	slUID          = 152
	slName         = 216
	slGrant        = 472
	slHorizon      = 476
	slTermsLog     = 480
	slTermsBy      = 488
	slMoreFlags    = 489
	slAge          = 490

	slBallot      = SectorSize // sector 1
	slInstance    = slBallot + 0
	slMBal        = slBallot + 8
	slBal         = slBallot + 16
	slDecidedInst = slBallot + 24
	slValue       = slBallot + 32
	slDecided     = slBallot + 48
	slValueLen    = slBallot + 64
	slDecidedLen  = slBallot + 65
	slVersionLen  = slBallot + 66
	slAgent       = slBallot + 72
	slLastHolders = slBallot + 136

	maxUIDBytes     = 64
	maxSlotName     = 253
	maxAgentVersion = 64

	// MaxHolders bounds a grant: half of the greatest roster that fits the table.
	MaxHolders         = MaxSlots / 2
	holderSize         = 13
	holdersPerSector   = sectorPayload / holderSize // 38
	firstHolderSector  = 2
	holdersFromSector2 = (sectorsPerBlock - firstHolderSector) * holdersPerSector
	setWords           = 4 // 256 bits
)

const (
	flagArmed = 1 << iota
	flagFences
	flagFeeding
	flagStopping
	flagLUNHealthy
	flagAPIReachable
)

// Bits of slMoreFlags. Pre-release agents do not condemn a boot while any slot lacks flagHeeds.
const (
	flagAgreed = 1 << iota
	flagHeeds
)

// holderOffset returns the offset of holder n in a block; no holder crosses a sector.
func holderOffset(n int) int {
	if n >= holdersFromSector2 {
		return slLastHolders + (n-holdersFromSector2)*holderSize
	}
	return (firstHolderSector+n/holdersPerSector)*SectorSize + n%holdersPerSector*holderSize
}

// EncodeSlot writes copy 0 or 1 of a slot into dst, which holds BlockSize bytes. The copy must be s.Sequence%2. It
// refuses a record that DecodeSlot would refuse. It does not allocate. Durations are rounded up to milliseconds;
// Statement.Version is cut to 64 bytes.
func EncodeSlot(dst []byte, id [16]byte, s *Slot, which int) error {
	if len(dst) != BlockSize {
		return fmt.Errorf("encode slot %d: the buffer has %d bytes, not those of one block", s.Index, len(dst))
	}
	if err := s.validate(which); err != nil {
		return fmt.Errorf("encode slot %d: %w", s.Index, err)
	}
	clear(dst)
	encodeIdentity(dst, s)
	encodeBallot(dst, &s.Ballot)
	agent := s.Statement.Version[:min(len(s.Statement.Version), maxAgentVersion)]
	dst[slVersionLen] = byte(len(agent))
	copy(dst[slAgent:], agent)
	dst[slCopy] = byte(which)
	seal(dst, kindSlot, id, slotBlock(s.Index, which), s.Sequence)
	return nil
}

func slotBlock(slot, which int) uint64 { return uint64(SlotOffset(slot, which) / BlockSize) }

func encodeIdentity(dst []byte, s *Slot) {
	le, st := binary.LittleEndian, &s.Statement
	copy(dst, slotMagic)
	le.PutUint16(dst[slVersion:], FormatVersion)
	le.PutUint16(dst[slMinor:], slotMinor)
	dst[slIndex], dst[slState], dst[slFlags] = byte(s.Index), byte(s.State), flagsOf(st)
	le.PutUint64(dst[slProcess:], s.Process)
	le.PutUint64(dst[slBoot:], st.Boot)
	le.PutUint64(dst[slNonce:], st.Token.Nonce)
	le.PutUint32(dst[slCounter:], st.Token.Counter)
	le.PutUint32(dst[slHeartbeat:], uint32(toMillis(s.HeartbeatInterval)))
	le.PutUint64(dst[slRosterEpoch:], st.RosterEpoch)
	le.PutUint64(dst[slRosterDigest:], st.RosterDigest)
	le.PutUint64(dst[slWall:], uint64(s.WallTime))
	le.PutUint32(dst[slTimeout:], uint32(toMillis(st.Guard.Timeout)))
	le.PutUint32(dst[slGrant:], uint32(toMillis(s.GrantLifetime)))
	le.PutUint32(dst[slHorizon:], uint32(toMillis(st.Guard.Horizon)))
	le.PutUint64(dst[slTermsLog:], st.Terms.Log)
	dst[slTermsBy] = byte(st.Terms.By)
	dst[slMoreFlags] = flagHeeds
	if st.Agreed {
		dst[slMoreFlags] |= flagAgreed
	}
	le.PutUint16(dst[slRosterIndex:], uint16(s.RosterIndex))
	le.PutUint16(dst[slRosterSize:], uint16(s.RosterSize))
	for i := range setWords {
		le.PutUint64(dst[slSeen+8*i:], st.Seen[i])
		le.PutUint64(dst[slView+8*i:], st.View[i])
	}
	putAge(dst[slAge:slAge+ageBytes], st.Stated)
	dst[slUIDLen], dst[slNameLen], dst[slLate] = byte(len(s.NodeUID)), byte(len(s.NodeName)), s.Late
	copy(dst[slUID:], s.NodeUID)
	copy(dst[slName:], s.NodeName)
}

func encodeBallot(dst []byte, b *Ballot) {
	le := binary.LittleEndian
	le.PutUint64(dst[slInstance:], b.Instance)
	le.PutUint64(dst[slMBal:], b.MBal)
	le.PutUint64(dst[slBal:], b.Bal)
	le.PutUint64(dst[slDecidedInst:], b.DecidedInstance)
	encodeGrant(dst, b.Value, slValue, slValueLen, 0)
	encodeGrant(dst, b.Decided, slDecided, slDecidedLen, MaxHolders)
}

func encodeGrant(dst []byte, g *Grant, head, count, first int) {
	if g == nil {
		return
	}
	le := binary.LittleEndian
	le.PutUint64(dst[head:], g.RosterEpoch)
	le.PutUint64(dst[head+8:], g.RosterDigest)
	dst[count] = byte(len(g.Holders))
	for i, h := range g.Holders {
		b := dst[holderOffset(first+i):]
		b[0] = h.Slot
		le.PutUint64(b[1:], h.Token.Nonce)
		le.PutUint32(b[9:], h.Token.Counter)
	}
}

// DecodeSlot reads copy 0 or 1 of the slot with that index. Strings and grants that are already in s are kept, so
// decoding a slot again does not allocate unless they have changed. After an error s is unchanged. The error wraps
// ErrBlank, ErrTorn, ErrCorrupt or ErrVersion.
func DecodeSlot(src []byte, id [16]byte, index, which int, s *Slot) error {
	if index < 0 || index >= MaxSlots || which < 0 || which >= copiesPerSlot {
		return fmt.Errorf("slot %d copy %d: %w: there is no such block", index, which, ErrCorrupt)
	}
	sequence, err := unseal(src, kindSlot, id, slotBlock(index, which))
	if err != nil {
		return fmt.Errorf("slot %d copy %d: %w", index, which, err)
	}
	le := binary.LittleEndian
	if string(src[:len(slotMagic)]) != slotMagic {
		return fmt.Errorf("slot %d copy %d: %w: bad magic", index, which, ErrCorrupt)
	}
	if v := le.Uint16(src[slVersion:]); v != FormatVersion {
		return fmt.Errorf("slot %d copy %d: %w: %d, this program knows %d", index, which, ErrVersion, v, FormatVersion)
	}
	if int(src[slIndex]) != index || int(src[slCopy]) != which {
		return fmt.Errorf("slot %d copy %d: %w: written as slot %d copy %d", index, which, ErrCorrupt, src[slIndex], src[slCopy])
	}
	d := Slot{Index: index, Sequence: sequence, State: SlotState(src[slState])}
	if err := decodeIdentity(src, s, &d); err != nil {
		return fmt.Errorf("slot %d copy %d: %w: %w", index, which, ErrCorrupt, err)
	}
	if err := decodeBallot(src, &s.Ballot, &d.Ballot); err != nil {
		return fmt.Errorf("slot %d copy %d: %w: %w", index, which, ErrCorrupt, err)
	}
	if err := d.validate(which); err != nil {
		return fmt.Errorf("slot %d copy %d: %w: %w", index, which, ErrCorrupt, err)
	}
	*s = d
	return nil
}

// decodeIdentity fills d from sector 0; strings that are the same as in old are taken from there.
func decodeIdentity(src []byte, old, d *Slot) error {
	le, st := binary.LittleEndian, &d.Statement
	setFlags(st, src[slFlags])
	d.Process, d.Late = le.Uint64(src[slProcess:]), src[slLate]
	st.Boot = le.Uint64(src[slBoot:])
	st.Token.Nonce = le.Uint64(src[slNonce:])
	st.Token.Counter = le.Uint32(src[slCounter:])
	d.HeartbeatInterval = time.Duration(le.Uint32(src[slHeartbeat:])) * time.Millisecond
	st.RosterEpoch = le.Uint64(src[slRosterEpoch:])
	st.RosterDigest = le.Uint64(src[slRosterDigest:])
	d.WallTime = int64(le.Uint64(src[slWall:]))
	st.Guard.Timeout = time.Duration(le.Uint32(src[slTimeout:])) * time.Millisecond
	d.GrantLifetime = time.Duration(le.Uint32(src[slGrant:])) * time.Millisecond
	st.Guard.Horizon = time.Duration(le.Uint32(src[slHorizon:])) * time.Millisecond
	st.Terms = netgossip.Terms{By: netgossip.Breakers(src[slTermsBy]), Log: le.Uint64(src[slTermsLog:])}
	st.Agreed = src[slMoreFlags]&flagAgreed != 0
	st.Stated = ageOf(src[slAge : slAge+ageBytes])
	d.RosterIndex = int(le.Uint16(src[slRosterIndex:]))
	d.RosterSize = int(le.Uint16(src[slRosterSize:]))
	for i := range setWords {
		st.Seen[i] = le.Uint64(src[slSeen+8*i:])
		st.View[i] = le.Uint64(src[slView+8*i:])
	}
	var err error
	if d.NodeUID, err = decodeString(src[slUID:slUID+maxUIDBytes], src[slUIDLen], old.NodeUID); err != nil {
		return fmt.Errorf("node UID: %w", err)
	}
	if d.NodeName, err = decodeString(src[slName:slName+maxSlotName], src[slNameLen], old.NodeName); err != nil {
		return fmt.Errorf("node name: %w", err)
	}
	if st.Version, err = decodeString(src[slAgent:slAgent+maxAgentVersion], src[slVersionLen], old.Statement.Version); err != nil {
		return fmt.Errorf("agent version: %w", err)
	}
	return nil
}

func decodeString(field []byte, length byte, old string) (string, error) {
	if int(length) > len(field) {
		return "", fmt.Errorf("length is %d, but at most %d is allowed", length, len(field))
	}
	if b := field[:length]; string(b) != old {
		return string(b), nil
	}
	return old, nil
}

func decodeBallot(src []byte, old, d *Ballot) error {
	le := binary.LittleEndian
	d.Instance = le.Uint64(src[slInstance:])
	d.MBal = le.Uint64(src[slMBal:])
	d.Bal = le.Uint64(src[slBal:])
	d.DecidedInstance = le.Uint64(src[slDecidedInst:])
	var err error
	if d.Value, err = decodeGrant(src, old.Value, slValue, slValueLen, 0); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if d.Decided, err = decodeGrant(src, old.Decided, slDecided, slDecidedLen, MaxHolders); err != nil {
		return fmt.Errorf("decided: %w", err)
	}
	return nil
}

// decodeGrant returns old if the block holds the same grant, otherwise a new Grant: a Grant is immutable, and other
// code may refer to old.
func decodeGrant(src []byte, old *Grant, head, count, first int) (*Grant, error) {
	n := int(src[count])
	switch {
	case n == 0:
		return nil, nil
	case n > MaxHolders:
		return nil, fmt.Errorf("it has %d holders, but at most %d are allowed", n, MaxHolders)
	}
	le := binary.LittleEndian
	epoch, digest := le.Uint64(src[head:]), le.Uint64(src[head+8:])
	if old != nil && old.RosterEpoch == epoch && old.RosterDigest == digest && len(old.Holders) == n {
		same := true
		for i := 0; i < n && same; i++ {
			same = old.Holders[i] == decodeHolder(src, first+i)
		}
		if same {
			return old, nil
		}
	}
	g := &Grant{RosterEpoch: epoch, RosterDigest: digest, Holders: make([]Holder, n)}
	for i := range g.Holders {
		g.Holders[i] = decodeHolder(src, first+i)
	}
	return g, nil
}

func decodeHolder(src []byte, n int) Holder {
	b := src[holderOffset(n):]
	return Holder{Slot: b[0], Token: Token{Nonce: binary.LittleEndian.Uint64(b[1:]), Counter: binary.LittleEndian.Uint32(b[9:])}}
}

func flagsOf(st *netgossip.Statement) (f byte) {
	for _, x := range [...]struct {
		set bool
		bit byte
	}{
		{st.Guard.Armed, flagArmed}, {st.Guard.Fences, flagFences}, {st.Feeding, flagFeeding},
		{st.Stopping, flagStopping}, {st.LUNHealthy, flagLUNHealthy}, {st.APIReachable, flagAPIReachable},
	} {
		if x.set {
			f |= x.bit
		}
	}
	return f
}

func setFlags(st *netgossip.Statement, f byte) {
	st.Guard.Armed = f&flagArmed != 0
	st.Guard.Fences = f&flagFences != 0
	st.Feeding = f&flagFeeding != 0
	st.Stopping = f&flagStopping != 0
	st.LUNHealthy = f&flagLUNHealthy != 0
	st.APIReachable = f&flagAPIReachable != 0
}

// ageBytes hold milliseconds for nine thousand years.
const ageBytes = 6

// putAge rounds down: otherwise a boot might seem to have begun while the one before was still running.
func putAge(dst []byte, age boottime.Instant) {
	ms := uint64(max(0, age)) / uint64(time.Millisecond)
	for i := range dst {
		dst[i] = byte(ms >> (8 * i))
	}
}

func ageOf(src []byte) boottime.Instant {
	var ms uint64
	for i, b := range src {
		ms |= uint64(b) << (8 * i)
	}
	return boottime.Instant(min(ms, uint64(math.MaxInt64/time.Millisecond)) * uint64(time.Millisecond))
}

// toMillis rounds up: a watchdog timeout must never be understated.
func toMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// validate checks records before a write and after a read.
func (s *Slot) validate(which int) error {
	switch st := &s.Statement; {
	case s.Index < 0 || s.Index >= MaxSlots:
		return fmt.Errorf("index %d, but at most %d is allowed", s.Index, MaxSlots-1)
	case s.Sequence == 0 || int(s.Sequence%copiesPerSlot) != which:
		return fmt.Errorf("sequence %d does not belong to copy %d", s.Sequence, which)
	case s.State > SlotStopped:
		return fmt.Errorf("state %d is not known", s.State)
	case len(s.NodeName) > maxSlotName:
		return fmt.Errorf("node name: it has %d bytes, but at most %d are allowed", len(s.NodeName), maxSlotName)
	case len(s.NodeUID) > maxUIDBytes:
		return fmt.Errorf("node UID: it has %d bytes, but at most %d are allowed", len(s.NodeUID), maxUIDBytes)
	case !millisFit(s.HeartbeatInterval) || !millisFit(st.Guard.Timeout):
		return fmt.Errorf("heartbeat interval %v or watchdog timeout %v is out of range", s.HeartbeatInterval, st.Guard.Timeout)
	case !millisFit(s.GrantLifetime) || !millisFit(st.Guard.Horizon):
		return fmt.Errorf("grant lifetime %v or horizon %v is out of range", s.GrantLifetime, st.Guard.Horizon)
	case s.RosterSize < 0 || s.RosterSize > MaxSlots:
		return fmt.Errorf("the roster has %d nodes, but at most %d can share a LUN", s.RosterSize, MaxSlots)
	case s.RosterIndex < 0 || s.RosterIndex >= max(1, s.RosterSize):
		return fmt.Errorf("roster index %d is outside of a roster of %d", s.RosterIndex, s.RosterSize)
	case !within(&st.Seen, s.RosterSize) || !within(&st.View, s.RosterSize):
		return fmt.Errorf("a set names nodes outside the roster of %d", s.RosterSize)
	}
	return s.Ballot.validate()
}

func (b *Ballot) validate() error {
	switch {
	case (b.Bal != 0) != (b.Value != nil):
		return errors.New("ballot: it has a value without a number or a number without a value")
	case b.Bal > b.MBal:
		return fmt.Errorf("ballot: bal %d is greater than mbal %d", b.Bal, b.MBal)
	case b.MBal != 0 && b.Instance == 0:
		return errors.New("ballot: it belongs to no instance")
	case (b.DecidedInstance != 0) != (b.Decided != nil):
		return errors.New("ballot: it has a decision without an instance or an instance without a decision")
	}
	for _, g := range [...]*Grant{b.Value, b.Decided} {
		if err := g.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Grant) validate() error {
	if g == nil {
		return nil
	}
	if len(g.Holders) == 0 || len(g.Holders) > MaxHolders {
		return fmt.Errorf("grant: it has %d holders, but 1 to %d are allowed", len(g.Holders), MaxHolders)
	}
	for i, h := range g.Holders {
		if int(h.Slot) >= MaxSlots || i > 0 && h.Slot <= g.Holders[i-1].Slot {
			return fmt.Errorf("grant: holder %d has slot %d: not ascending or out of range", i, h.Slot)
		}
	}
	return nil
}

func millisFit(d time.Duration) bool {
	return d >= 0 && d <= math.MaxUint32*time.Millisecond
}

// within reports whether s names no index of n or greater.
func within(s *roster.Set, n int) bool {
	for i, w := range s {
		if low := n - 64*i; low < 64 && w>>max(0, low) != 0 {
			return false
		}
	}
	return true
}

package diskquorum

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// An echo block, by sector. It has one copy: a torn block is not evidence, and the next heartbeat writes another one.
//
//	sector 0: what the owner of the slot states about itself, composed in one step with its echoes (E4)
//	   0   8  magic "FENCECHO"
//	   8   2  format version
//	  10   2  minor version: 1; readers ignore it; fields that an older version leaves zero state nothing
//	  12   1  slot index
//	  13   1  flags: 1 lives, 2 granted, 4 feeding, 8 holding, 16 settled
//	  14   2  roster index
//	  16   8  process
//	  24   8  boot nonce
//	  32   8  ping: nonce 4, counter 4
//	  40   8  token nonce
//	  48   4  token counter
//	  52   2  roster size
//	  54   2  reserved
//	  56   8  roster epoch
//	  64   8  roster digest
//	  72   8  decided instance
//	  80  32  lately: bit i of the bytes is roster index i
//	 112  32  view
//	 144   4  sentence: timeout of the watchdog, milliseconds; 0: none
//	 148   4  reserved
//	 152   8  sentence: boot that is condemned
//	 160   8  sentence: digest of the owner's name
//	 168  40  reserved
//	 208  32  seen, where the owner counts by such words (lun.mode: or); else zero
//	 240 256  reserved
//	sectors 1..5: 62 echoes of 8 bytes each, the ping last read in slot 62(k-1)+i; zero: none
//	sectors 6, 7: reserved
const (
	echoMagic = "FENCECHO"

	ecVersion = 8
	ecMinor   = 10
	ecIndex   = 12
	ecFlags   = 13
	ecMember  = 14
	ecProcess = 16
	ecBoot    = 24
	ecPing    = 32
	ecNonce   = 40
	ecCounter = 48
	ecSize    = 52
	ecEpoch   = 56
	ecDigest  = 64
	ecDecided = 72
	ecLately  = 80
	ecView    = 112
	ecWait    = 144
	ecJudged  = 152
	ecName    = 160
	ecSeen    = 208

	echoMinor = 1

	ecFlagLives   = 1
	ecFlagGranted = 2
	ecFlagFeeding = 4
	ecFlagHolding = 8
	ecFlagSettled = 16

	pingSize        = 8
	echoesPerSector = sectorPayload / pingSize // 62
	firstEchoSector = 1
)

// Ping identifies one write of an echo block, by the process that composed it and a counter. The zero value is no ping.
type Ping struct {
	Nonce   uint32 // of the process, never 0
	Counter uint32 // from 1
}

// Echo is the content of an echo block.
type Echo struct {
	Index   int
	Process uint64
	Boot    uint64
	Ping    Ping
	Testimony
	RosterEpoch  uint64 // of the list whose indices the sets use
	RosterDigest uint64
	RosterSize   int
	RosterIndex  int // the owner's index in that list
	Decided      uint64
	Token        Token
	Judged       Sentence
}

// Testimony is a node's statement about itself in its echo block, at one instant.
type Testimony struct {
	Lives   bool // the node counts a majority of each list that it uses, or a grant names its token, or another tie-breaker lets it feed
	Granted bool // the latest decision that the node knows names its token
	Feeding bool
	Holding bool
	Settled bool       // the node uses only the list of members that the sets refer to, and is not adopting another
	Lately  roster.Set // members that other nodes may still count because this node has seen them (H2)
	View    roster.Set // members that the node counts, including itself
	Seen    roster.Set // members that the node sees, by network or LUN, if it counts by echo blocks (N); otherwise empty
	// Sentence is the watchdog's timeout if the boot is condemned and announces it; 0: it is not condemned, or does not
	// announce it.
	Sentence time.Duration
}

func echoBlock(slots, slot int) uint64 { return uint64(EchoOffset(slots, slot) / BlockSize) }

// echoAt returns the offset of a slot's echo in the block.
func echoAt(slot int) int {
	return (firstEchoSector+slot/echoesPerSector)*SectorSize + slot%echoesPerSector*pingSize
}

// EncodeEcho writes the echo block of a LUN with this many slots into dst, which holds BlockSize bytes. echoes holds
// the pings that were last read, by slot.
func EncodeEcho(dst []byte, id [16]byte, slots int, e *Echo, echoes []Ping) error {
	if len(dst) != BlockSize || e.Index < 0 || e.Index >= slots || slots > MaxSlots || len(echoes) > slots {
		return fmt.Errorf("encode echo block: cannot put slot %d of %d, with %d echoes, into %d bytes", e.Index, slots, len(echoes), len(dst))
	}
	clear(dst)
	le := binary.LittleEndian
	copy(dst, echoMagic)
	le.PutUint16(dst[ecVersion:], FormatVersion)
	le.PutUint16(dst[ecMinor:], echoMinor)
	dst[ecIndex], dst[ecFlags] = byte(e.Index), e.flags()
	le.PutUint16(dst[ecMember:], uint16(e.RosterIndex))
	le.PutUint64(dst[ecProcess:], e.Process)
	le.PutUint64(dst[ecBoot:], e.Boot)
	putPing(dst[ecPing:], e.Ping)
	le.PutUint64(dst[ecNonce:], e.Token.Nonce)
	le.PutUint32(dst[ecCounter:], e.Token.Counter)
	le.PutUint16(dst[ecSize:], uint16(e.RosterSize))
	le.PutUint64(dst[ecEpoch:], e.RosterEpoch)
	le.PutUint64(dst[ecDigest:], e.RosterDigest)
	le.PutUint64(dst[ecDecided:], e.Decided)
	for i := range setWords {
		le.PutUint64(dst[ecLately+8*i:], e.Lately[i])
		le.PutUint64(dst[ecView+8*i:], e.View[i])
		le.PutUint64(dst[ecSeen+8*i:], e.Seen[i])
	}
	le.PutUint32(dst[ecWait:], uint32(toMillis(e.Judged.Timeout)))
	le.PutUint64(dst[ecJudged:], e.Judged.Boot)
	le.PutUint64(dst[ecName:], e.Judged.Name)
	for slot, p := range echoes {
		putPing(dst[echoAt(slot):], p)
	}
	seal(dst, kindEcho, id, echoBlock(slots, e.Index), uint64(e.Ping.Nonce)<<32|uint64(e.Ping.Counter))
	return nil
}

// DecodeEcho reads the echo block of a slot, and the ping of slot mine that it echoes; mine -1: no slot. The error
// wraps ErrBlank, ErrTorn, ErrCorrupt or ErrVersion.
func DecodeEcho(src []byte, id [16]byte, slots, slot, mine int) (e Echo, echoed Ping, err error) {
	sequence, err := unseal(src, kindEcho, id, echoBlock(slots, slot))
	if err != nil {
		return e, echoed, err // most slots have no echo block, so the error is not wrapped, which would allocate
	}
	le := binary.LittleEndian
	switch v := le.Uint16(src[ecVersion:]); {
	case string(src[:len(echoMagic)]) != echoMagic:
		return e, echoed, fmt.Errorf("echo block %d: %w: bad magic", slot, ErrCorrupt)
	case v != FormatVersion:
		return e, echoed, fmt.Errorf("echo block %d: %w: %d, this program knows %d", slot, ErrVersion, v, FormatVersion)
	case int(src[ecIndex]) != slot:
		return e, echoed, fmt.Errorf("echo block %d: %w: written as %d", slot, ErrCorrupt, src[ecIndex])
	}
	e = Echo{
		Index: slot, Process: le.Uint64(src[ecProcess:]), Boot: le.Uint64(src[ecBoot:]), Ping: pingAt(src[ecPing:]),
		RosterEpoch: le.Uint64(src[ecEpoch:]), RosterDigest: le.Uint64(src[ecDigest:]),
		RosterSize: int(le.Uint16(src[ecSize:])), RosterIndex: int(le.Uint16(src[ecMember:])),
		Decided: le.Uint64(src[ecDecided:]),
		Token:   Token{Nonce: le.Uint64(src[ecNonce:]), Counter: le.Uint32(src[ecCounter:])},
	}
	e.setFlags(src[ecFlags])
	e.Judged = Sentence{
		Timeout: time.Duration(le.Uint32(src[ecWait:])) * time.Millisecond, Boot: le.Uint64(src[ecJudged:]), Name: le.Uint64(src[ecName:]),
	}
	e.Sentence = e.Judged.Timeout
	for i := range setWords {
		e.Lately[i] = le.Uint64(src[ecLately+8*i:])
		e.View[i] = le.Uint64(src[ecView+8*i:])
		e.Seen[i] = le.Uint64(src[ecSeen+8*i:])
	}
	if uint64(e.Ping.Nonce)<<32|uint64(e.Ping.Counter) != sequence || e.Ping.Nonce == 0 {
		return Echo{}, echoed, fmt.Errorf("echo block %d: %w: sequence and ping disagree", slot, ErrCorrupt)
	}
	if mine >= 0 {
		echoed = pingAt(src[echoAt(mine):])
	}
	return e, echoed, nil
}

func (t *Testimony) flags() (f byte) {
	for _, x := range [...]struct {
		set bool
		bit byte
	}{
		{t.Lives, ecFlagLives}, {t.Granted, ecFlagGranted}, {t.Feeding, ecFlagFeeding},
		{t.Holding, ecFlagHolding}, {t.Settled, ecFlagSettled},
	} {
		if x.set {
			f |= x.bit
		}
	}
	return f
}

func (t *Testimony) setFlags(f byte) {
	t.Lives, t.Granted, t.Feeding = f&ecFlagLives != 0, f&ecFlagGranted != 0, f&ecFlagFeeding != 0
	t.Holding, t.Settled = f&ecFlagHolding != 0, f&ecFlagSettled != 0
}

func putPing(dst []byte, p Ping) {
	binary.LittleEndian.PutUint32(dst, p.Nonce)
	binary.LittleEndian.PutUint32(dst[4:], p.Counter)
}

func pingAt(src []byte) Ping {
	return Ping{Nonce: binary.LittleEndian.Uint32(src), Counter: binary.LittleEndian.Uint32(src[4:])}
}

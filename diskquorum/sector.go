package diskquorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Every block is sealed sector by sector, so that whatever the device's logical sector
// size is, a block that was only partly written, was written to the wrong place or
// belongs to another LUN does not verify. A sector is 496 bytes of payload and:
//
//	496  8  sequence of the write; equal in all eight sectors of a block
//	504  1  part: the sector's position in its block, 0..7
//	505  1  reserved
//	506  2  block kind: "FB" superblock, "FL" slot, "FC" scratch, "FE" echo
//	508  4  CRC32C over 16 bytes LUN id, 8 bytes block number and bytes 0..507
//
// All of it is part of the disk format.
const (
	sectorsPerBlock = BlockSize / SectorSize
	sectorPayload   = 496

	trailerSequence = 496
	trailerPart     = 504
	trailerKind     = 506
	trailerCRC      = 508
)

// blockKind keeps a block from being taken for one of another kind that has the same number in a LUN of another size.
type blockKind uint16

const (
	kindSuperblock blockKind = 'F' | 'B'<<8
	kindSlot       blockKind = 'F' | 'L'<<8
	kindScratch    blockKind = 'F' | 'C'<<8
	kindEcho       blockKind = 'F' | 'E'<<8
)

var (
	// ErrBlank means that the whole block is zero: it has not been written since the format.
	ErrBlank = errors.New("block was never written")
	// ErrTorn means that every sector verifies but the sectors belong to two writes: the newer write has not completed,
	// or the power failed during it.
	ErrTorn = errors.New("block is partly written")
	// ErrCorrupt means that the block does not verify. It may hide anything, even a completed write: it is unknown,
	// never empty and never old (B9).
	ErrCorrupt = errors.New("block is corrupt or not ours")
	// ErrVersion means that the block verifies but has a newer format.
	ErrVersion = errors.New("unknown format version")
)

// maxTornFirst is the greatest sequence for which a block with written and all-zero sectors is taken for a first write
// that did not complete. With a greater sequence, a zero sector is a loss of written data, so the block is corrupt.
const maxTornFirst = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealSeed binds a sector's checksum to its LUN and block, so that a misdirected write or a block of another LUN does
// not verify.
func sealSeed(id [16]byte, block uint64) uint32 {
	crc := ^uint32(0)
	for _, c := range id {
		crc = castagnoli[byte(crc)^c] ^ crc>>8 // written out: crc32.Update would move id to the heap
	}
	for range 8 {
		crc = castagnoli[byte(crc)^byte(block)] ^ crc>>8
		block >>= 8
	}
	return ^crc
}

// seal writes the trailers of all sectors of a block whose payload is in place.
func seal(block []byte, kind blockKind, id [16]byte, number uint64, sequence uint64) {
	seed := sealSeed(id, number)
	for part := range sectorsPerBlock {
		s := block[part*SectorSize : (part+1)*SectorSize]
		binary.LittleEndian.PutUint64(s[trailerSequence:], sequence)
		s[trailerPart], s[trailerPart+1] = byte(part), 0
		binary.LittleEndian.PutUint16(s[trailerKind:], uint16(kind))
		binary.LittleEndian.PutUint32(s[trailerCRC:], crc32.Update(seed, castagnoli, s[:trailerCRC]))
	}
}

// unseal verifies all sectors of a block and returns its sequence; for a torn block, the sequence of the newer write.
func unseal(block []byte, kind blockKind, id [16]byte, number uint64) (sequence uint64, err error) {
	if len(block) != BlockSize {
		return 0, fmt.Errorf("%w: %d of %d bytes", ErrCorrupt, len(block), BlockSize)
	}
	seed := sealSeed(id, number)
	valid, zero, mixed := 0, 0, false
	for part := range sectorsPerBlock {
		s := block[part*SectorSize : (part+1)*SectorSize]
		switch seq, ok := unsealSector(s, kind, part, seed); {
		case !ok && isZero(s):
			zero++
		case !ok:
			return 0, ErrCorrupt
		default:
			mixed = mixed || (valid > 0 && seq != sequence)
			sequence = max(sequence, seq)
			valid++
		}
	}
	switch {
	case valid == 0:
		return 0, ErrBlank
	case zero > 0 && sequence > maxTornFirst:
		return 0, ErrCorrupt
	case zero > 0 || mixed:
		return sequence, ErrTorn
	}
	return sequence, nil
}

func unsealSector(s []byte, kind blockKind, part int, seed uint32) (sequence uint64, ok bool) {
	ok = blockKind(binary.LittleEndian.Uint16(s[trailerKind:])) == kind && int(s[trailerPart]) == part &&
		binary.LittleEndian.Uint32(s[trailerCRC:]) == crc32.Update(seed, castagnoli, s[:trailerCRC])
	return binary.LittleEndian.Uint64(s[trailerSequence:]), ok
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

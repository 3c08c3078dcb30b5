package diskquorum

import (
	"encoding/binary"
	"fmt"
)

// The scratch block after the slots belongs to `fencectl lun check`, which may run on several nodes at once: it is the
// only block with many writers, and the protocol never reads it. Sector 0 has these fields (the other sectors only have
// their trailers):
//
//	 0   8  magic "FENCTEST"
//	 8   8  run: random per check
//	16   8  count: of the write within the run; run+count is the sequence in the trailers
//	24 472  reserved
const (
	scratchMagic = "FENCTEST"
	scratchRun   = 8
	scratchCount = 16
)

// EncodeScratch writes the count-th test block of a run into dst, which holds BlockSize bytes.
func EncodeScratch(dst []byte, sb *Superblock, run, count uint64) error {
	if len(dst) != BlockSize {
		return fmt.Errorf("encode scratch block: the buffer has %d bytes, not those of one block", len(dst))
	}
	clear(dst)
	copy(dst, scratchMagic)
	binary.LittleEndian.PutUint64(dst[scratchRun:], run)
	binary.LittleEndian.PutUint64(dst[scratchCount:], count)
	seal(dst, kindScratch, sb.ID, uint64(ScratchOffset(sb.Slots)/BlockSize), run+count)
	return nil
}

// DecodeScratch reads the scratch block. The error wraps ErrBlank, ErrTorn or ErrCorrupt.
func DecodeScratch(src []byte, sb *Superblock) (run, count uint64, err error) {
	sequence, err := unseal(src, kindScratch, sb.ID, uint64(ScratchOffset(sb.Slots)/BlockSize))
	if err != nil {
		return 0, 0, fmt.Errorf("scratch block: %w", err)
	}
	run = binary.LittleEndian.Uint64(src[scratchRun:])
	count = binary.LittleEndian.Uint64(src[scratchCount:])
	if string(src[:len(scratchMagic)]) != scratchMagic || sequence != run+count {
		return 0, 0, fmt.Errorf("scratch block: %w", ErrCorrupt)
	}
	return run, count, nil
}

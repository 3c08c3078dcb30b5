package diskquorum

// Layout of the LUN, in blocks of BlockSize bytes. All of it is part of the disk format.
//
//	block 0, 1        superblock, copies A and B, written by `fencectl lun init` only
//	block 2+2i, 3+2i  slot i, copies A and B, written alternately by its one owner
//	block 2+2S        scratch of `fencectl lun check`; the protocol never reads it
//	block 3+2S+i      echo block of slot i, one copy
const (
	BlockSize     = 4096 // bytes; a multiple of every supported logical sector size
	SectorSize    = 512  // bytes; every sector has its own sequence and checksum
	MaxSlots      = 255
	FormatVersion = 1

	superblockBlocks = 2
	copiesPerSlot    = 2
)

// SlotOffset returns the byte offset of one copy (0 or 1) of a slot.
func SlotOffset(slot, copy int) int64 {
	return int64(superblockBlocks+copiesPerSlot*slot+copy) * BlockSize
}

// TableSize returns the number of bytes from the start of the LUN to the end of the slots.
func TableSize(slots int) int { return (superblockBlocks + copiesPerSlot*slots) * BlockSize }

// ScratchOffset returns the offset of the block that `fencectl lun check` may write.
func ScratchOffset(slots int) int64 { return int64(TableSize(slots)) }

// EchoOffset returns the byte offset of the echo block of a slot. Echo blocks are contiguous.
func EchoOffset(slots, slot int) int64 {
	return ScratchOffset(slots) + BlockSize + int64(slot)*BlockSize
}

// EchoSize returns the number of bytes of all echo blocks.
func EchoSize(slots int) int { return slots * BlockSize }

// DeviceSize returns the minimum size of a LUN with that many slots, in bytes.
func DeviceSize(slots int) int64 { return EchoOffset(slots, slots) }

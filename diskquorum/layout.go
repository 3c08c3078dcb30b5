package diskquorum

// Layout of the LUN, in blocks of BlockSize bytes. All of it is part of the disk format.
//
//	block 0, 1        superblock, copies A and B, written by `fencectl lun init` only
//	block 2+2i, 3+2i  slot i, copies A and B, written alternately by its one owner
//	block 2+2S        scratch of `fencectl lun check`; the protocol never reads it
//	block 3+2S+i      echo block of slot i, one copy
const (
	BlockSize     = 4096 // bytes; a multiple of every supported logical sector size
	SectorSize    = 512  // bytes; every sector carries its own sequence and checksum
	MaxSlots      = 255
	FormatVersion = 1

	superblockBlocks = 2
	copiesPerSlot    = 2
)

// SlotOffset is the byte offset of one copy (0 or 1) of a slot.
func SlotOffset(slot, copy int) int64 {
	return int64(superblockBlocks+copiesPerSlot*slot+copy) * BlockSize
}

// TableSize is the number of bytes from the start of the LUN to the end of the slots.
func TableSize(slots int) int { return (superblockBlocks + copiesPerSlot*slots) * BlockSize }

// ScratchOffset is where `fencectl lun check` may write.
func ScratchOffset(slots int) int64 { return int64(TableSize(slots)) }

// EchoOffset is the byte offset of the echo block of a slot. They follow each other.
func EchoOffset(slots, slot int) int64 {
	return ScratchOffset(slots) + BlockSize + int64(slot)*BlockSize
}

// EchoSize is the number of bytes of all echo blocks.
func EchoSize(slots int) int { return slots * BlockSize }

// DeviceSize is the least size of a LUN with that many slots, in bytes.
func DeviceSize(slots int) int64 { return EchoOffset(slots, slots) }

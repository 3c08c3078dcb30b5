package diskquorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
)

// The superblock, in sector 0 of blocks 0 and 1; sectors 1..7 carry only their trailers.
// The checksum is seeded with a zero LUN id, because the id is what is being read.
//
//	  0   8  magic "FENCELUN"
//	  8   2  format version
//	 10   2  minor version: 1; a reader ignores what a greater one adds in reserved fields
//	 12   4  block size: 4096
//	 16  16  LUN id, random; its first 8 bytes are the sequence in the trailers
//	 32   2  slots
//	 34   1  length of the cluster name
//	 35   1  length of the node group name
//	 36   1  devices of the set; 0: this one alone
//	 37   1  device: place in the set, 0..2
//	 38   1  flags: 1, the LUN has echo blocks
//	 39   1  reserved
//	 40   8  created, Unix seconds
//	 48  64  cluster name, zero padded
//	112  64  node group name, zero padded
//	176  16  set id; all zero if this device is alone
//	192 248  reserved
//	440   4  copy A: chosen so that the sector's checksum ends with the bytes 55 AA
//	444   2  reserved
//	446  16  copy A: a partition of type EE, which makes the sector a protective MBR
//	462  34  reserved
//
// Without the protective MBR, blkid, wipefs, lsblk, file, mkfs and installers would take the LUN for empty. The kernel
// creates no partition for it (adr/0075). Readers ignore it, like all reserved bytes.
const (
	superblockMagic = "FENCELUN"
	superblockMinor = 1

	sbVersion    = 8
	sbMinor      = 10
	sbBlockSize  = 12
	sbID         = 16
	sbSlots      = 32
	sbClusterLen = 34
	sbGroupLen   = 35
	sbDevices    = 36
	sbDevice     = 37
	sbFlags      = 38
	sbCreated    = 40
	sbCluster    = 48
	sbGroup      = 112
	sbSetID      = 176
	sbBalance    = 440
	sbPartition  = 446

	sbFlagEchoes = 1

	// MaxNameBytes bounds the names of cluster and node group in the superblock.
	MaxNameBytes = 64
)

// protective is the partition of a protective MBR: type EE, from sector 1 to the greatest sector that the field can
// hold. Tools that do not know GPT treat the whole device as used, and the kernel and kpartx do not look for more.
const protective = "\x00\x00\x02\x00\xEE\xFF\xFF\xFF\x01\x00\x00\x00\xFF\xFF\xFF\xFF"

// bootSignature ends an MBR. It is the upper half of the checksum of the sector.
const bootSignature = 0xAA55

var (
	// ErrNoSuperblock means that the block is not a fencing-agent superblock at all.
	ErrNoSuperblock = errors.New("no fencing-agent superblock")
	// ErrSuperblocksDiffer means that the two copies describe two LUNs: an init was interrupted, or two ran at once. An
	// agent must not guess which one the others use.
	ErrSuperblocksDiffer = errors.New("the two superblock copies differ: an init was interrupted, or something wrote over one of them; " +
		"`fencectl lun repair restore-superblock DEVICE` tells whether it can be restored from the other, else run `fencectl lun init --force` again")
)

// Validate returns why the superblock must not be written, or nil.
func (sb *Superblock) Validate() error {
	switch {
	case sb.Slots < 2 || sb.Slots > MaxSlots:
		return fmt.Errorf("slots: %d is out of range, 2 to %d are allowed", sb.Slots, MaxSlots)
	case len(sb.Cluster) == 0 || len(sb.Cluster) > MaxNameBytes:
		return fmt.Errorf("cluster name: it has %d bytes, but 1 to %d are allowed", len(sb.Cluster), MaxNameBytes)
	case len(sb.NodeGroup) == 0 || len(sb.NodeGroup) > MaxNameBytes:
		return fmt.Errorf("node group name: it has %d bytes, but 1 to %d are allowed", len(sb.NodeGroup), MaxNameBytes)
	case sb.ID == [16]byte{}:
		return errors.New("id: it is zero")
	case sb.Devices == 0 && (sb.Device != 0 || sb.SetID != [16]byte{}):
		return errors.New("set: the device belongs to no set, but has a place in one")
	case sb.Devices != 0 && (sb.Devices != MaxDevices || sb.Device < 0 || sb.Device >= sb.Devices || sb.SetID == [16]byte{}):
		return fmt.Errorf("set: device %d of %d with set id %x: a set has devices 0 to %d of exactly %d, and a set id that is not zero", sb.Device, sb.Devices, sb.SetID, MaxDevices-1, MaxDevices)
	}
	return nil
}

// ErrSet means that devices do not make one LUN together.
var ErrSet = errors.New("the devices do not belong together")

// CheckSet returns why the superblocks do not form one LUN, or nil. A LUN is one device that is not part of a set, or
// the three different devices of one set. A superblock that is not known yet is nil.
func CheckSet(devices []*Superblock) error {
	var first *Superblock
	var seen deviceSet
	for i, sb := range devices {
		if sb == nil {
			continue
		}
		if first == nil {
			first = sb
		}
		switch {
		case sb.SetSize() != len(devices):
			return fmt.Errorf("device %d: %w: it was formatted as one of %d, and %d are configured; list exactly the devices that were given to one `fencectl lun init`", i+1, ErrSet, sb.SetSize(), len(devices))
		case sb.SetID != first.SetID:
			return fmt.Errorf("device %d: %w: its set id is %x and that of the first %x; they come from two runs of `fencectl lun init`", i+1, ErrSet, sb.SetID, first.SetID)
		case sb.Slots != first.Slots || sb.Cluster != first.Cluster || sb.NodeGroup != first.NodeGroup:
			return fmt.Errorf("device %d: %w: slots, cluster or node group differ from those of the first; format all again", i+1, ErrSet)
		case seen.has(sb.Device):
			return fmt.Errorf("device %d: %w: it is device %d of the set like another one of the list: is one listed under two paths, or a copy of the other?", i+1, ErrSet, sb.Device+1)
		}
		seen.add(sb.Device)
	}
	return nil
}

// OddOne returns the device that does not belong to the set, if the others belong together without it; -1: there is
// none, or more than one is possible. Two devices of a set are a majority, so two halves cannot both decide, whatever
// the odd device is.
func OddOne(devices []*Superblock) int {
	odd := -1
	for i, sb := range devices {
		rest := slices.Clone(devices)
		rest[i] = nil
		alone := !slices.ContainsFunc(rest, func(sb *Superblock) bool { return sb != nil })
		if sb == nil || CheckSet(rest) != nil || alone && (len(devices) == 1 || sb.SetSize() == len(devices)) {
			continue
		}
		if odd >= 0 {
			return -1
		}
		odd = i
	}
	return odd
}

// EncodeSuperblock writes copy 0 or 1 of the superblock into dst, which holds BlockSize bytes. It ignores sb.Version:
// the block has FormatVersion.
func EncodeSuperblock(dst []byte, sb *Superblock, which int) error {
	if err := sb.Validate(); err != nil {
		return fmt.Errorf("encode superblock: %w", err)
	}
	if len(dst) != BlockSize || which < 0 || which >= superblockBlocks {
		return fmt.Errorf("encode superblock: cannot put copy %d into %d bytes", which, len(dst))
	}
	clear(dst)
	le := binary.LittleEndian
	copy(dst, superblockMagic)
	le.PutUint16(dst[sbVersion:], FormatVersion)
	le.PutUint32(dst[sbBlockSize:], BlockSize)
	copy(dst[sbID:], sb.ID[:])
	le.PutUint16(dst[sbSlots:], uint16(sb.Slots))
	dst[sbClusterLen], dst[sbGroupLen] = byte(len(sb.Cluster)), byte(len(sb.NodeGroup))
	dst[sbDevices], dst[sbDevice] = byte(sb.Devices), byte(sb.Device)
	dst[sbFlags] = sbFlagEchoes
	le.PutUint16(dst[sbMinor:], superblockMinor)
	copy(dst[sbSetID:], sb.SetID[:])
	le.PutUint64(dst[sbCreated:], uint64(sb.Created))
	copy(dst[sbCluster:], sb.Cluster)
	copy(dst[sbGroup:], sb.NodeGroup)
	if which == 0 {
		copy(dst[sbPartition:], protective)
	}
	seal(dst, kindSuperblock, [16]byte{}, uint64(which), le.Uint64(sb.ID[:]))
	if which == 0 {
		balance(dst[:SectorSize], sealSeed([16]byte{}, uint64(which)))
	}
	return nil
}

// balance gives a sealed sector a checksum that ends with the boot signature. The checksum is linear, and a field of
// four bytes can produce every checksum: so balance combines the bits of the field that give the required upper half.
func balance(sector []byte, seed uint32) {
	le := binary.LittleEndian
	sum := func(field uint32) uint32 {
		le.PutUint32(sector[sbBalance:], field)
		return crc32.Update(seed, castagnoli, sector[:trailerCRC])
	}
	zero := uint16(sum(0) >> 16)
	var reach [16]struct { // by the highest bit of the change
		change uint16
		field  uint32
	}
	for bit := range 32 {
		field := uint32(1) << bit
		for change := uint16(sum(field)>>16) ^ zero; change != 0; {
			r := &reach[bits.Len16(change)-1]
			if r.change == 0 {
				r.change, r.field = change, field
				break
			}
			change, field = change^r.change, field^r.field
		}
	}
	field := uint32(0)
	for missing := zero ^ bootSignature; missing != 0; {
		r := &reach[bits.Len16(missing)-1]
		missing, field = missing^r.change, field^r.field
	}
	le.PutUint32(sector[trailerCRC:], sum(field))
}

// IsProtective reports whether block 0 begins with a protective MBR that is part of a superblock, valid or not.
func IsProtective(block []byte) bool {
	return len(block) >= SectorSize && string(block[sbPartition:sbPartition+len(protective)]) == protective &&
		binary.LittleEndian.Uint16(block[trailerKind:]) == uint16(kindSuperblock) && binary.LittleEndian.Uint16(block[trailerCRC+2:]) == bootSignature
}

// DecodeSuperblock reads copy 0 or 1 of the superblock. The error wraps ErrBlank,
// ErrNoSuperblock, ErrTorn, ErrCorrupt or ErrVersion.
func DecodeSuperblock(src []byte, which int) (Superblock, error) {
	var sb Superblock
	sequence, err := unseal(src, kindSuperblock, [16]byte{}, uint64(which))
	if err != nil {
		if errors.Is(err, ErrCorrupt) && !HasSuperblockMagic(src) {
			err = ErrNoSuperblock
		}
		return sb, fmt.Errorf("superblock copy %d: %w", which, err)
	}
	le := binary.LittleEndian
	if !HasSuperblockMagic(src) {
		return sb, fmt.Errorf("superblock copy %d: %w", which, ErrNoSuperblock)
	}
	sb.Version = le.Uint16(src[sbVersion:])
	if sb.Version != FormatVersion {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: %d, this program knows %d", which, ErrVersion, sb.Version, FormatVersion)
	}
	if src[sbFlags]&sbFlagEchoes == 0 {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: formatted without echo blocks, as development versions did; format it again with fencectl lun init --force", which, ErrVersion)
	}
	copy(sb.ID[:], src[sbID:])
	sb.Slots = int(le.Uint16(src[sbSlots:]))
	sb.Created = int64(le.Uint64(src[sbCreated:]))
	sb.Devices, sb.Device = int(src[sbDevices]), int(src[sbDevice])
	copy(sb.SetID[:], src[sbSetID:])
	cluster, group := int(src[sbClusterLen]), int(src[sbGroupLen])
	if cluster > MaxNameBytes || group > MaxNameBytes {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: the names have %d and %d bytes", which, ErrCorrupt, cluster, group)
	}
	sb.Cluster = string(src[sbCluster : sbCluster+cluster])
	sb.NodeGroup = string(src[sbGroup : sbGroup+group])
	if size := le.Uint32(src[sbBlockSize:]); size != BlockSize {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: the block size is %d", which, ErrCorrupt, size)
	}
	if err := sb.Validate(); err != nil {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: %w", which, ErrCorrupt, err)
	}
	if sequence != le.Uint64(sb.ID[:]) {
		return Superblock{}, fmt.Errorf("superblock copy %d: %w: sequence and id disagree", which, ErrCorrupt)
	}
	return sb, nil
}

// HasSuperblockMagic reports whether a block begins like a superblock, valid or not.
func HasSuperblockMagic(block []byte) bool {
	return len(block) >= len(superblockMagic) && string(block[:len(superblockMagic)]) == superblockMagic
}

// ReadSuperblock decodes the two copies at the start of data and returns the superblock on which both agree, or the
// only readable one.
func ReadSuperblock(data []byte) (Superblock, error) {
	if len(data) < superblockBlocks*BlockSize {
		return Superblock{}, fmt.Errorf("%w: %d bytes are too few for a LUN", ErrNoSuperblock, len(data))
	}
	a, errA := DecodeSuperblock(data[:BlockSize], 0)
	b, errB := DecodeSuperblock(data[BlockSize:superblockBlocks*BlockSize], 1)
	switch {
	case errA == nil && errB == nil && a != b:
		return Superblock{}, ErrSuperblocksDiffer
	case errA == nil:
		return a, nil
	case errB == nil:
		return b, nil
	}
	return Superblock{}, errA
}

package lunadmin

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Finding is data on a device that may still be needed.
type Finding struct {
	Name    string  `json:"name"`
	Offsets []int64 `json:"offsets,omitempty"` // where its magic was found, in bytes from the start
}

func (f Finding) String() string {
	if len(f.Offsets) == 0 {
		return f.Name
	}
	return fmt.Sprintf("%s at byte %d", f.Name, f.Offsets[0])
}

func findingNames(fs []Finding) string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// signature is a magic at fixed offsets. Negative offsets count from the end.
type signature struct {
	name    string
	magic   string
	offsets []int64
}

const (
	mib      = 1 << 20
	gptMagic = "EFI PART"
)

// leases lists the offsets of sanlock's areas: its tools put them at multiples of 1 MiB or, with sectors of 4096 bytes,
// 8 MiB.
var leases = []int64{0, 1 * mib, 2 * mib, 3 * mib, 4 * mib, 5 * mib, 6 * mib, 7 * mib, 8 * mib}

// signatures are tried in this order. If a format has magics in two byte orders, both are listed: LUNs outlive the
// machines that formatted them.
//
// The offsets are from the formats' documentation and the kernel's headers.
var signatures = []signature{
	{"GPT partition table", gptMagic, []int64{512, 4096, -512, -4096}}, // logical sectors of 512 or 4096; backup at the end
	{"ext2/3/4 file system", "\x53\xEF", []int64{1024 + 56}},
	{"xfs file system", "XFSB", []int64{0}},
	{"btrfs file system", "_BHRfS_M", []int64{64<<10 + 64, 64*mib + 64}},
	{"gfs2 file system", "\x01\x16\x19\x70", []int64{64 << 10}},
	{"ocfs2 file system", "OCFSV2", []int64{1024, 2048, 4096, 8192}}, // block 2, of 512 to 4096 bytes
	{"f2fs file system", "\x10\x20\xF5\xF2", []int64{1024}},
	{"jfs file system", "JFS1", []int64{32 << 10}},
	{"reiserfs file system", "ReIsEr", []int64{64<<10 + 52, 8<<10 + 52}},
	{"vxfs file system", "\xF5\xFC\x01\xA5", []int64{1024}},
	{"ntfs file system", "NTFS    ", []int64{3}},
	{"exfat file system", "EXFAT   ", []int64{3}},
	{"vfat file system", "FAT32   ", []int64{82}},
	{"vfat file system", "FAT16   ", []int64{54}},
	{"vfat file system", "FAT12   ", []int64{54}},
	{"vfat file system", "FAT     ", []int64{54}},
	{"iso9660 file system", "CD001", []int64{32<<10 + 1}},
	{"udf file system", "BEA01", []int64{32<<10 + 1}},
	{"squashfs file system", "hsqs", []int64{0}},
	{"swap area", "SWAPSPACE2", []int64{4<<10 - 10, 8<<10 - 10, 16<<10 - 10, 64<<10 - 10}}, // the end of the first page
	{"swap area", "SWAP-SPACE", []int64{4<<10 - 10, 8<<10 - 10, 16<<10 - 10, 64<<10 - 10}},
	{"swap area with a hibernation image", "S1SUSPEND", []int64{4<<10 - 10}},
	{"swap area with a hibernation image", "LINHIB0001", []int64{4<<10 - 10}},
	{"LVM2 physical volume", "LABELONE", []int64{0, 512, 1024, 1536}}, // any of the first four sectors
	{"mdraid member", "\xFC\x4E\x2B\xA9", []int64{0, 4096}},           // metadata 1.1 and 1.2; 1.0 and 0.90 below
	{"LUKS volume", "LUKS\xBA\xBE", []int64{0}},
	{"LUKS volume", "SKUL\xBA\xBE", []int64{16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 * mib, 2 * mib, 4 * mib}},
	{"bcache device", "\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81", []int64{4096 + 24}},
	{"VDO volume", "dmvdo001", []int64{0}},
	{"Ceph BlueStore device", "bluestore block device", []int64{0}},
	{"Oracle ASM disk", "ORCLDISK", []int64{32}},
	{"VMFS volume", "\x0D\xD0\x01\xC0", []int64{mib}},
	{"VMFS file system", "\x5E\xF1\xAB\x2F", []int64{2 * mib}},
	{"Intel RAID member", "Intel Raid ISM Cfg Sig. ", []int64{-1024}},
	{"ufs file system", "\x19\x01\x54\x19", []int64{8<<10 + 1372, 64<<10 + 1372, 256<<10 + 1372}},
	{"ufs file system", "\x19\x54\x01\x19", []int64{8<<10 + 1372, 64<<10 + 1372, 256<<10 + 1372}},
	{"DDF RAID member", "\xDE\x11\xDE\x11", []int64{-512, -257 * 512}},
	{"NVIDIA RAID member", "NVIDIA  ", []int64{-1024}},
	{"Promise RAID member", "Promise Technology, Inc.", promiseOffsets()},
	{"DRBD management data", "$DRBDmgr=q", []int64{0}},
	{"Stratis pool member", "!Stra0tis\x86\xFF\x02^\x41rh", []int64{512 + 4, 9*512 + 4}},
	{"BitLocker volume", "-FVE-FS-", []int64{3}},
	{"sbd device", "SBD_SBD_", []int64{0}},
	{"sanlock lockspace", "\x10\x20\x21\x12", leases}, // 0x12212010
	{"sanlock lockspace", "\x12\x21\x20\x10", leases},
	{"sanlock resource lease", "\x10\x20\x15\x06", leases}, // 0x06152010
	{"sanlock resource lease", "\x06\x15\x20\x10", leases},
	{"sanlock resource index", "\x18\x20\x04\x01", leases}, // 0x01042018
	{"qdiskd quorum disk", "\x00\xDE\xBB\x1E", []int64{0}}, // big-endian by definition
	{"qdiskd quorum disk", "\x1E\xBB\xDE\x00", []int64{0}},
	{"fencing-agent LUN", "FENCELUN", []int64{0, diskquorum.BlockSize}},
}

// promiseOffsets returns the offsets from the end at which these adapters keep their metadata, as in libblkid.
func promiseOffsets() []int64 {
	var out []int64
	for _, sectors := range []int64{63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087} {
		out = append(out, -512*sectors)
	}
	return out
}

// scan returns everything that it recognises on the device.
func scan(im *image) ([]Finding, error) {
	var found []Finding
	note := func(name string, off int64) {
		if i := slices.IndexFunc(found, func(f Finding) bool { return f.Name == name }); i >= 0 {
			found[i].Offsets = append(found[i].Offsets, off)
			return
		}
		found = append(found, Finding{name, []int64{off}})
	}
	for _, s := range signatures {
		for _, off := range s.offsets {
			if off < 0 {
				off += im.dev.Size()
			}
			if string(im.at(off, len(s.magic))) == s.magic {
				note(s.name, off)
			}
		}
	}
	for _, special := range []func(*image, func(string, int64)){scanMBR, scanSized, scanLVMAtEnd, scanZFS, scanSlots} {
		special(im, note)
	}
	return found, im.err
}

// scanMBR looks for a boot sector, with or without a partition table in it. FAT has one, too.
func scanMBR(im *image, note func(string, int64)) {
	s := im.at(0, 512)
	if len(s) != 512 || s[510] != 0x55 || s[511] != 0xAA || diskquorum.IsProtective(s) || diskquorum.HasSuperblockMagic(s) {
		return // the boot sector is part of our own format
	}
	for i := range 4 {
		entry := s[446+16*i : 446+16*(i+1)]
		boot, kind, sectors := entry[0], entry[4], binary.LittleEndian.Uint32(entry[12:])
		if boot&0x7F == 0 && kind != 0 && sectors != 0 {
			note("MBR partition table", 510)
			return
		}
	}
	note("boot sector", 510)
}

// sized lists the signatures whose offset depends on the size of the device.
var sized = []struct {
	name   string
	magics []string
	places func(size int64) []int64
}{
	// Metadata 0.90, in host order, is at the last but one 64 KiB boundary, 1.0 at least 8 KiB from the end.
	{"mdraid member", []string{"\xFC\x4E\x2B\xA9", "\xA9\x2B\x4E\xFC"}, func(size int64) []int64 {
		return []int64{size&^(64<<10-1) - 64<<10, (size/512 - 16) &^ 7 * 512}
	}},
	// Internal metadata of DRBD 8.3, of 8.4 while it runs, and of 9, in big-endian order. The data before it may be
	// blank.
	{"DRBD metadata", []string{"\x83\x74\x02\x6B", "\x83\x74\x02\x6C", "\x83\x74\x02\x6D"}, func(size int64) []int64 { return []int64{lastBlock(size) + 60} }},
	{"nilfs2 file system", []string{"\x02\x00\x00\x00\x00\x00\x34\x34"}, func(size int64) []int64 { return []int64{1024, lastBlock(size)} }}, // revision 2.0, magic
}

// lastBlock returns the offset of the last whole block.
func lastBlock(size int64) int64 { return size&^(diskquorum.BlockSize-1) - diskquorum.BlockSize }

func scanSized(im *image, note func(string, int64)) {
	for _, s := range sized {
		for _, off := range s.places(im.dev.Size()) {
			for _, magic := range s.magics {
				if string(im.at(off, len(magic))) == magic {
					note(s.name, off)
				}
			}
		}
	}
}

// lvmTail is the greatest default distance from the end at which the second copy of a physical volume's metadata
// begins.
const lvmTail = 2 * mib

// scanLVMAtEnd looks for the second copy of LVM's metadata, which has no label of its own.
func scanLVMAtEnd(im *image, note func(string, int64)) {
	from := max(0, im.dev.Size()&^(diskquorum.BlockSize-1)-lvmTail)
	im.load(from, int(im.dev.Size()&^(diskquorum.BlockSize-1)-from)) // at once
	for off := from; off < im.dev.Size(); off += diskquorum.BlockSize {
		if string(im.at(off+4, 16)) == " LVM2 x[5A%r0N*>" {
			note("LVM2 metadata", off)
		}
	}
}

// zfsLabel is the size of one of the four labels of a member of a pool.
const (
	zfsLabel  = 256 << 10
	zfsMember = "zfs pool member"
)

// scanZFS looks for an uberblock in the four labels: two at the start, two at the end,
// each with a ring of uberblocks in its second half.
func scanZFS(im *image, note func(string, int64)) {
	const label = zfsLabel
	end := im.dev.Size() &^ (label - 1)
	for _, start := range []int64{0, label, end - 2*label, end - label} {
		for off := start + label/2; off < start+label; off += 1024 {
			if m := im.at(off, 8); string(m) == "\x0C\xB1\xBA\x00\x00\x00\x00\x00" || string(m) == "\x00\x00\x00\x00\x00\xBA\xB1\x0C" {
				note(zfsMember, off)
				break
			}
		}
	}
}

// scanSlots finds slots of a LUN that has lost both superblocks.
func scanSlots(im *image, note func(string, int64)) {
	for slot := range diskquorum.MaxSlots {
		for which := range 2 {
			off := diskquorum.SlotOffset(slot, which)
			if string(im.at(off, 8)) == "FENCSLOT" {
				note("fencing-agent slots", off)
				return
			}
		}
	}
}

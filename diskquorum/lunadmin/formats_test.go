package lunadmin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

const formatSize = 160 * mib

// realFormat is a device as formatted by the format's own tool. If the tool needs a kernel that supports the format,
// the signature is built from its published layout, and blkid must recognise it.
type realFormat struct {
	name, packages string
	commands       []string         // DEV is the device
	build          func(dev []byte) // builds the contents of the whole device
	want           string           // text with which init refuses the device
	blkid          string           // blkid's name of the format; empty: blkid does not know it
	size           int64            // 0: formatSize
}

// blank overwrites the beginning of a device with zeros, like a person who "wipes" it.
func blankHead(dev []byte) { clear(dev[:4*mib]) }

// mdSuperblock builds metadata of md. mdadm cannot be used because it lets the kernel's driver write the metadata, and
// this kernel may not have the driver.
func mdSuperblock(version string) func([]byte) {
	return func(dev []byte) {
		le, size := binary.LittleEndian, int64(len(dev))
		if version == "0.90" {
			sb := dev[size&^(64<<10-1)-64<<10:]
			le.PutUint32(sb, 0xa92b4efc)
			le.PutUint32(sb[8:], 90)
			copy(sb[5*4:], "\x01\x02\x03\x04") // uuid
			le.PutUint32(sb[7*4:], 1)          // level
			le.PutUint32(sb[8*4:], uint32(size>>10-128))
			return
		}
		off := map[string]int64{"1.0": (size/512 - 16) &^ 7 * 512, "1.1": 0, "1.2": 4096}[version]
		sb := dev[off:]
		le.PutUint32(sb, 0xa92b4efc)
		le.PutUint32(sb[4:], 1)
		copy(sb[16:], "0123456789abcdef")
		copy(sb[32:], "host:0")
		le.PutUint64(sb[144:], uint64(off/512))
	}
}

// zfsLabels builds the four labels of a member, with 128 uberblocks each; zpool only writes them with its kernel
// module.
func zfsLabels(dev []byte) {
	end := int64(len(dev)) &^ (zfsLabel - 1)
	for _, label := range []int64{0, zfsLabel, end - 2*zfsLabel, end - zfsLabel} {
		for slot := range int64(128) {
			binary.LittleEndian.PutUint64(dev[label+zfsLabel/2+slot*1024:], 0x00bab10c)
		}
	}
}

var realFormats = []realFormat{
	{"drbd 8 internal", "drbd-utils", []string{"drbdmeta --force 0 v08 DEV internal create-md"}, nil, "DRBD metadata", "drbd", 0},
	{"drbd 9 internal", "drbd-utils", []string{"drbdmeta --force 0 v09 DEV internal create-md 3"}, nil, "DRBD metadata", "drbd", 0},
	{"lvm with two copies", "lvm2", []string{"pvcreate -qy --metadatacopies 2 DEV"}, nil, "LVM2 physical volume", "LVM2_member", 0},
	{"lvm, of which the end is left", "lvm2", []string{"pvcreate -qy --metadatacopies 2 DEV"}, blankHead, "LVM2 metadata", "", 0},
	{"md 0.90", "", nil, mdSuperblock("0.90"), "mdraid member", "linux_raid_member", 0},
	{"md 1.0", "", nil, mdSuperblock("1.0"), "mdraid member", "linux_raid_member", 0},
	{"md 1.1", "", nil, mdSuperblock("1.1"), "mdraid member", "linux_raid_member", 0},
	{"md 1.2", "", nil, mdSuperblock("1.2"), "mdraid member", "linux_raid_member", 0},
	{"zfs", "", nil, zfsLabels, "zfs pool member", "zfs_member", 0},
	{"zfs, of which the end is left", "", nil, func(dev []byte) { zfsLabels(dev); blankHead(dev) }, "zfs pool member", "zfs_member", 0},
	{"bcache backing device", "bcache-tools", []string{"make-bcache -B DEV"}, nil, "bcache device", "bcache", 0},
	{"bcache cache", "bcache-tools", []string{"make-bcache -C DEV"}, nil, "bcache device", "bcache", 0},
	{"luks2", "cryptsetup-bin", []string{"cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /etc/hostname DEV"}, nil, "LUKS volume", "crypto_LUKS", 0},
	{"luks1", "cryptsetup-bin", []string{"cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 --key-file /etc/hostname DEV"}, nil, "LUKS volume", "crypto_LUKS", 0},
	{"luks2, of which the second header is left", "cryptsetup-bin",
		[]string{"cryptsetup luksFormat -q --type luks2 --luks2-metadata-size 4m --luks2-keyslots-size 4m --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /etc/hostname DEV"},
		blankHead, "LUKS volume", "crypto_LUKS", 0},
	{"ext4", "e2fsprogs", []string{"mkfs.ext4 -qF DEV"}, nil, "ext2/3/4 file system", "ext4", 0},
	{"ext4, of which the beginning is blank", "e2fsprogs", []string{"mkfs.ext4 -qF DEV"}, blankHead, unknownData, "", 0},
	{"xfs", "xfsprogs", []string{"mkfs.xfs -qf DEV"}, nil, "xfs file system", "xfs", 320 * mib},
	{"btrfs", "btrfs-progs", []string{"mkfs.btrfs -qf DEV"}, nil, "btrfs file system", "btrfs", 0},
	{"f2fs", "f2fs-tools", []string{"mkfs.f2fs -q -f DEV"}, nil, "f2fs file system", "f2fs", 0},
	{"jfs", "jfsutils", []string{"mkfs.jfs -q DEV"}, nil, "jfs file system", "jfs", 0},
	{"exfat", "exfatprogs", []string{"mkfs.exfat DEV"}, nil, "exfat file system", "exfat", 0},
	{"vfat", "dosfstools", []string{"mkfs.vfat DEV"}, nil, "vfat file system", "vfat", 0},
	{"ntfs", "ntfs-3g", []string{"mkfs.ntfs -qFf DEV"}, nil, "ntfs file system", "ntfs", 0},
	{"nilfs2", "nilfs-tools", []string{"mkfs.nilfs2 -q -f DEV"}, nil, "nilfs2 file system", "nilfs2", 0},
	{"nilfs2, of which the end is left", "nilfs-tools", []string{"mkfs.nilfs2 -q -f DEV"}, blankHead, "nilfs2 file system", "nilfs2", 0},
	{"ocfs2", "ocfs2-tools", []string{"mkfs.ocfs2 -q -x -F DEV"}, nil, "ocfs2 file system", "ocfs2", 0},
	{"gfs2", "gfs2-utils", []string{"mkfs.gfs2 -q -O -p lock_nolock -j 1 -J 8 DEV"}, nil, "gfs2 file system", "gfs2", 0},
	{"swap", "util-linux", []string{"mkswap DEV"}, nil, "swap area", "swap", 0},
	{"a GPT", "gdisk", []string{"sgdisk -n 1:2048:4096 DEV"}, nil, "GPT partition table", "gpt", 0},
	{"a GPT, of which the backup is left", "gdisk", []string{"sgdisk -n 1:2048:4096 DEV"}, blankHead, "GPT partition table", "", 0},
	{"an MBR", "parted", []string{"parted -s DEV mklabel msdos mkpart primary 2048s 4096s"}, nil, "MBR partition table", "dos", 0},
	{"sbd", "sbd", []string{"sbd -d DEV create"}, nil, "sbd device", "", 0},
	{"sanlock lockspace", "sanlock", []string{"sanlock direct init -s LS:1:DEV:0"}, nil, "sanlock lockspace", "", 0},
	{"sanlock lockspace at 1 MiB", "sanlock", []string{"sanlock direct init -s LS:1:DEV:1048576"}, nil, "sanlock lockspace", "", 0},
	{"sanlock resource", "sanlock", []string{"sanlock direct init -r LS:RES:DEV:0"}, nil, "sanlock resource lease", "", 0},
	{"sanlock resource at 3 MiB", "sanlock", []string{"sanlock direct init -r LS:RES:DEV:3145728"}, nil, "sanlock resource lease", "", 0},
	{"sanlock resource at 100 MiB", "sanlock", []string{"sanlock direct init -r LS:RES:DEV:104857600"}, nil, unknownData, "", 0},
}

// TestInitAmongRealFormats: devices formatted by other tools are refused and not changed; after a forced init no tool
// recognises the old format. With FENCING_TEST_FORMATS=1 a missing tool is an error.
func TestInitAmongRealFormats(t *testing.T) {
	demanded := os.Getenv("FENCING_TEST_FORMATS") != ""
	if testing.Short() && !demanded {
		t.Skip("makes some forty formats")
	}
	for _, f := range realFormats {
		t.Run(f.name, func(t *testing.T) {
			file := diskquorumtest.File(t, cmp.Or(f.size, formatSize))
			dev := diskquorumtest.LoopDevice(t, file, 512)
			t.Cleanup(func() { _ = exec.Command("partx", "--delete", dev).Run() }) // partitions that a tool has announced to the kernel
			for _, c := range f.commands {
				args := strings.Fields(strings.ReplaceAll(c, "DEV", dev))
				if _, err := exec.LookPath(args[0]); err != nil {
					if demanded {
						t.Fatalf("%s is not installed: apt-get install %s", args[0], f.packages)
					}
					t.Skipf("%s is not installed", args[0])
				}
				if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", c, err, out)
				}
			}
			if f.build != nil {
				image := contents(t, file)
				f.build(image)
				if err := os.WriteFile(file, image, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := blkidType(t, file); got != f.blkid {
				t.Errorf("blkid says %q, want %q: is that the format?", got, f.blkid)
			}
			o := options(dev)
			before := contents(t, file)
			if r, err := Init(t.Context(), o); err == nil || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%+v, %v, want %q", r, err, f.want)
			}
			if !bytes.Equal(before, contents(t, file)) {
				t.Fatal("it was written")
			}
			o.Force = true
			if _, err := Init(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			onlyOurs(t, file)
		})
	}
}

// blkidType returns blkid's name for the contents of a device, or "".
func blkidType(t *testing.T, path string) string {
	t.Helper()
	if _, err := exec.LookPath("blkid"); err != nil {
		t.Skip("blkid is not installed")
	}
	for _, tag := range []string{"TYPE", "PTTYPE"} {
		out, _ := exec.Command("blkid", "--probe", "--output", "value", "--match-tag", tag, path).Output()
		if text := strings.TrimSpace(string(out)); text != "" {
			return text
		}
	}
	return ""
}

package lunadmin

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// scanWith scans a device of zeros after f has written on it.
func scanWith(t *testing.T, size int64, f func(image []byte)) []Finding {
	t.Helper()
	l := diskquorumtest.NewLUN(size, 1)
	l.Modify(f)
	found, err := scan(newImage(l.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestScanFindsEverySignature(t *testing.T) {
	if found := scanWith(t, 66*mib, func([]byte) {}); len(found) != 0 {
		t.Fatalf("on a blank device: %v", found)
	}
	for _, s := range signatures {
		for _, off := range s.offsets {
			size := max(5*mib, (off+mib)&^(mib-1)) // large enough for this offset
			if off < 0 {
				off += size
			}
			found := scanWith(t, size, func(image []byte) { copy(image[off:], s.magic) })
			if len(found) != 1 || found[0].Name != s.name || !slices.Equal(found[0].Offsets, []int64{off}) {
				t.Errorf("%s at %d: found %v", s.name, off, found)
			}
		}
	}
}

func TestScanSpecials(t *testing.T) {
	const size = 8*mib + 12<<10 // not a multiple of 64 KiB
	put := func(off int64, b ...byte) func([]byte) { return func(image []byte) { copy(image[off:], b) } }
	mbr := func(entry ...byte) func([]byte) {
		return func(image []byte) {
			copy(image[446+16:], entry)
			copy(image[510:], "\x55\xAA")
		}
	}
	slot := make([]byte, diskquorum.BlockSize)
	if err := diskquorum.EncodeSlot(slot, [16]byte{1}, &diskquorum.Slot{Index: 200, Sequence: 1}, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		f    func([]byte)
		want string
	}{
		{"partition", mbr(0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0), "MBR partition table"},
		{"no partition", mbr(), "boot sector"},
		{"no boot flag", mbr(0x12, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0), "boot sector"},
		{"md 1.0", put(8*mib+12<<10-8<<10, 0xFC, 0x4E, 0x2B, 0xA9), "mdraid member"},
		{"md 0.90", put(8*mib-64<<10, 0xFC, 0x4E, 0x2B, 0xA9), "mdraid member"},
		{"md 0.90 of a big-endian machine", put(8*mib-64<<10, 0xA9, 0x2B, 0x4E, 0xFC), "mdraid member"},
		{"zfs label 0", put(128<<10+7*1024, 0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0), "zfs pool member"},
		{"zfs label 1", put(256<<10+128<<10, 0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0), "zfs pool member"},
		{"zfs label 3", put(8*mib-1024, 0, 0, 0, 0, 0, 0xBA, 0xB1, 0x0C), "zfs pool member"},
		{"slots without superblock", put(diskquorum.SlotOffset(200, 1), slot...), "fencing-agent slots"},
	} {
		if found := scanWith(t, size, c.f); len(found) != 1 || found[0].Name != c.want {
			t.Errorf("%s: found %v", c.name, found)
		}
	}
}

func TestScanTinyAndOddDevices(t *testing.T) {
	for _, size := range []int64{0, 512, 4095, 4096, 5000, 100_000} {
		if found := scanWith(t, size, func([]byte) {}); len(found) != 0 {
			t.Errorf("%d bytes: %v", size, found)
		}
	}
}

func TestScanReportsReadErrors(t *testing.T) {
	d := diskquorumtest.NewLUN(mib, 1).Client()
	d.SetFaults(diskquorumtest.Dead())
	if _, err := scan(newImage(d)); err == nil {
		t.Error("a device that cannot be read has no signatures")
	}
}

// TestScanKnowsRealFormats runs the formatting programs that are installed.
func TestScanKnowsRealFormats(t *testing.T) {
	for _, c := range []struct {
		want, command string
	}{
		{"ext2/3/4 file system", "mkfs.ext4 -q -F"},
		{"ext2/3/4 file system", "mkfs.ext2 -q -F -b 1024"},
		{"swap area", "mkswap"},
		{"xfs file system", "mkfs.xfs -q -f"},
		{"btrfs file system", "mkfs.btrfs -q -f"},
		{"vfat file system", "mkfs.vfat"},
		{"vfat file system", "mkfs.vfat -F 32"},
		{"ntfs file system", "mkfs.ntfs -q -F"},
		{"LUKS volume", "cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /etc/hostname"},
		{"GPT partition table", "sgdisk -n 1:2048:4096"},
	} {
		args := strings.Fields(c.command)
		t.Run(c.command, func(t *testing.T) {
			program, err := exec.LookPath(args[0])
			if err != nil {
				t.Skipf("%s is not installed", args[0])
			}
			path := diskquorumtest.File(t, 320*mib)
			if out, err := exec.Command(program, append(args[1:], path)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			found, err := scan(newImage(dev))
			if err != nil || !slices.ContainsFunc(found, func(f Finding) bool { return f.Name == c.want }) {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}

func TestImageAt(t *testing.T) {
	l := diskquorumtest.NewLUN(imageHead+3*diskquorum.BlockSize+100, 1)
	l.Modify(func(image []byte) {
		for i := 0; i+8 <= len(image); i += 8 {
			binary.LittleEndian.PutUint64(image[i:], uint64(i))
		}
	})
	whole := l.Bytes()
	im := newImage(l.Client())
	for _, c := range []struct {
		off int64
		n   int
		ok  bool
	}{
		{0, 10, true}, {4090, 12, true}, {imageHead - 5, 9000, true}, {imageHead + 3*4096 - 8, 8, true},
		{imageHead + 3*4096 - 4, 8, false}, {imageHead + 3*4096, 1, false}, {-1, 1, false}, {1 << 40, 1, false},
	} {
		got := im.at(c.off, c.n)
		if c.ok && !bytes.Equal(got, whole[c.off:c.off+int64(c.n)]) || !c.ok && got != nil {
			t.Errorf("%d bytes at %d: %d bytes", c.n, c.off, len(got))
		}
	}
}

func TestKernelTables(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	swapfile, lunfile := filepath.Join(dir, "swap file"), filepath.Join(dir, "lun.img")
	write("swap file", "")
	write("lun.img", "")
	write("proc/self/mountinfo", "30 1 8:17 / /mnt/two\\040words rw,relatime shared:1 - ext4 /dev/none rw\nbroken line\n31 1 7:3 / /loop rw - ext4 none rw\n")
	write("proc/1/mountinfo", "30 1 8:17 / /mnt/two\\040words rw - ext4 /dev/none rw\n32 1 8:16 / /host rw - xfs none rw\n")
	write("proc/swaps", "Filename Type Size Used Priority\n"+strings.ReplaceAll(swapfile, " ", "\\040")+" file 1 0 -2\n")
	write("sys/dev/block/8:16/sdb1/partition", "1\n")
	write("sys/dev/block/8:16/sdb1/dev", "8:17\n")
	write("sys/dev/block/8:16/queue/rotational", "0\n")
	write("sys/dev/block/8:16/holders/dm-3/dm/name", "mpatha\n")
	write("sys/dev/block/8:17/holders/md0/size", "1\n")
	write("sys/block/loop3/loop/backing_file", lunfile+"\n")
	write("sys/block/loop3/dev", "7:3\n")
	write("sys/block/loop4/loop/backing_file", "/no/such/file\n")
	write("sys/dev/block/7:4/loop/backing_file", lunfile+"\n")
	k := kernel{proc: filepath.Join(dir, "proc"), sys: filepath.Join(dir, "sys")}

	for _, c := range []struct {
		got, want []string
	}{
		{k.users("8:16"), []string{"mounted at /host", "held by /dev/mapper/mpatha", "mounted at /mnt/two words", "held by /dev/md0"}},
		{k.users("8:17"), []string{"mounted at /mnt/two words", "held by /dev/md0"}},
		{k.users("8:32"), nil},
		{k.users("7:4"), []string{"mounted at /loop through /dev/loop3"}}, // a second loop device over the same file
		{k.users("7:3"), []string{"mounted at /loop"}},
		{k.fileUsers(swapfile, ""), []string{"in use as swap"}},
		{k.fileUsers(lunfile, ""), []string{"mounted at /loop through /dev/loop3"}},
		{k.fileUsers(lunfile, "7:3"), nil},
		{k.fileUsers("/no/such/file", ""), nil},
		{k.partitionNames("8:16"), []string{"sdb1"}},
		{kernel{proc: "/nowhere", sys: "/nowhere"}.users("8:16"), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

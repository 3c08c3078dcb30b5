package lunadmin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// TestInitRefusesWhatIsBehindTheFormat: the whole device must be empty, not only the area of the format. A refused
// device is not written, and a forced init leaves no recognisable signature.
func TestInitRefusesWhatIsBehindTheFormat(t *testing.T) {
	const size = 64 * mib
	drbd := func(b []byte, last int64) {
		copy(b[last:], "\x00\x00\x00\x00\x00\x01\xff\x98")
		copy(b[last+60:], "\x83\x74\x02\x6b")
	}
	for _, c := range []struct {
		name, want string
		size       int64
		f          func([]byte)
	}{
		{"DRBD metadata", "DRBD metadata at byte 67104828", size, func(b []byte) { drbd(b, size-4096) }},
		{"DRBD metadata of a device that is no multiple of a block", "DRBD metadata", size + 1536, func(b []byte) { drbd(b, size-4096) }},
		{"a sanlock resource at 3 MiB", "sanlock resource lease at byte 3145728", size, func(b []byte) { copy(b[3*mib:], "\x10\x20\x15\x06") }},
		{"a copy of LVM's metadata", "LVM2 metadata at byte 66060288", size, func(b []byte) { copy(b[size-mib+4:], " LVM2 x[5A%r0N*>") }},
		{"data from 1 MiB", unknownData + " at byte 1048576 (wipefs -n ", size, func(b []byte) { copy(b[mib:], "data") }},
		{"data in the last MiB", unknownData + " at byte 66060300", size, func(b []byte) { b[size-mib+12] = 1 }},
		{"the last byte", unknownData + " at byte 67108863", size, func(b []byte) { b[size-1] = 1 }},
		{"the last byte of an incomplete block", unknownData + " at byte 67109375", size + 512, func(b []byte) { b[size+511] = 1 }},
		{"a backup GPT alone", "GPT partition table at byte 67108352", size, func(b []byte) { copy(b[size-512:], "EFI PART") }},
		{"a backup GPT in an incomplete block", "GPT partition table at byte 67109888", size + 1536, func(b []byte) { copy(b[size+1024:], "EFI PART") }},
		{"the second superblock of nilfs2", "nilfs2 file system", size, func(b []byte) { copy(b[size-4096:], "\x02\x00\x00\x00\x00\x00\x34\x34") }},
		{"data in the middle", unknownData, size, func(b []byte) { copy(b[20*mib:], bytes.Repeat([]byte{7}, 2*mib)) }},
		{"the last two labels of ZFS", "zfs pool member", size, func(b []byte) {
			for _, label := range []int64{size - 512<<10, size - 256<<10} {
				for slot := range int64(128) {
					binary.LittleEndian.PutUint64(b[label+128<<10+slot*1024:], 0x00bab10c)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(diskquorumtest.File(t, c.size))
			image := contents(t, o.Path)
			c.f(image)
			if err := os.WriteFile(o.Path, image, 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := Init(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%+v, %v", r, err)
			}
			if !bytes.Equal(contents(t, o.Path), image) {
				t.Fatal("the device was written")
			}
			o.Force = true
			r, err := Init(t.Context(), o)
			if err != nil || len(r.Wiped) == 0 {
				t.Fatalf("forced: %+v, %v", r, err)
			}
			onlyOurs(t, o.Path)
			if !strings.HasPrefix(c.want, unknownData) && r.WipedBehind == 0 {
				t.Errorf("it does not say what it wiped: %+v", r)
			}
		})
	}
}

// onlyOurs checks that neither fencectl nor the installed standard tools recognise anything but this format.
func onlyOurs(t *testing.T, path string) {
	t.Helper()
	dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	im := newImage(dev)
	im.addRest(path)
	if found, err := scan(im); err != nil || len(found) != 1 || found[0].Name != "fencing-agent LUN" {
		t.Errorf("fencectl finds %v, %v", found, err)
	}
	for _, c := range []struct{ command, want string }{
		{"wipefs --no-act --noheadings --output TYPE", "PMBR"},
		{"blkid --probe --output value", "PMBR"},
	} {
		args := strings.Fields(c.command)
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("%s is not installed", args[0])
			continue
		}
		out, err := exec.Command(args[0], append(args[1:], path)...).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("%s: %q, %v, want %s alone", c.command, out, err, c.want)
		}
	}
}

// TestForcedInitLeavesOtherDataAlone: after the format, only recognised signatures and the last 128 KiB are
// overwritten.
func TestForcedInitLeavesOtherDataAlone(t *testing.T) {
	o := options(diskquorumtest.File(t, 64*mib))
	image := contents(t, o.Path)
	copy(image, "XFSB")
	for _, at := range []int64{mib, 20 * mib, 64*mib - mib} {
		copy(image[at:], "keep me")
	}
	image[64*mib-1] = 1
	if err := os.WriteFile(o.Path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Force = true
	r, err := Init(t.Context(), o)
	if err != nil || r.WipedBehind != diskquorum.BlockSize {
		t.Fatalf("%+v, %v", r, err)
	}
	image[64*mib-1] = 0
	if at := firstDifference(image[r.Bytes:], contents(t, o.Path)[r.Bytes:]); at >= 0 {
		t.Errorf("byte %d was written", r.Bytes+int64(at))
	}
}

// TestForcedInitWatchesAllThatItOverwrites: a program that writes where a signature will be wiped, far after the
// format, counts as alive, too.
func TestForcedInitWatchesAllThatItOverwrites(t *testing.T) {
	for name, at := range map[string]int64{"a signature": 256<<10 + 1372, "the end": 64*mib - 4096} {
		t.Run(name, func(t *testing.T) {
			o := options(diskquorumtest.File(t, 64*mib))
			dev, err := rawdev.Open(o.Path, rawdev.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			block := make([]byte, diskquorum.BlockSize)
			write := func(n byte) {
				copy(block[at%diskquorum.BlockSize:], "\x19\x01\x54\x19")
				block[0] = n
				if _, err := dev.WriteAt(block, at&^(diskquorum.BlockSize-1)); err != nil {
					t.Error(err)
				}
			}
			write(1)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for n := byte(2); ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						write(n)
					}
				}
			})
			o.Force, o.Watch = true, 20*time.Second // ends at the first change
			_, err = Init(t.Context(), o)
			close(stop)
			wg.Wait()
			if want := fmt.Sprintf("is alive: another program writes at byte %d", at&^(diskquorum.BlockSize-1)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if contents(t, o.Path)[diskquorum.BlockSize] != 0 {
				t.Error("it was formatted")
			}
		})
	}
}

// partitioned returns a loop device with two partitions that the kernel knows, and their device nodes.
func partitioned(t *testing.T) (disk string, parts [2]string) {
	t.Helper()
	disk = diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 64*mib), 512)
	for i, start := range []string{"2048", "65536"} {
		if out, err := exec.Command("addpart", disk, fmt.Sprint(i+1), start, "32768").CombinedOutput(); err != nil {
			t.Skipf("addpart: %v: %s", err, out)
		}
		parts[i] = fmt.Sprintf("%sp%d", disk, i+1)
		t.Cleanup(func() { _ = exec.Command("delpart", disk, fmt.Sprint(i+1)).Run() })
		if _, err := os.Stat(parts[i]); err != nil {
			t.Skipf("no node of the partition: %v", err)
		}
	}
	return disk, parts
}

// TestInitAsksForAllNamesOfTheDevice: init checks a disk, its partitions, and programs that have one of them open under
// any name.
func TestInitAsksForAllNamesOfTheDevice(t *testing.T) {
	disk, parts := partitioned(t)
	o := options(parts[0])
	if _, err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	lun := contents(t, disk)[:8*mib]
	refused := func(name, path, want string) {
		t.Helper()
		o := options(path)
		o.Force = true
		r := new(RefusedError)
		if _, err := Init(t.Context(), o); !errors.As(err, &r) || !r.Forced || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if !bytes.Equal(contents(t, disk)[:8*mib], lun) {
			t.Fatalf("%s: the device was written", name)
		}
	}
	agent := func(path string) *rawdev.Device {
		t.Helper()
		dev, err := rawdev.Open(path, rawdev.Options{})
		if err == nil {
			err = dev.LockSlot(2)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dev.Close() }) // an open partition cannot be removed
		return dev
	}
	dev := agent(parts[0])
	refused("an agent on a partition", disk, parts[0]+": another process on this host uses it")
	_ = dev.Close()
	dev = agent(disk)
	refused("an agent on the disk", parts[0], disk+": another process on this host uses it")
	_ = dev.Close()

	other := filepath.Join(t.TempDir(), "node") // like the device node in a container
	if out, err := exec.Command("cp", "-a", parts[0], other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	holder := exec.Command("sh", "-c", `exec 3<>"$0" && echo open && exec sleep infinity`, other)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // otherwise the partition cannot be removed
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Skipf("a node in a directory of the test cannot be opened: %v", err)
	}
	refused("a program that has a partition open", disk, "open for writing by ")
	refused("the same, by the partition", parts[0], fmt.Sprintf("(process %d)", holder.Process.Pid))
	reader := exec.Command("sleep", "infinity")
	if reader.Stdin, err = os.Open(parts[1]); err == nil {
		err = reader.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = reader.Process.Kill()
		_ = reader.Wait()
		_ = reader.Stdin.(*os.File).Close()
	})
	o = options(parts[1]) // neither another partition of the disk nor a reading program prevents this
	if _, err := Init(t.Context(), o); err != nil {
		t.Errorf("the other partition: %v", err)
	}
}

// TestInitAsksForTheFileOfALoopDevice: a loop device and its file are one storage, so init checks both, in either
// direction.
func TestInitAsksForTheFileOfALoopDevice(t *testing.T) {
	file := diskquorumtest.File(t, 16*mib)
	loop := diskquorumtest.LoopDevice(t, file, 512)
	for _, c := range []struct{ opened, formatted string }{{file, loop}, {loop, file}} {
		held, err := os.OpenFile(c.opened, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		holder := exec.Command("sleep", "infinity")
		holder.Stdin = held
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = Init(t.Context(), options(c.formatted))
		_ = holder.Process.Kill()
		_ = holder.Wait()
		_ = held.Close()
		if want := fmt.Sprintf("open for writing by sleep (process %d)", holder.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is open, %s is formatted: %v, want %q", c.opened, c.formatted, err, want)
		}
		if firstNonZero(contents(t, file)) >= 0 {
			t.Fatal("it was written")
		}
	}
}

// TestForcedInitOfADiskWatchesItsPartitions: the locks of agents on another host are not visible.
func TestForcedInitOfADiskWatchesItsPartitions(t *testing.T) {
	disk, parts := partitioned(t)
	r, err := Init(t.Context(), options(parts[1])) // beyond the area that is read completely
	if err != nil {
		t.Fatal(err)
	}
	lun := diskquorumtest.NewLUN(diskquorum.DeviceSize(8), 1)
	put := func(sequence uint64) {
		s := diskquorum.Slot{Index: 5, State: diskquorum.SlotActive, Sequence: sequence, NodeName: "node-5", HeartbeatInterval: 20 * time.Millisecond}
		b := make([]byte, diskquorum.BlockSize)
		if err := diskquorum.EncodeSlot(b, r.Superblock.ID, &s, int(sequence%2)); err != nil {
			t.Error(err)
		}
		lun.Modify(func(image []byte) { copy(image[diskquorum.SlotOffset(5, int(sequence%2)):], b) })
	}
	// The writes of another host are simulated through the file of the loop device.
	name, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(disk), "loop/backing_file"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := rawdev.Open(strings.TrimSpace(string(name)), rawdev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for sequence := uint64(1); ; sequence++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			put(sequence)
			off := diskquorum.SlotOffset(5, int(sequence%2))
			if _, err := file.WriteAt(lun.Bytes()[off:off+diskquorum.BlockSize], 65536*512+off); err != nil {
				t.Error(err)
			}
		}
	})
	o := options(disk)
	o.Force, o.Watch = true, 20*time.Second
	_, err = Init(t.Context(), o)
	close(stop)
	wg.Wait()
	if want := "slot 5 in partition " + filepath.Base(parts[1]); err == nil || !strings.Contains(err.Error(), "is alive: ") || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestRelativesInSysfs uses the sysfs of a machine with multipath, partitions on it, and the devices below it.
func TestRelativesInSysfs(t *testing.T) {
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
	link := func(number, to string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "sys/dev/block"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "sys/devices", to), filepath.Join(dir, "sys/dev/block", number)); err != nil {
			t.Fatal(err)
		}
	}
	for number, to := range map[string]string{"8:0": "sda", "8:1": "sda/sda1", "8:16": "sdb", "253:0": "dm-0", "253:1": "dm-1"} {
		write("sys/devices/"+to+"/dev", number+"\n")
		write("sys/devices/"+to+"/uevent", "MAJOR=1\nDEVNAME="+filepath.Base(to)+"\n")
		link(number, to)
	}
	write("sys/devices/sda/sda1/partition", "1\n")
	write("sys/devices/sda/holders/dm-0/dm/name", "fence\n")
	write("sys/devices/sdb/holders/dm-0/dm/name", "fence\n")
	write("sys/devices/dm-0/slaves/sda/dev", "8:0\n")
	write("sys/devices/dm-0/slaves/sdb/dev", "8:16\n")
	write("sys/devices/dm-0/holders/dm-1/dm/name", "fence-part1\n")
	write("sys/devices/dm-1/slaves/dm-0/dev", "253:0\n")
	k := kernel{proc: filepath.Join(dir, "proc"), sys: filepath.Join(dir, "sys")}
	join := func(ds []devno) (out []string) {
		for _, d := range ds {
			out = append(out, string(d))
		}
		return out
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"one path of a multipath device", k.users("8:0"), []string{"held by /dev/mapper/fence"}},
		{"a partition of such a path", k.users("8:1"), []string{"held by /dev/mapper/fence"}},
		{"the multipath device, of which a partition is mapped", k.users("253:0"), []string{"held by /dev/mapper/fence-part1"}},
		{"that partition", k.users("253:1"), nil},
		{"below it", join(k.below("253:1")), []string{"253:0", "8:0", "8:16"}},
		{"below a partition", join(k.below("8:1")), []string{"8:0"}},
		{"its node", []string{k.node("8:1"), k.node("9:9")}, []string{"/dev/sda1", ""}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

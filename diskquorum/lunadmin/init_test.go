package lunadmin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

func options(path string) InitOptions {
	return InitOptions{Path: path, Cluster: "main", NodeGroup: "worker", Slots: 8, Watch: 30 * time.Millisecond}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkFormatted checks that Init has left two equal superblocks and otherwise zeros.
func checkFormatted(t *testing.T, r *InitResult, image []byte) {
	t.Helper()
	sb, err := diskquorum.ReadSuperblock(image)
	if err != nil || sb != r.Superblock || sb.Cluster != "main" || sb.NodeGroup != "worker" {
		t.Errorf("superblock %+v, %v", sb, err)
	}
	for which := range 2 {
		if _, err := diskquorum.DecodeSuperblock(image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which); err != nil {
			t.Error(err)
		}
	}
	if at := firstNonZero(image[2*diskquorum.BlockSize : diskquorum.DeviceSize(sb.Slots)]); at >= 0 {
		t.Errorf("byte %d behind the superblocks is not zero", at)
	}
}

func TestInitBlankFile(t *testing.T) {
	path := diskquorumtest.File(t, mib)
	r, err := Init(t.Context(), options(path))
	if err != nil {
		t.Fatal(err)
	}
	checkFormatted(t, r, contents(t, path))
	if r.Kind != "regular file" || r.Bytes != diskquorum.DeviceSize(8) || len(r.Wiped) != 0 || len(r.Warnings) != 1 {
		t.Errorf("result %+v", r)
	}
	again, err := Init(t.Context(), InitOptions{Path: path, Cluster: "other", NodeGroup: "g", Slots: 8})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Forced || !strings.Contains(err.Error(), "cluster main, node group worker, 8 slots") {
		t.Errorf("second init: %+v, %v", again, err)
	}
}

func TestInitRefusesAndWritesNothing(t *testing.T) {
	dir := diskquorumtest.DirectDir(t)
	for _, c := range []struct {
		name, want string
		forceable  bool
		size       int64
		f          func(*InitOptions, []byte)
	}{
		{"partition table", "GPT partition table at byte 512", true, mib, func(_ *InitOptions, b []byte) { copy(b[512:], "EFI PART") }},
		{"sbd", "sbd device", true, mib, func(_ *InitOptions, b []byte) { copy(b, "SBD_SBD_") }},
		{"unknown data", "data of an unknown format at byte 70000", true, mib, func(_ *InitOptions, b []byte) { b[70000] = 1 }},
		{"two things", "xfs file system at byte 0, LVM2 physical volume at byte 512", true, mib, func(_ *InitOptions, b []byte) {
			copy(b, "XFSB")
			copy(b[512:], "LABELONE")
		}},
		{"too small", "is too small: 110591 bytes, 8 slots need 110592; nothing was written; enlarge it to at least 110592 bytes, or use --slots 7", false, diskquorum.DeviceSize(8) - 1, nil},
		{"far too small", "enlarge it to at least 110592 bytes; fewer slots need less, 2 slots only 36864", false, 100, nil},
		{"one slot", "slots: 1 is out of range", false, mib, func(o *InitOptions, _ []byte) { o.Slots = 1 }},
		{"no cluster", "cluster name: it has 0 bytes", false, mib, func(o *InitOptions, _ []byte) { o.Cluster = "" }},
		{"exists", "it exists already", false, mib, func(o *InitOptions, _ []byte) { o.Create = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")))
			image := make([]byte, c.size)
			if c.f != nil {
				c.f(&o, image)
			}
			if err := os.WriteFile(o.Path, image, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, o.Force = range []bool{false, true} {
				if o.Force && c.forceable {
					continue
				}
				if r, err := Init(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("force %v: %+v, %v", o.Force, r, err)
				}
				if !bytes.Equal(contents(t, o.Path), image) {
					t.Fatalf("force %v: the device was written", o.Force)
				}
			}
			if !c.forceable {
				return
			}
			r, err := Init(t.Context(), o)
			if err != nil || len(r.Wiped) == 0 {
				t.Fatalf("forced: %+v, %v", r, err)
			}
			checkFormatted(t, r, contents(t, o.Path))
		})
	}
}

// TestForcedInitWipesAllSignatures: no signature that the scan finds is left, not even after the format and at the end
// of the device.
func TestForcedInitWipesAllSignatures(t *testing.T) {
	path := diskquorumtest.File(t, 4*mib)
	image := contents(t, path)
	copy(image[512:], "EFI PART")
	copy(image[4*mib-512:], "EFI PART")
	copy(image[2*mib:], "\x5E\xF1\xAB\x2F")
	copy(image[3*mib:], "keep me")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(path)
	o.Force = true
	r, err := Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	checkFormatted(t, r, contents(t, path))
	l := diskquorumtest.NewLUN(4*mib, 1)
	l.Modify(func(b []byte) { copy(b, contents(t, path)) })
	if found, err := scan(newImage(l.Client())); err != nil || len(found) != 1 || found[0].Name != "fencing-agent LUN" {
		t.Errorf("found %v, %v", found, err)
	}
	if !bytes.HasPrefix(contents(t, path)[3*mib:], []byte("keep me")) {
		t.Error("data that is no signature and not in the way was written")
	}
}

// TestForcedInitShrinks: the slots of a larger earlier format are gone, too.
func TestForcedInitShrinks(t *testing.T) {
	path := diskquorumtest.File(t, mib)
	o := options(path)
	o.Slots = 64
	if _, err := Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	image := contents(t, path)
	image[diskquorum.SlotOffset(63, 1)] = 1
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Slots, o.Force = 4, true
	r, err := Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	checkFormatted(t, r, contents(t, path))
	if at := firstNonZero(contents(t, path)[2*diskquorum.BlockSize:]); at >= 0 {
		t.Errorf("byte %d is left of the larger format", at)
	}
}

func TestInitCreate(t *testing.T) {
	dir := diskquorumtest.DirectDir(t)
	o := options(filepath.Join(dir, "new"))
	if _, err := Init(t.Context(), o); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--create") {
		t.Errorf("missing file: %v", err)
	}
	o.Create = true
	r, err := Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if image := contents(t, o.Path); int64(len(image)) != diskquorum.DeviceSize(8) {
		t.Errorf("%d bytes", len(image))
	} else {
		checkFormatted(t, r, image)
	}
	o.Path = "/dev/fencing-agent-test-lun"
	if _, err := Init(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in /dev") {
		t.Errorf("in /dev: %v", err)
	}
	o.Path = filepath.Join(dir, "cancelled")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Init(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := os.Stat(o.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a failed init left the file that it had created")
	}
}

// TestInitRefusesALiveCluster: a slot that is being written cannot be forced away.
func TestInitRefusesALiveCluster(t *testing.T) {
	path := diskquorumtest.File(t, mib)
	r, err := Init(t.Context(), options(path))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := rawdev.Open(path, rawdev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	write := func(sequence uint64) {
		s := diskquorum.Slot{Index: 5, State: diskquorum.SlotActive, Sequence: sequence, NodeName: "node-5", HeartbeatInterval: 20 * time.Millisecond}
		b := make([]byte, diskquorum.BlockSize)
		if err := diskquorum.EncodeSlot(b, r.Superblock.ID, &s, int(sequence%2)); err != nil {
			t.Error(err)
		}
		if _, err := dev.WriteAt(b, diskquorum.SlotOffset(5, int(sequence%2))); err != nil {
			t.Error(err)
		}
	}
	write(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for sequence := uint64(2); ; sequence++ {
			select {
			case <-tick.C:
				write(sequence)
			case <-stop:
				return
			}
		}
	})
	o := options(path)
	o.Force, o.Watch = true, 20*time.Second // ends at the first change
	_, err = Init(t.Context(), o)
	close(stop)
	wg.Wait()
	var refused *RefusedError
	if !errors.As(err, &refused) || !refused.Forced || !strings.Contains(err.Error(), "is alive: node-5 writes slot 5") {
		t.Errorf("forced init of a live LUN: %v", err)
	}
	before := sha256.Sum256(contents(t, path)[:diskquorum.SlotOffset(5, 0)])
	if _, err := diskquorum.ReadSuperblock(contents(t, path)); err != nil {
		t.Errorf("the superblock is gone: %v", err)
	}

	// The agent on this host is stopped, but still has the slot's lock.
	if err := dev.LockSlot(5); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(t.Context(), o); !errors.As(err, &refused) || !refused.Forced || !strings.Contains(err.Error(), "another process on this host") {
		t.Errorf("forced init of a locked LUN: %v", err)
	}
	if sha256.Sum256(contents(t, path)[:diskquorum.SlotOffset(5, 0)]) != before {
		t.Error("a refused init has written")
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	o.Watch = 30 * time.Millisecond
	if _, err := Init(t.Context(), o); err != nil {
		t.Errorf("forced init of a dead LUN: %v", err)
	}
}

func TestInitRefusesWhatIsMounted(t *testing.T) {
	file := diskquorumtest.File(t, 16*mib)
	loop := diskquorumtest.LoopDevice(t, file, 512)
	if out, err := exec.Command("mkfs.ext4", "-q", loop).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	dir := t.TempDir()
	if err := unix.Mount(loop, dir, "ext4", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	before := sha256.Sum256(contents(t, file))
	for path, want := range map[string]string{loop: "mounted at " + dir + ";", file: "mounted at " + dir + " through " + loop} {
		o := options(path)
		o.Force = true
		if _, err := Init(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		o.kernel = kernel{proc: "/nowhere", sys: "/nowhere"} // like a container without /proc and /sys of the host
		if path == loop {
			if _, err := Init(t.Context(), o); !errors.Is(err, unix.EBUSY) {
				t.Errorf("%s, seen from a container: %v", path, err)
			}
		}
	}
	if sha256.Sum256(contents(t, file)) != before {
		t.Error("a mounted device was written")
	}
}

func TestInitLoopDevices(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		file := diskquorumtest.File(t, mib)
		loop := diskquorumtest.LoopDevice(t, file, sector)
		r, err := Init(t.Context(), options(loop))
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != "loop device" || len(r.Warnings) != 1 {
			t.Errorf("result %+v", r)
		}
		checkFormatted(t, r, contents(t, file))
	}
}

// recorder records the offsets of writes.
type recorder struct {
	diskquorum.Device
	offsets []int64
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	r.offsets = append(r.offsets, off)
	return r.Device.WriteAt(p, off)
}

func formatterOn(dev diskquorum.Device) *formatter {
	sb := &diskquorum.Superblock{ID: [16]byte{1}, Cluster: "c", NodeGroup: "g", Slots: diskquorum.MaxSlots}
	return &formatter{o: &InitOptions{Path: "lun", Progress: func(string) {}}, dev: dev, sb: sb, end: diskquorum.DeviceSize(diskquorum.MaxSlots)}
}

func TestFormatWritesSuperblocksLast(t *testing.T) {
	r := &recorder{Device: diskquorumtest.NewLUN(4*mib, 1).Client()}
	if err := formatterOn(r).format(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := len(r.offsets)
	if n != 5 || r.offsets[0] != 0 || r.offsets[n-2] != 0 || r.offsets[n-1] != diskquorum.BlockSize {
		t.Errorf("wrote at %v", r.offsets)
	}
}

// TestFormatInterrupted: no matter which write is the last one, no agent accepts the device, except if both superblocks
// or the complete first one were written.
func TestFormatInterrupted(t *testing.T) {
	for last := range 5 {
		l := diskquorumtest.NewLUN(4*mib, 1)
		dev := l.Client()
		f := formatterOn(&failing{Device: dev, after: last})
		old := *f.sb
		old.ID = [16]byte{9}
		l.Modify(func(image []byte) {
			for which := range 2 {
				_ = diskquorum.EncodeSuperblock(image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], &old, which)
			}
			image[diskquorum.SlotOffset(3, 0)] = 1
		})
		if err := f.format(t.Context()); err == nil {
			t.Fatal("no error")
		}
		image := l.Bytes()
		sb, err := diskquorum.ReadSuperblock(image)
		switch {
		case last == 0 && (err != nil || sb.ID != old.ID):
			t.Errorf("before the first write: %v", err)
		case last > 0 && last < 4 && err == nil:
			t.Errorf("after %d writes the LUN has a superblock", last)
		case last == 4 && (err != nil || sb.ID != f.sb.ID || firstNonZero(image[2*diskquorum.BlockSize:]) >= 0):
			t.Errorf("after superblock A: %v", err)
		}
	}
}

type failing struct {
	diskquorum.Device
	after int
}

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.after--; f.after < 0 {
		return 0, unix.EIO
	}
	return f.Device.WriteAt(p, off)
}

func TestFormatNoticesLostWrites(t *testing.T) {
	l := diskquorumtest.NewLUN(4*mib, 1)
	dev := l.Client()
	dev.SetFaults(diskquorumtest.Faults{LostWrite: 1})
	if err := formatterOn(dev).format(t.Context()); err == nil || !strings.Contains(err.Error(), "reads back differently") {
		t.Errorf("error %v", err)
	}
}

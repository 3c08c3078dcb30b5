package lab

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"
)

const lunSize = 1 << 20

func TestLUNFile(t *testing.T) {
	lun, err := NewLUNFile(t.TempDir(), lunSize)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(lun.Path)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) != lunSize || len(bytes.Trim(content, "\x00")) > 0 {
		t.Errorf("new LUN has %d bytes, all zero %v; want %d zeros", len(content), len(bytes.Trim(content, "\x00")) == 0, lunSize)
	}
	if err := lun.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(lun.Path)); !os.IsNotExist(err) {
		t.Errorf("folder of the closed LUN: %v, want it gone", err)
	}
}

func TestLUNFileGoesElsewhereAndSaysWhatItTried(t *testing.T) {
	lun, err := NewLUNFile("/proc", lunSize)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(lun.Path, "/proc") {
		t.Errorf("LUN in %s", lun.Path)
	}
	lun.Close()
	_, err = NewLUNFile(t.TempDir(), 1<<60)
	if err == nil || !strings.Contains(err.Error(), os.TempDir()) || !strings.Contains(err.Error(), "/var/tmp") {
		t.Errorf("LUN larger than any disk: %v; want an error with all folders tried", err)
	}
	t.Log(err)
	if _, err := NewLUNFile(t.TempDir(), 1000); err == nil {
		t.Error("LUN of 1000 bytes: no error")
	}
}

func TestLoopDevicesShareTheirData(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		lun, err := NewLUNFile(t.TempDir(), lunSize)
		if err != nil {
			t.Fatal(err)
		}
		set, err := LoopDevices(lun.Path, 3, sector)
		if err != nil {
			if os.Getuid() == 0 && !InUserNamespace() && !strings.Contains(err.Error(), "not available") {
				t.Fatal(err)
			}
			t.Skipf("no loop devices: %v", err)
		}
		t.Cleanup(func() { set.Close(); lun.Close() })
		t.Logf("sectors of %d bytes: %v", sector, set.Paths)
		checkShared(t, set.Paths, sector)
		if err := set.Close(); err != nil {
			t.Error(err)
		}
		for _, path := range set.Paths {
			eventually(t, path+" is detached", func() bool {
				backing, err := os.ReadFile("/sys/block/" + filepath.Base(path) + "/loop/backing_file")
				return err != nil || !strings.HasPrefix(string(backing), lun.Path)
			})
		}
	}
}

// The last user of a device has told the kernel of partitions, and has detached the device. To the next user the device
// is blank.
func TestLoopDeviceDropsItsLastUsersPartitions(t *testing.T) {
	lun, err := NewLUNFile(t.TempDir(), lunSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lun.Close() })
	out, err := exec.Command("losetup", "--find", "--show", lun.Path).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	last := strings.TrimSpace(string(out))
	told := exec.Command("addpart", last, "1", "8", "8").Run()
	if err := exec.Command("losetup", "--detach", last).Run(); err != nil {
		t.Fatal(err)
	}
	if told != nil {
		t.Skipf("no partitions on %s: %v", last, told)
	}
	set, err := LoopDevices(lun.Path, 1, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	if set.Paths[0] != last {
		t.Skipf("another program took %s", last)
	}
	if left, _ := filepath.Glob(filepath.Join("/sys/block", filepath.Base(last), "loop*p*")); len(left) > 0 {
		t.Errorf("%s still has %v", last, left)
	}
}

// checkShared writes one sector through each device and reads it through all devices.
func checkShared(t *testing.T, paths []string, sector int) {
	t.Helper()
	var devices []*os.File
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET); err != nil || got != sector {
			t.Errorf("%s: sector size %d, %v; want %d", path, got, err, sector)
		}
		devices = append(devices, f)
	}
	want, got := directio.AlignedBlock(sector), directio.AlignedBlock(sector)
	for round := range 20 {
		for i, writer := range devices {
			for k := range want {
				want[k] = byte(round*31 + i*7 + k)
			}
			offset := int64(sector * (3 + i))
			if _, err := writer.WriteAt(want, offset); err != nil {
				t.Fatal(err)
			}
			for j, reader := range devices {
				if _, err := reader.ReadAt(got, offset); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("round %d: %s does not read what %s wrote", round, paths[j], paths[i])
				}
			}
		}
	}
}

func TestLoopDeviceErrors(t *testing.T) {
	if _, err := LoopDevices("/dev/null", 1, 1000); err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("odd sector size: %v", err)
	}
	if _, err := LoopDevices(filepath.Join(t.TempDir(), "absent"), 1, 512); err == nil {
		t.Error("absent file: no error")
	}
}

package rawdev

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree makes files, with their content, and symbolic links ("-> target") below a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(filepath.Join(root, target), path)
		} else {
			err = os.WriteFile(path, []byte(content+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// storage is a machine with two iSCSI paths to a multipath device 253:3, and a FC disk 8:64.
func storage(edit map[string]string) map[string]string {
	files := map[string]string{
		"sys/dev/block/253:3":                                               "-> sys/devices/virtual/block/dm-3",
		"sys/devices/virtual/block/dm-3/dm/uuid":                            "mpath-3600a0b80",
		"sys/devices/virtual/block/dm-3/dm/name":                            "fence",
		"sys/devices/virtual/block/dm-3/slaves/sdb":                         "-> sys/devices/host1/session7/target1/1:0:0:1/block/sdb",
		"sys/devices/virtual/block/dm-3/slaves/sdc":                         "-> sys/devices/host2/session8/target2/2:0:0:1/block/sdc",
		"sys/devices/host1/session7/target1/1:0:0:1/timeout":                "5",
		"sys/devices/host1/session7/target1/1:0:0:1/wwid":                   "naa.600a0b80",
		"sys/devices/host1/session7/target1/1:0:0:1/block/sdb/device":       "-> sys/devices/host1/session7/target1/1:0:0:1",
		"sys/devices/host1/session7/target1/1:0:0:1/block/sdb/holders/dm-3": "-> sys/devices/virtual/block/dm-3",
		"sys/devices/host2/session8/target2/2:0:0:1/timeout":                "5",
		"sys/devices/host2/session8/target2/2:0:0:1/block/sdc/device":       "-> sys/devices/host2/session8/target2/2:0:0:1",
		"sys/class/iscsi_session/session7/recovery_tmo":                     "5",
		"sys/class/iscsi_session/session8/recovery_tmo":                     "5",
		"sys/dev/block/8:16":                                                "-> sys/devices/host1/session7/target1/1:0:0:1/block/sdb",
		"sys/dev/block/8:64":                                                "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde",
		"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde/device":    "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1",
		"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/timeout":             "5",
		"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo":            "5",
		"dev/sde": "", "dev/disk/by-id/wwn-0x5": "-> dev/sde", "dev/disk/by-id/other": "-> dev/sdb", "dev/sdb": "",
	}
	for name, content := range edit {
		files[name] = content
	}
	return files
}

func TestAdvice(t *testing.T) {
	const quiet = "1 retain_attached_hw_handler 1 alua 2 1 service-time 0 1 2 8:16 1 1"
	for _, c := range []struct {
		name, path string
		number     uint64
		edit       map[string]string
		table      string
		want       []string // parts, one of each advice in order
	}{
		{"all is well", "/dev/mapper/fence", unix.Mkdev(253, 3), nil, quiet, nil},
		{"queues", "/dev/mapper/fence", unix.Mkdev(253, 3), nil, "2 queue_if_no_path retain_attached_hw_handler 0 1", []string{"no_path_retry fail"}},
		{"slow sessions", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/class/iscsi_session/session7/recovery_tmo": "120", "sys/class/iscsi_session/session8/recovery_tmo": "-1"},
			quiet, []string{"session7 of sdb reports a lost target after 120 s: set node.session.timeo.replacement_timeout = 5", "session8 of sdc reports a lost target after never"}},
		{"slow commands", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/devices/host2/session8/target2/2:0:0:1/timeout": "30"}, quiet,
			[]string{"SCSI commands to sdc time out after 30 s: echo 5 > /sys/block/sdc/device/timeout"}},
		{"name of the kernel", "/dev/dm-3", unix.Mkdev(253, 3), nil, quiet, []string{"use /dev/mapper/fence"}},
		{"one path of several", "/dev/disk/by-id/x", unix.Mkdev(8, 16), nil, quiet, []string{"is one path of the multipath device /dev/mapper/fence"}},
		{"FC, named by the kernel", "DEV/sde", unix.Mkdev(8, 64), nil, "", []string{"use /dev/disk/by-id/wwn-0x5"}},
		{"FC, off", "/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64), map[string]string{"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "off"}, "", []string{"fast_io_fail_tmo off): set fast_io_fail_tmo 5"}},
		{"FC, slow", "/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64), map[string]string{"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "60"}, "", []string{"fast_io_fail_tmo 60)"}},
		{"nothing known", "/dev/disk/by-id/x", unix.Mkdev(9, 9), nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, storage(c.edit))
			h := host{sys: filepath.Join(root, "sys"), dev: filepath.Join(root, "dev"), table: func(uint64) (string, error) { return c.table, nil }}
			got := h.advice(strings.Replace(c.path, "DEV", h.dev, 1), c.number)
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("advice %q, want %q", got, c.want)
			}
		})
	}
	root := tree(t, storage(nil))
	h := host{sys: filepath.Join(root, "sys"), table: func(uint64) (string, error) { return "", errors.New("not root") }}
	got := h.advice("/dev/mapper/fence", unix.Mkdev(253, 3))
	if len(got) != 1 || !strings.Contains(got[0], "could not be checked (not root)") || !strings.Contains(got[0], "dmsetup table fence") {
		t.Errorf("a table that cannot be read: %q", got)
	}
	if got := h.advice("/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64)); len(got) != 0 {
		t.Errorf("a device without multipath, which has no table: %q", got)
	}
}

// Guard: a path that multipath takes over is no other device.
func TestWWIDIsTheSameWithMultipath(t *testing.T) {
	for uuid, want := range map[string]string{
		"": "naa.600a0b80", "mpath-3600a0b80": "naa.600a0b80", "mpath-20025385": "eui.0025385", "mpath-1QEMU disk": "", "LVM-x1": "LVM-x1",
	} {
		root := tree(t, storage(map[string]string{"sys/devices/virtual/block/dm-3/dm/uuid": uuid}))
		h := host{sys: filepath.Join(root, "sys")}
		number := unix.Mkdev(253, 3)
		if uuid == "" {
			number = unix.Mkdev(8, 16)
		}
		if got := h.wwid(number); got != want {
			t.Errorf("uuid %q: wwid %q, want %q", uuid, got, want)
		}
	}
	if got := (host{sys: filepath.Join(tree(t, storage(nil)), "sys")}).wwid(unix.Mkdev(9, 9)); got != "" {
		t.Errorf("wwid %q of a device that sysfs does not know", got)
	}
}

func TestMultipathFeatures(t *testing.T) {
	for params, want := range map[string][]string{
		"": nil, "x": nil, "0 1 1": {}, "1 queue_if_no_path": {"queue_if_no_path"}, "3 a b": nil, "-1 a": nil,
	} {
		if got := multipathFeatures(params); !slices.Equal(got, want) {
			t.Errorf("%q: %q", params, got)
		}
	}
}

// What the kernel answers is followed with care: offsets that lead nowhere end it.
func TestTargetParams(t *testing.T) {
	const size = int(unsafe.Sizeof(unix.DmTargetSpec{}))
	data := make([]byte, 256)
	(*unix.DmTargetSpec)(unsafe.Pointer(&data[0])).Next = 128
	copy(data[size:], "1 queue_if_no_path\x00rest")
	copy(data[128+size:], "second\x00")
	if got := targetParams(data, 2); got != "1 queue_if_no_path\nsecond" {
		t.Errorf("%q", got)
	}
	(*unix.DmTargetSpec)(unsafe.Pointer(&data[0])).Next = 1 << 31
	if got := targetParams(data, 9); got != "1 queue_if_no_path" {
		t.Errorf("%q", got)
	}
	if got := targetParams(nil, 1); got != "" {
		t.Errorf("%q", got)
	}
}

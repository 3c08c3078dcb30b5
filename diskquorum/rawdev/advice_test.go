package rawdev

import (
	"errors"
	"maps"
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

// storage is a machine with two iSCSI paths to a multipath device 253:3, which has a logical volume 253:9, an FC disk
// 8:64 with a partition 8:65, and two NVMe namespaces: 259:1 with two controllers, 259:2 with one and no multipath.
func storage(edit map[string]string) map[string]string {
	files := map[string]string{
		"sys/dev/block/253:3":                                                    "-> sys/devices/virtual/block/dm-3",
		"sys/devices/virtual/block/dm-3/dm/uuid":                                 "mpath-3600a0b80",
		"sys/devices/virtual/block/dm-3/dm/name":                                 "fence",
		"sys/devices/virtual/block/dm-3/slaves/sdb":                              "-> sys/devices/host1/session7/target1/1:0:0:1/block/sdb",
		"sys/devices/virtual/block/dm-3/slaves/sdc":                              "-> sys/devices/host2/session8/target2/2:0:0:1/block/sdc",
		"sys/devices/host1/session7/target1/1:0:0:1/timeout":                     "5",
		"sys/devices/host1/session7/target1/1:0:0:1/wwid":                        "naa.600a0b80",
		"sys/devices/host1/session7/target1/1:0:0:1/block/sdb/device":            "-> sys/devices/host1/session7/target1/1:0:0:1",
		"sys/devices/host1/session7/target1/1:0:0:1/block/sdb/holders/dm-3":      "-> sys/devices/virtual/block/dm-3",
		"sys/devices/host2/session8/target2/2:0:0:1/timeout":                     "5",
		"sys/devices/host2/session8/target2/2:0:0:1/block/sdc/device":            "-> sys/devices/host2/session8/target2/2:0:0:1",
		"sys/class/iscsi_session/session7/recovery_tmo":                          "5",
		"sys/class/iscsi_session/session8/recovery_tmo":                          "5",
		"sys/dev/block/8:16":                                                     "-> sys/devices/host1/session7/target1/1:0:0:1/block/sdb",
		"sys/dev/block/8:64":                                                     "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde",
		"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde/device":         "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1",
		"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/timeout":                  "5",
		"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo":                 "5",
		"sys/class/iscsi_connection/connection7:0/recv_tmo":                      "1",
		"sys/class/iscsi_connection/connection7:0/ping_tmo":                      "2",
		"sys/class/iscsi_connection/connection8:0/recv_tmo":                      "1",
		"sys/class/iscsi_connection/connection8:0/ping_tmo":                      "2",
		"sys/devices/virtual/block/dm-3/dev":                                     "253:3",
		"sys/dev/block/253:9":                                                    "-> sys/devices/virtual/block/dm-9",
		"sys/devices/virtual/block/dm-9/dm/uuid":                                 "LVM-x1",
		"sys/devices/virtual/block/dm-9/dm/name":                                 "vg-fence",
		"sys/devices/virtual/block/dm-9/slaves/dm-3":                             "-> sys/devices/virtual/block/dm-3",
		"sys/dev/block/8:65":                                                     "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde/sde1",
		"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde/sde1/partition": "1",
		"sys/dev/block/259:1":                                                    "-> sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
		"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/device":         "-> sys/devices/virtual/nvme-subsystem/nvme-subsys0",
		"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/wwid":           "uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0":                  "-> sys/devices/virtual/nvme-fabrics/ctl/nvme0",
		"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme1":                  "-> sys/devices/virtual/nvme-fabrics/ctl/nvme1",
		"sys/dev/block/259:2":                                                    "-> sys/devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1",
		"sys/devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1/device":              "-> sys/devices/virtual/nvme-fabrics/ctl/nvme2",
		"dev/nvme0n1": "", "dev/disk/by-id/nvme-Linux_1234": "-> dev/nvme0n1", "dev/disk/by-id/nvme-uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8": "-> dev/nvme0n1",
		"dev/sde": "", "dev/disk/by-id/wwn-0x5": "-> dev/sde", "dev/disk/by-id/other": "-> dev/sdb", "dev/sdb": "",
	}
	for _, name := range []string{"nvme0", "nvme1", "nvme2"} {
		for file, content := range map[string]string{"transport": "tcp", "kato": "2", "fast_io_fail_tmo": "1", "ctrl_loss_tmo": "off"} {
			files["sys/devices/virtual/nvme-fabrics/ctl/"+name+"/"+file] = content
		}
	}
	maps.Copy(files, edit)
	return files
}

// nvmeDefaults returns the defaults of the kernel and of nvme-cli.
func nvmeDefaults(controllers ...string) map[string]string {
	files := map[string]string{}
	for _, name := range controllers {
		for file, content := range map[string]string{"kato": "5", "fast_io_fail_tmo": "off", "ctrl_loss_tmo": "600"} {
			files["sys/devices/virtual/nvme-fabrics/ctl/"+name+"/"+file] = content
		}
	}
	return files
}

func says(a Advice, part string) bool { return strings.Contains(a.String(), part) }

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
		{"all is well by NVMe", "/dev/disk/by-id/nvme-uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8", unix.Mkdev(259, 1), nil, "", nil},
		{"queues", "/dev/mapper/fence", unix.Mkdev(253, 3), nil, "2 queue_if_no_path retain_attached_hw_handler 0 1", []string{"no_path_retry fail"}},
		{"slow sessions", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/class/iscsi_session/session7/recovery_tmo": "120", "sys/class/iscsi_session/session8/recovery_tmo": "off"},
			quiet, []string{"session7 of sdb reports a lost target only after up to 123 s (noop_out_interval 1, noop_out_timeout 2, recovery_tmo 120): set node.session.timeo.replacement_timeout = 1", "session8 of sdc never reports a lost target (noop_out_interval 1, noop_out_timeout 2, recovery_tmo -1): "}},
		{"multipathd has set the sessions", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"etc/iscsi/iscsid.conf": "node.session.timeo.replacement_timeout = 120"}, quiet, nil},
		{"slow questions", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/class/iscsi_connection/connection7:0/recv_tmo": "5", "sys/class/iscsi_connection/connection7:0/ping_tmo": "5"},
			quiet, []string{"session7 of sdb reports a lost target only after up to 15 s (noop_out_interval 5, noop_out_timeout 5, recovery_tmo 5): "}},
		{"no questions", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/class/iscsi_connection/connection8:0/recv_tmo": "0"}, quiet, []string{"session8 of sdc does not ask whether its target is there"}},
		{"a volume on it", "/dev/mapper/vg-fence", unix.Mkdev(253, 9), map[string]string{"sys/devices/host2/session8/target2/2:0:0:1/timeout": "30"}, "1 queue_if_no_path 0 1",
			[]string{"/dev/mapper/fence queues I/O", "SCSI commands to sdc time out after 30 s"}},
		{"a partition", "/dev/disk/by-id/wwn-0x5-part1", unix.Mkdev(8, 65), map[string]string{"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "off"}, "", []string{"fast_io_fail_tmo off)"}},
		{"slow commands", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/devices/host2/session8/target2/2:0:0:1/timeout": "30"}, quiet,
			[]string{"SCSI commands to sdc time out after 30 s: echo 5 > /sys/block/sdc/device/timeout"}},
		{"commands of 10 s", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{"sys/devices/host2/session8/target2/2:0:0:1/timeout": "10"}, quiet, []string{"SCSI commands to sdc time out after 10 s"}},
		{"paths that nobody has joined", "/dev/disk/by-id/x", unix.Mkdev(8, 64), map[string]string{"sys/devices/host3/rport-3:0-2/target3/3:0:0:1/wwid": "naa.600a0b80", "sys/block/sde/device/wwid": "naa.600a0b80", "sys/block/sdf/device/wwid": "naa.600a0b80", "sys/block/sdg/device/wwid": "naa.600a0b81"},
			"", []string{"sde and sdf are paths to the same LUN, and no multipath device joins them: run multipath -a 3600a0b80 and multipathd reconfigure"}},
		{"name of the kernel", "/dev/dm-3", unix.Mkdev(253, 3), nil, quiet, []string{"use /dev/mapper/fence"}},
		{"one path of several", "/dev/disk/by-id/x", unix.Mkdev(8, 16), nil, quiet, []string{"is one path of the multipath device /dev/mapper/fence"}},
		{"FC, named by the kernel", "DEV/sde", unix.Mkdev(8, 64), nil, "", []string{"use /dev/disk/by-id/wwn-0x5"}},
		{"FC, off", "/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64), map[string]string{"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "off"}, "",
			[]string{"fast_io_fail_tmo off): echo 1 > /sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo, and a udev rule"}},
		{"FC, slow", "/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64), map[string]string{"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "60"}, "", []string{"fast_io_fail_tmo 60)"}},
		{"FC, joined", "/dev/mapper/fence", unix.Mkdev(253, 3), map[string]string{
			"sys/class/fc_remote_ports/rport-3:0-2/fast_io_fail_tmo": "off", "sys/devices/virtual/block/dm-3/slaves/sde": "-> sys/devices/host3/rport-3:0-2/target3/3:0:0:1/block/sde",
		}, quiet, []string{"fast_io_fail_tmo off): set fast_io_fail_tmo 1 in the overrides of multipath.conf"}},
		{"NVMe, all defaults, two paths", "DEV/nvme0n1", unix.Mkdev(259, 1), nvmeDefaults("nvme0", "nvme1"), "", []string{
			"use /dev/disk/by-id/nvme-uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8",
			"nvme0 reports a lost path only after up to 15 s (keep-alive 5 s): connect it with --keep-alive-tmo=1",
			"nvme0 waits without a path for 600 s (fast_io_fail_tmo off, ctrl_loss_tmo 600): echo 1 > /sys/class/nvme/nvme0/fast_io_fail_tmo",
			"nvme0 is given up 600 s after its path was lost, and nothing connects it again: echo -1 > /sys/class/nvme/nvme0/ctrl_loss_tmo, and a udev rule",
			"nvme1 reports", "nvme1 waits", "nvme1 is given up",
		}},
		{"NVMe, one path", "/dev/disk/by-id/x", unix.Mkdev(259, 2), map[string]string{
			"sys/devices/virtual/nvme-fabrics/ctl/nvme2/kato": "0", "sys/devices/virtual/nvme-fabrics/ctl/nvme2/fast_io_fail_tmo": "off",
		}, "", []string{"nvme2 does not ask whether its target is there", "for ever (fast_io_fail_tmo off, ctrl_loss_tmo off)"}},
		{"NVMe, slow", "/dev/disk/by-id/x", unix.Mkdev(259, 2), map[string]string{"sys/devices/virtual/nvme-fabrics/ctl/nvme2/fast_io_fail_tmo": "30"}, "", []string{"for 30 s (fast_io_fail_tmo)"}},
		{"NVMe in this machine", "/dev/disk/by-id/x", unix.Mkdev(259, 2), map[string]string{"sys/devices/virtual/nvme-fabrics/ctl/nvme2/transport": "pcie", "sys/devices/virtual/nvme-fabrics/ctl/nvme2/kato": "0"}, "", nil},
		{"nothing known", "/dev/disk/by-id/x", unix.Mkdev(9, 9), nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, storage(c.edit))
			h := host{sys: filepath.Join(root, "sys"), dev: filepath.Join(root, "dev"), table: func(uint64) (string, error) { return c.table, nil }}
			got := h.advice(strings.Replace(c.path, "DEV", h.dev, 1), c.number)
			if !slices.EqualFunc(got, c.want, says) {
				t.Errorf("advice %q, want %q", got, c.want)
			}
		})
	}
	root := tree(t, storage(nil))
	h := host{sys: filepath.Join(root, "sys"), table: func(uint64) (string, error) { return "", errors.New("not root") }}
	got := h.advice("/dev/mapper/fence", unix.Mkdev(253, 3))
	if len(got) != 1 || !says(got[0], "could not be checked (not root): ") || !says(got[0], "dmsetup table fence") {
		t.Errorf("a table that cannot be read: %q", got)
	}
	if got := h.advice("/dev/disk/by-id/wwn-0x5", unix.Mkdev(8, 64)); len(got) != 0 {
		t.Errorf("a device without multipath, which has no table: %q", got)
	}
}

// Guard: a path that multipath takes over still has the same WWID.
func TestWWIDIsTheSameWithMultipath(t *testing.T) {
	for uuid, want := range map[string]string{
		"": "naa.600a0b80", "mpath-3600a0b80": "naa.600a0b80", "mpath-20025385": "eui.0025385", "mpath-1QEMU disk": "", "LVM-x1": "LVM-x1",
		"mpath-uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8": "uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8", "mpath-eui.0025385": "eui.0025385",
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
	const disk = "sys/devices/host3/rport-3:0-2/target3/3:0:0:1"
	for name, edit := range map[string]map[string]string{
		"of one path": {disk + "/wwid": "naa.600a0b81", disk + "/block/sde/sde1/partition": "7"},
		"of a map":    {"sys/dev/block/8:65": "-> sys/devices/virtual/block/dm-3", "sys/devices/virtual/block/dm-3/dm/uuid": "part7-mpath-3600a0b81"},
	} {
		if got := (host{sys: filepath.Join(tree(t, storage(edit)), "sys")}).wwid(unix.Mkdev(8, 65)); got != "naa.600a0b81-part7" {
			t.Errorf("a partition %s: wwid %q, want naa.600a0b81-part7", name, got)
		}
	}
	if got := (host{sys: filepath.Join(tree(t, storage(nil)), "sys")}).wwid(unix.Mkdev(8, 65)); got != "" {
		t.Errorf("wwid %q of a partition whose disk has none", got)
	}
	if got := (host{sys: filepath.Join(tree(t, storage(nil)), "sys")}).wwid(unix.Mkdev(9, 9)); got != "" {
		t.Errorf("wwid %q of a device that sysfs does not know", got)
	}
}

// The advice below another root is the same as for an open device, and does not contain the path of that root.
func TestAdviceBelowARoot(t *testing.T) {
	root := tree(t, storage(nil))
	if got, err := AdviceFor(root, "/dev/sde"); err != nil || got != nil {
		t.Errorf("a regular file: %q, %v", got, err)
	}
	if _, err := AdviceFor(root, "/dev/gone"); !errors.Is(err, unix.ENOENT) || strings.Contains(err.Error(), root) {
		t.Errorf("a device that is not there: %v", err)
	}
	if _, err := AdviceFor(root, "wwn:uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8"); err != nil {
		t.Errorf("a device by its name: %v", err)
	}
	h := hostBelow(root)
	if got := h.advice("/dev/nvme0n1", unix.Mkdev(259, 1)); len(got) != 1 || !says(got[0], "use /dev/disk/by-id/nvme-uuid.") {
		t.Errorf("%q", got)
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

// The kernel's answer is parsed with care: an offset that leads outside it ends the parsing.
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

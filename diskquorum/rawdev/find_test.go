package rawdev

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFindByName(t *testing.T) {
	dev := t.TempDir()
	byID := filepath.Join(dev, "disk", "by-id")
	if err := os.MkdirAll(byID, 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(name, target string) {
		if err := os.WriteFile(filepath.Join(dev, target), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../"+target, filepath.Join(byID, name)); err != nil {
			t.Fatal(err)
		}
	}
	const single, both, gone = "6001405aaaaaaaaaaaaaaaaaaaaaaaaa", "6001405bbbbbbbbbbbbbbbbbbbbbbbbb", "500a0981deadbeef"
	link("wwn-0x"+single, "sda")
	link("wwn-0x"+both, "sdb") // one path
	link("dm-uuid-mpath-3"+both, "dm-0")
	const namespace, mapped = "uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8", "eui.0025385b71b00001"
	link("nvme-"+namespace, "nvme0n2")
	link("nvme-"+mapped, "nvme1n1") // one path, of a kernel without its own multipath
	link("dm-uuid-mpath-"+mapped, "dm-1")
	if err := os.Symlink("../../nowhere", filepath.Join(byID, "wwn-0x"+gone)); err != nil {
		t.Fatal(err)
	}
	h := host{dev: dev}
	for _, c := range []struct{ spec, want string }{
		{"/dev/mapper/fence", "/dev/mapper/fence"},
		{"relative", "relative"},
		{"wwn:0x" + single, filepath.Join(byID, "wwn-0x"+single)},
		{"wwn:6001405AAAAAAAAAAAAAAAAAAAAAAAAA", filepath.Join(byID, "wwn-0x"+single)},
		{"wwn:" + both, filepath.Join(byID, "dm-uuid-mpath-3"+both)},
		{"wwn:" + namespace, filepath.Join(byID, "nvme-"+namespace)},
		{"wwn:UUID.6BA7B810-9dad-11d1-80b4-00c04fd430c8", filepath.Join(byID, "nvme-"+namespace)},
		{"wwn:" + mapped, filepath.Join(byID, "dm-uuid-mpath-"+mapped)},
	} {
		if got, err := h.find(c.spec); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.spec, got, err, c.want)
		}
	}
	for _, spec := range []string{"wwn:0x" + gone, "wwn:6001405cccccccccccccccccccccccccc"} {
		if _, err := h.find(spec); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v, want that it is not there, so that the agent tries again", spec, err)
		}
	}
}

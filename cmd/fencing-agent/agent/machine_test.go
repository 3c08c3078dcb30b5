package agent

import (
	"os"
	"path/filepath"
	"testing"
)

// Guard: the identity differs for machines that share one disk, and a board without data has no identity.
func TestMachineIdentity(t *testing.T) {
	const uuid, serial = "sys/class/dmi/id/product_uuid", "sys/class/dmi/id/product_serial"
	of := func(files map[string]string) uint64 {
		t.Helper()
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return machineIdentity(root)
	}
	one := of(map[string]string{uuid: "4C4C4544-0051-3010-8056-B7C04F4D5332\n"})
	for _, tc := range []struct {
		name  string
		files map[string]string
		same  bool
	}{
		{"the same in small letters", map[string]string{uuid: "4c4c4544-0051-3010-8056-b7c04f4d5332\n"}, true},
		{"with a serial number as well", map[string]string{uuid: "4c4c4544-0051-3010-8056-b7c04f4d5332\n", serial: "X1"}, true},
		{"another machine", map[string]string{uuid: "4c4c4544-0051-3010-8056-b7c04f4d5333\n"}, false},
		{"by its serial number", map[string]string{serial: "CZ12345678\n"}, false},
		{"of the device tree", map[string]string{"sys/firmware/devicetree/base/serial-number": "10000000abcdef\x00"}, false},
	} {
		if got := of(tc.files); (got == one) != tc.same || got == 0 {
			t.Errorf("%s: %x, the machine is %x", tc.name, got, one)
		}
	}
	for name, files := range map[string]map[string]string{
		"nothing":   {},
		"zeros":     {uuid: "00000000-0000-0000-0000-000000000000\n"},
		"ones":      {uuid: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n"},
		"a filler":  {uuid: "03000200-0400-0500-0006-000700080009\n", serial: "To Be Filled By O.E.M.\n"},
		"too short": {serial: "0\n"},
	} {
		if got := of(files); got != 0 {
			t.Errorf("%s: %x", name, got)
		}
	}
}

package procfs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// BootNonce returns the number by which agents identify a boot: the first half of the kernel's boot_id, which is random
// for each boot, with the lowest bit set. root is where /proc is mounted.
func BootNonce(root string) (uint64, error) {
	path := filepath.Join(root, "sys/kernel/random/boot_id")
	id, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the kernel's boot id: %w", err)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(id)), "-", ""))
	if err != nil || len(raw) < 8 {
		return 0, fmt.Errorf("%s does not hold a boot id", path)
	}
	return binary.BigEndian.Uint64(raw) | 1, nil
}

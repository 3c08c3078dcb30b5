package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// Files with a name of the machine itself, best first, below the root of the file system. A copy of a machine has the
// same /etc/machine-id on its disk, so that file is not in the list.
var machineNames = []string{
	"sys/class/dmi/id/product_uuid", // hypervisors give each machine a different one
	"sys/firmware/devicetree/base/serial-number",
	"sys/class/dmi/id/product_serial",
}

// machineIdentity is a digest of the machine's name, or 0. Only root may read the name itself, which is not passed on.
func machineIdentity(root string) uint64 {
	for _, name := range machineNames {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // the machine has no such name, or hides it: without an identity there is nothing to compare
		}
		id := strings.ToLower(strings.Trim(string(text), " \t\n\x00"))
		if !tellsMachines(id) {
			continue
		}
		sum := sha256.Sum256([]byte("fencing-agent machine " + id))
		return max(1, binary.LittleEndian.Uint64(sum[:]))
	}
	return 0
}

// tellsMachines refuses the values of boards without a name: one repeated character, or a placeholder text.
func tellsMachines(id string) bool {
	bare := strings.NewReplacer("-", "", " ", "", ".", "").Replace(id)
	if len(bare) < 4 || strings.Count(bare, bare[:1]) == len(bare) {
		return false
	}
	for _, filler := range []string{"03000200040005000006000700080009", "notspecified", "tobefilledbyoem", "systemserialnumber", "default", "0123456789"} {
		if strings.HasPrefix(bare, filler) {
			return false
		}
	}
	return true
}

package wdt

import (
	"os"
	"path/filepath"
	"strings"
)

// Firmware names the board of this machine and its firmware, as sysfs at that path shows them (/sys/class/dmi/id): how
// late a watchdog fires depends on both. It is empty where there is no DMI.
func Firmware(sysfs string) string {
	var parts []string
	for _, attr := range []string{"board_vendor", "board_name", "bios_vendor", "bios_version"} {
		if b, err := os.ReadFile(filepath.Join(sysfs, "class/dmi/id", attr)); err == nil {
			parts = append(parts, strings.TrimSpace(string(b)))
		}
	}
	return strings.Join(parts, " ")
}

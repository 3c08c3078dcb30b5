package rawdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// WWNPrefix marks a LUN that is chosen by the storage's name for it, which is the same on every node, whatever multipath
// or the kernel call the device there: the NAA name of a SCSI LUN (16 or 32 hexadecimal digits, with or without 0x), or
// eui.DIGITS or uuid.UUID of an NVMe namespace, as its file wwid in sysfs has it.
const WWNPrefix = "wwn:"

// Find returns the path of the device that spec names: a path, or [WWNPrefix] and a name, which is looked up at each
// call. It opens nothing.
func Find(spec string) (string, error) { return thisHost.find(spec) }

// find prefers a device that survives the loss of a path: a multipath device comes before its paths, which also have
// links from udev. Through such a link the LUN would be lost together with that path.
func (h host) find(spec string) (string, error) {
	name, byName := strings.CutPrefix(spec, WWNPrefix)
	if !byName {
		return spec, nil
	}
	name = strings.TrimPrefix(strings.ToLower(name), "0x")
	byID := filepath.Join(h.dev, "disk", "by-id")
	// The 3 is the type of the name, NAA, in the identity that multipath takes over.
	links := []string{"dm-uuid-mpath-3" + name, "wwn-0x" + name}
	if strings.Contains(name, ".") {
		links = []string{"dm-uuid-mpath-" + name, "nvme-" + name}
	}
	for _, link := range links {
		path := filepath.Join(byID, link)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("open %s: %w: no link below %s has this name: is the node logged in to the storage?", spec, unix.ENOENT, byID)
}

package lunadmin

import "github.com/fencing-agent/fencing-agent/diskquorum/rawdev"

// Find is the path of the device that an operator names as lun.devices does: by a path, or as wwn:NAME. The functions of
// this package take paths alone: whether a device is in use they see by its path, too.
func Find(spec string) (string, error) { return rawdev.Find(spec) }

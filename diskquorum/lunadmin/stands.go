package lunadmin

import (
	"slices"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Stands describes, for people, the contents of a device that should be a LUN of this format. Remains of the LUN do not
// count if there is other data before them. A read error is returned, unless the answer is known without it.
func Stands(dev diskquorum.Device) (string, error) {
	im := newImage(dev)
	found, err := scan(im)
	others := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		return f.Name == "fencing-agent slots" || f.Name == "fencing-agent LUN"
	})
	head := im.at(0, int(min(imageHead, dev.Size()&^(diskquorum.BlockSize-1))))
	switch {
	case len(others) > 0:
		return findingNames(others), nil
	case err != nil:
		return "", err
	case !slices.ContainsFunc(head, func(b byte) bool { return b != 0 }):
		return zeros, nil
	case len(found) > 0:
		return "the rest of a LUN of this format without its superblock (" + findingNames(found) + ")", nil
	}
	return "data without a signature that is known", nil
}

const zeros = "zeros"

package lunadmin

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// image reads small pieces of a device and caches the blocks.
type image struct {
	dev    diskquorum.Device
	size   int64 // number of readable bytes
	blocks map[int64][]byte
	err    error // the first one; nothing is read after it
}

// imageHead is read at once: nearly all signatures are there.
const imageHead = 512 << 10

// newImage returns an image of the whole blocks of a device: without the incomplete last block of an odd-sized device.
func newImage(dev diskquorum.Device) *image {
	im := &image{dev: dev, size: dev.Size() &^ (diskquorum.BlockSize - 1), blocks: map[int64][]byte{}}
	im.load(0, int(min(imageHead, im.size)))
	return im
}

// addRest adds the incomplete last block of a device that is open under path: a backup GPT is in its last sector.
func (im *image) addRest(path string) {
	if im.dev.Size() == im.size {
		return
	}
	rest, err := readRest(path, im.dev.Size())
	if err != nil && im.err == nil {
		im.err = err
	}
	if len(rest) > 0 && im.err == nil {
		im.blocks[im.size] = rest
		im.size += int64(len(rest))
	}
}

func (im *image) load(off int64, n int) {
	if im.err != nil || n == 0 {
		return
	}
	buf := make([]byte, n)
	if _, err := im.dev.ReadAt(buf, off); err != nil {
		im.err = err
		return
	}
	for i := 0; i < n; i += diskquorum.BlockSize {
		im.blocks[off+int64(i)] = buf[i : i+diskquorum.BlockSize]
	}
}

// at returns n bytes from offset off, or nil if they are not all readable.
func (im *image) at(off int64, n int) []byte {
	if off < 0 || off+int64(n) > im.size {
		return nil
	}
	var out []byte
	for n > 0 {
		start := off &^ (diskquorum.BlockSize - 1)
		if im.blocks[start] == nil {
			im.load(start, diskquorum.BlockSize)
		}
		if im.err != nil {
			return nil
		}
		part := im.blocks[start][off-start:]
		part = part[:min(n, len(part))]
		out = append(out, part...)
		off, n = off+int64(len(part)), n-len(part)
	}
	return out
}

// readRest reads the bytes after the last whole block. It opens the device again, because direct I/O uses whole blocks.
func readRest(path string, size int64) ([]byte, error) {
	from := size &^ (diskquorum.BlockSize - 1)
	if from == size {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()                                   // opened for reading: an error loses no data
	_ = unix.Fadvise(int(f.Fd()), from, size-from, unix.FADV_DONTNEED) // drop data that an earlier reader left in the cache
	rest := make([]byte, size-from)
	if _, err := f.ReadAt(rest, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return rest, nil
}

// wipeRest overwrites the bytes after the last whole block with zeros.
func wipeRest(path string, size int64) error {
	from := size &^ (diskquorum.BlockSize - 1)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, size-from), from)
	return errors.Join(err, f.Close())
}

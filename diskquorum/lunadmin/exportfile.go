package lunadmin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// The file of `fencectl lun repair export`: a header of one block, then superblocks and slots as
// they are on the LUN. Every byte of it is covered by a checksum.
//
//	 0  8  magic "FENCEXPT"
//	 8  2  version: 1
//	10  2  slots
//	12  4  reserved
//	16 16  LUN id
//	32  8  size of the device, bytes
//	40  8  exported, Unix seconds
//	48  8  size of what follows, bytes
//	56 32  SHA-256 of what follows
//	88  4  CRC32C of bytes 0 to 87
//	92     zero up to 4096
const (
	exportMagic   = "FENCEXPT"
	exportVersion = 1

	exVersion = 8
	exSlots   = 10
	exID      = 16
	exDevice  = 32
	exTime    = 40
	exLength  = 48
	exSum     = 56
	exCRC     = 88
	exEnd     = 92
)

// ErrExportFile says that a file is no intact export of a LUN.
var ErrExportFile = errors.New("not an intact export of a LUN")

// exported is a parsed export.
type exported struct {
	superblock  diskquorum.Superblock
	deviceBytes int64
	taken       int64  // Unix seconds
	image       []byte // superblocks and slots
}

var exportTable = crc32.MakeTable(crc32.Castagnoli)

// encodeExport writes a whole file.
func encodeExport(e *exported) []byte {
	out := make([]byte, diskquorum.BlockSize, diskquorum.BlockSize+len(e.image))
	le := binary.LittleEndian
	copy(out, exportMagic)
	le.PutUint16(out[exVersion:], exportVersion)
	le.PutUint16(out[exSlots:], uint16(e.superblock.Slots))
	copy(out[exID:], e.superblock.ID[:])
	le.PutUint64(out[exDevice:], uint64(e.deviceBytes))
	le.PutUint64(out[exTime:], uint64(e.taken))
	le.PutUint64(out[exLength:], uint64(len(e.image)))
	sum := sha256.Sum256(e.image)
	copy(out[exSum:], sum[:])
	le.PutUint32(out[exCRC:], crc32.Checksum(out[:exCRC], exportTable))
	return append(out, e.image...)
}

// decodeExport reads a whole file. The error wraps ErrExportFile.
func decodeExport(file []byte) (*exported, error) {
	bad := func(format string, args ...any) (*exported, error) {
		return nil, fmt.Errorf("%w: %s", ErrExportFile, fmt.Sprintf(format, args...))
	}
	if len(file) < diskquorum.BlockSize || string(file[:len(exportMagic)]) != exportMagic {
		return bad("it does not begin like one")
	}
	le, head, image := binary.LittleEndian, file[:diskquorum.BlockSize], file[diskquorum.BlockSize:]
	if crc32.Checksum(head[:exCRC], exportTable) != le.Uint32(head[exCRC:]) || firstNonZero(head[exEnd:]) >= 0 {
		return bad("its header is damaged")
	}
	if v := le.Uint16(head[exVersion:]); v != exportVersion {
		return bad("version %d, this program knows %d", v, exportVersion)
	}
	if n := le.Uint64(head[exLength:]); n != uint64(len(image)) {
		return bad("%d bytes instead of %d follow the header", len(image), n)
	}
	if sum := sha256.Sum256(image); !bytes.Equal(sum[:], head[exSum:exCRC]) {
		return bad("its content is damaged")
	}
	sb, err := diskquorum.ReadSuperblock(image)
	if err != nil {
		return bad("%v", err)
	}
	e := &exported{superblock: sb, deviceBytes: int64(le.Uint64(head[exDevice:])), taken: int64(le.Uint64(head[exTime:])), image: image}
	switch {
	case !bytes.Equal(sb.ID[:], head[exID:exID+16]) || sb.Slots != int(le.Uint16(head[exSlots:])):
		return bad("header and superblock disagree")
	case len(image) != diskquorum.TableSize(sb.Slots):
		return bad("%d bytes for %d slots", len(image), sb.Slots)
	case e.deviceBytes < diskquorum.DeviceSize(sb.Slots):
		return bad("a device of %d bytes cannot hold %d slots", e.deviceBytes, sb.Slots)
	}
	return e, nil
}

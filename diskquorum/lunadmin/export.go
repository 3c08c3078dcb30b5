package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// ExportResult says what was saved. Its JSON form is part of fencectl's interface.
type ExportResult struct {
	Device   *DeviceReport `json:"device,omitempty"`
	File     string        `json:"file"`
	Bytes    int64         `json:"bytes"`
	ID       string        `json:"id"`
	Slots    int           `json:"slots"`
	Written  int           `json:"written"` // slots that were ever written
	Warnings []string      `json:"warnings"`
}

// exportAttempts bounds the reading of a table that is being written.
const exportAttempts = 20

// ExportPath saves superblocks and slots of a LUN to a new file. It writes nothing to the LUN.
func ExportPath(ctx context.Context, path, file string) (*ExportResult, error) {
	dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = dev.Close() }() // opened for reading: nothing can be lost
	r := &ExportResult{Device: deviceReport(path, dev), File: file, Warnings: []string{}}
	data, err := r.read(ctx, dev)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	if err := writeNewFile(file, data); err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// read returns the content of the file. A slot that is torn is being written: it is looked
// at again.
func (r *ExportResult) read(ctx context.Context, raw diskquorum.Device) ([]byte, error) {
	dev := &interruptible{ctx: ctx, Device: raw}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	e := &exported{superblock: *sb, deviceBytes: dev.Size(), taken: time.Now().Unix()}
	unclear := []int{}
	for range exportAttempts {
		if e.image, err = readAll(dev, int64(diskquorum.TableSize(sb.Slots))); err != nil {
			return nil, err
		}
		unclear, r.Written = unclear[:0], 0
		for _, v := range readSlots(e.image, sb) {
			if !v.blank() {
				r.Written++
			}
			if v.hides() || v.copies[0] == copyTorn || v.copies[1] == copyTorn {
				unclear = append(unclear, v.index)
			}
		}
		if len(unclear) == 0 {
			break
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if len(unclear) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the slots %v cannot be read in full and are saved as they are", unclear))
	}
	if _, err := diskquorum.ReadSuperblock(e.image); err != nil {
		return nil, errors.New("the superblock changed while the LUN was read: is an init running?")
	}
	data := encodeExport(e)
	r.Bytes, r.ID, r.Slots = int64(len(data)), fmt.Sprintf("%x", sb.ID), sb.Slots
	return data, nil
}

// writeNewFile writes a file that did not exist, so that it survives a power failure.
func writeNewFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: name a new file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package lunadmin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// The parts that Init checks besides the area of the format. Even if that area is blank, the device may be in use:
// DRBD's internal metadata is at the end, and a partition's data may begin anywhere.
const (
	surveyHead    = 8 * mib // read completely, like the last MiB
	surveyTail    = mib
	surveySamples = 1024 // maximum number of blocks read in between, at multiples of a power of two, because areas begin at a MiB

	// wipeTail is the number of bytes at the end that are overwritten with zeros under Force, whatever its contents:
	// most formats with a signature at the end have it there. Elsewhere only recognised signatures are overwritten.
	wipeTail = 128 << 10
)

const unknownData = "data of an unknown format"

// look is a piece of the device, as first read.
type look struct {
	off  int64
	data []byte
	lun  *diskquorum.Superblock // superblock of the LUN that begins at byte at; nil: none
	at   int64
	of   string // " in partition sdb1"
}

func (f *formatter) look(from, to int64) (look, error) {
	from, to = max(0, from&^(diskquorum.BlockSize-1)), min((to+diskquorum.BlockSize-1)&^(diskquorum.BlockSize-1), f.dev.Size()&^(diskquorum.BlockSize-1))
	if to <= from {
		return look{off: from}, nil
	}
	data := make([]byte, to-from)
	for off := int64(0); off < int64(len(data)); off += chunk {
		if _, err := f.dev.ReadAt(data[off:min(int64(len(data)), off+chunk)], from+off); err != nil {
			return look{}, err
		}
	}
	return look{off: from, data: data}, nil
}

// survey reads the parts that Init checks, and records what must not change before it may be overwritten. at is the
// first byte that is not zero, or -1.
func (f *formatter) survey(number devno, found []Finding, im *image) (at int64, err error) {
	at = -1
	f.rest = im.blocks[f.dev.Size()&^(diskquorum.BlockSize-1)]
	pieces := [][2]int64{{0, max(f.end, surveyHead)}, {f.dev.Size() - surveyTail, f.dev.Size()}}
	for _, finding := range found {
		for _, r := range finding.extents() {
			if r[1] > max(f.end, surveyHead) {
				pieces = append(pieces, r)
			}
		}
	}
	for _, p := range pieces {
		l, err := f.look(p[0], p[1])
		if err != nil {
			return -1, err
		}
		at = first(at, &l)
		f.looks = append(f.looks, l)
	}
	f.looks[0].knowLUN(0)
	for _, dir := range f.o.kernel.partitionDirs(number) {
		l, err := f.lookAtPartition(dir)
		if err != nil {
			return -1, err
		}
		at = first(at, &l)
		f.looks = append(f.looks, l)
	}
	if i := firstNonZero(f.rest); i >= 0 && at < 0 {
		at = f.dev.Size()&^(diskquorum.BlockSize-1) + int64(i)
	}
	if at >= 0 {
		return at, nil // samples would add nothing
	}
	from, to, step := max(f.end, surveyHead), f.dev.Size()-surveyTail, int64(diskquorum.BlockSize)
	for to-from > step*surveySamples {
		step *= 2
	}
	for off := (from + step - 1) &^ (step - 1); off < to; off += step {
		l, err := f.look(off, off+1)
		if err != nil {
			return -1, err
		}
		if at = first(at, &l); at >= 0 {
			break
		}
	}
	return at, nil
}

func first(at int64, l *look) int64 {
	if i := firstNonZero(l.data); i >= 0 && (at < 0 || l.off+int64(i) < at) {
		return l.off + int64(i)
	}
	return at
}

// lookAtPartition reads the start of a partition, and the whole LUN if there is one.
func (f *formatter) lookAtPartition(dir string) (look, error) {
	b, err := os.ReadFile(filepath.Join(dir, "start"))
	if err != nil {
		return look{}, nil // the partition has just disappeared
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return look{}, nil
	}
	start := sectors * 512 // sysfs uses units of 512 bytes, whatever the device's sector size is
	l, err := f.look(start, start+64<<10)
	if err != nil {
		return l, err
	}
	l.knowLUN(start)
	if l.lun != nil {
		if l, err = f.look(start, start+diskquorum.DeviceSize(l.lun.Slots)); err != nil {
			return l, err
		}
		l.knowLUN(start)
	}
	l.of = " in partition " + filepath.Base(dir)
	return l, nil
}

// knowLUN records the LUN that begins at a byte of the device, if there is one.
func (l *look) knowLUN(start int64) {
	l.at = start
	if start < l.off || start-l.off > int64(len(l.data)) {
		return
	}
	if sb, err := diskquorum.ReadSuperblock(l.data[start-l.off:]); err == nil {
		l.lun = &sb
	}
}

// minWatch is the minimum time for which a forced init looks for signs of life; maxWatch bounds the heartbeat interval
// that a broken slot may state.
const (
	minWatch = 3 * time.Second
	maxWatch = 30 * time.Second
)

// watch refuses a device that is being written, by a cluster that uses it or one of its partitions, or by any other
// program. It compares everything that will be overwritten, so it also works without a readable superblock.
func (f *formatter) watch(ctx context.Context) error {
	duration := f.o.Watch
	if duration == 0 {
		duration = minWatch
		for _, l := range f.looks {
			if l.lun != nil {
				duration = max(duration, min(maxWatch, 3*slowestHeartbeat(l.data[l.at-l.off:], l.lun)))
			}
		}
	}
	f.o.Progress(fmt.Sprintf("watching %s for %v for signs of life", f.o.Path, duration))
	step := max(1, min(duration/3, 500*time.Millisecond))
	for waited := time.Duration(0); waited < duration; waited += step {
		if err := sleep(ctx, step); err != nil {
			return stoppedOnTheWay(err, "init", f.o.Path, untouched)
		}
		who, err := f.moved()
		if err != nil {
			return fmt.Errorf("init %s: look for signs of life: %w", f.o.Path, err)
		}
		if who != "" {
			return &RefusedError{Path: f.o.Path, Forced: true, Reason: "is alive: " + who,
				Advice: "stop the program that writes it; --force does not override that"}
		}
	}
	return nil
}

// moved returns who has written since the first read; "": no write was found.
func (f *formatter) moved() (who string, err error) {
	for _, l := range f.looks {
		now, err := f.look(l.off, l.off+int64(len(l.data)))
		if err != nil {
			return "", err
		}
		if i := firstDifference(l.data, now.data); i >= 0 {
			return l.whoWrites(now.data, int64(i)) + l.of, nil
		}
	}
	rest, err := readRest(f.o.Path, f.dev.Size())
	if err != nil || f.rest == nil {
		return "", err
	}
	if i := firstDifference(f.rest, rest); i >= 0 {
		return fmt.Sprintf("another program writes at byte %d", f.dev.Size()&^(diskquorum.BlockSize-1)+int64(i)), nil
	}
	return "", nil
}

// whoWrites names the writer of byte i of a piece.
func (l *look) whoWrites(now []byte, i int64) string {
	at := l.off + i - l.at // within the LUN
	slot := int(at/diskquorum.BlockSize-2) / 2
	if l.lun != nil && at >= diskquorum.SlotOffset(0, 0) && slot < l.lun.Slots {
		name := "an unknown node"
		if s := readSlots(now[l.at-l.off:], l.lun)[slot]; s.record != nil {
			name = clean(s.record.NodeName)
		}
		return fmt.Sprintf("%s writes slot %d", name, slot)
	}
	return fmt.Sprintf("another program writes at byte %d", l.off+i)
}

// slowestHeartbeat returns the longest heartbeat interval that any slot states.
func slowestHeartbeat(table []byte, sb *diskquorum.Superblock) time.Duration {
	var slowest time.Duration
	for _, s := range readSlots(table, sb) {
		if s.record != nil {
			slowest = max(slowest, s.record.HeartbeatInterval)
		}
	}
	return slowest
}

// extents returns the bytes that have to be overwritten so that the finding is not recognised any more.
func (f Finding) extents() (out [][2]int64) {
	for _, off := range f.Offsets {
		start, size := off&^(diskquorum.BlockSize-1), int64(diskquorum.BlockSize)
		if f.Name == zfsMember { // the magic may be at 128 places in each label
			start, size = off&^(zfsLabel-1), zfsLabel
		}
		out = append(out, [2]int64{start, start + size})
	}
	return out
}

// wipe overwrites, after the end of the format, the signatures that were found, and the end of the device, with zeros:
// otherwise the next scan, by us or by udev, would recognise data that is no longer valid. It only writes blocks that
// contain a finding or are at the end of the device, and that are not blank and were watched.
func (f *formatter) wipe(zero []byte) error {
	if len(f.found) == 0 {
		return nil
	}
	whole := f.dev.Size() &^ (diskquorum.BlockSize - 1)
	pieces := [][2]int64{{f.dev.Size() - wipeTail, whole}}
	for _, finding := range f.found {
		pieces = append(pieces, finding.extents()...)
	}
	block := make([]byte, diskquorum.BlockSize)
	for _, p := range pieces {
		from, to := max(f.end, p[0]&^(diskquorum.BlockSize-1)), min(p[1], whole)
		for off := from; off < to; off += diskquorum.BlockSize {
			if slices.Contains(f.wiped, off) {
				continue
			}
			if _, err := f.dev.ReadAt(block, off); err != nil {
				return err
			}
			if firstNonZero(block) < 0 {
				continue
			}
			if _, err := f.dev.WriteAt(zero[:diskquorum.BlockSize], off); err != nil {
				return err
			}
			f.wiped = append(f.wiped, off)
		}
	}
	if firstNonZero(f.rest) < 0 {
		return nil
	}
	f.wiped = append(f.wiped, whole)
	return wipeRest(f.o.Path, f.dev.Size())
}

// checkWiped reads back the overwritten blocks.
func (f *formatter) checkWiped() error {
	block := make([]byte, diskquorum.BlockSize)
	whole := f.dev.Size() &^ (diskquorum.BlockSize - 1)
	for _, off := range f.wiped {
		var err error
		if off < whole {
			_, err = f.dev.ReadAt(block, off)
		} else {
			block, err = readRest(f.o.Path, f.dev.Size())
		}
		if err != nil {
			return err
		}
		if firstNonZero(block) >= 0 {
			return fmt.Errorf("byte %d reads back differently", off)
		}
	}
	return nil
}

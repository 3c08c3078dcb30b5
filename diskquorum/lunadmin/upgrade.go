package lunadmin

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// UpgradeOptions say how to give a LUN what a newer version can use.
type UpgradeOptions struct {
	Force    bool // overwrite data behind the slots that is not the LUN's
	Progress func(text string)
}

// UpgradeResult says what was done. Its JSON form is part of fencectl's interface.
type UpgradeResult struct {
	Device   *DeviceReport `json:"device,omitempty"`
	ID       string        `json:"id"`
	Slots    int           `json:"slots"`
	Bytes    int64         `json:"bytes"`   // that the format takes now
	Changed  bool          `json:"changed"` // false: it had all there is
	Added    []string      `json:"added"`   // "echo blocks", "protective MBR"
	Warnings []string      `json:"warnings"`
}

// UpgradePath opens a device and upgrades the LUN on it.
func UpgradePath(ctx context.Context, path string, o UpgradeOptions) (*UpgradeResult, error) {
	dev, err := rawdev.Open(path, rawdev.Options{})
	if err != nil {
		return nil, err
	}
	r, err := Upgrade(ctx, dev, path, o)
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	r.Device = deviceReport(path, dev)
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// What an upgrade adds.
const (
	addedEchoes = "echo blocks"
	addedMBR    = "protective MBR"
)

// Upgrade gives a LUN of before what newer versions know, while agents use it.
//
// A protective MBR is in bytes of the superblock that readers ignore, all of them in its first sector: the write of copy
// A changes nothing else, so it is there or is not, whatever becomes of the power, and no reader sees a difference.
//
// Echo blocks are behind everything that an older agent reads
// or writes. The superblock says that they exist, by a flag that an older agent ignores, only when they are blank: so
// an interrupted run leaves the LUN as it was, or with a flag that is as good in one copy as in two.
func Upgrade(ctx context.Context, raw diskquorum.Device, path string, o UpgradeOptions) (*UpgradeResult, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	u := &upgrader{o: &o, path: path, dev: &interruptible{ctx: ctx, Device: raw}}
	r, err := u.run()
	refused := new(RefusedError)
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &refused):
		return nil, err
	case u.wrote:
		const half = "the upgrade is not finished, repeat the command"
		return nil, stoppedOnTheWay(fmt.Errorf("upgrade %s: %w; "+half, path, err), "upgrade", path, half)
	}
	return nil, stoppedOnTheWay(fmt.Errorf("upgrade %s: %w", path, err), "upgrade", path, untouched)
}

type upgrader struct {
	o     *UpgradeOptions
	path  string
	dev   diskquorum.Device
	wrote bool
}

func (u *upgrader) refuse(reason, advice string) error {
	return &RefusedError{Op: "upgrade", Path: u.path, Reason: reason, Forced: true, Advice: advice}
}

func (u *upgrader) run() (*UpgradeResult, error) {
	sb, err := openLUN(u.dev)
	if err != nil {
		return nil, err
	}
	r := &UpgradeResult{ID: fmt.Sprintf("%x", sb.ID), Slots: sb.Slots, Bytes: diskquorum.DeviceSize(sb.Slots), Added: []string{}, Warnings: []string{}}
	protect, err := u.protectable()
	if err != nil {
		return nil, err
	}
	if protect {
		r.Added = append(r.Added, addedMBR)
	}
	if sb.Echoes {
		if r.Changed = protect; !protect {
			return r, nil
		}
		return r, u.flag(sb)
	}
	if u.dev.Size() < r.Bytes {
		return nil, u.refuse(fmt.Sprintf("is too small: %d bytes, %d slots with echo blocks need %d", u.dev.Size(), sb.Slots, r.Bytes),
			fmt.Sprintf("enlarge it to at least %d bytes on the storage, and rescan it on all nodes, first", r.Bytes))
	}
	if err := u.clear(sb); err != nil {
		return nil, err
	}
	sb.Echoes, r.Changed, r.Added = true, true, append(r.Added, addedEchoes)
	return r, u.flag(sb)
}

// protectable reports whether the LUN has no protective MBR, and makes sure that it may get one. Beside a backup GPT that
// somebody left at the end it may not: with a protective MBR in front, partition tools would offer to restore the table.
func (u *upgrader) protectable() (bool, error) {
	block := make([]byte, diskquorum.BlockSize)
	if _, err := u.dev.ReadAt(block, 0); err != nil {
		return false, err
	}
	if diskquorum.IsProtective(block) {
		return false, nil
	}
	im := newImage(u.dev)
	im.addRest(u.path)
	for _, back := range []int64{512, diskquorum.BlockSize} {
		off := u.dev.Size() - back
		if string(im.at(off, len(gptMagic))) != gptMagic {
			continue
		}
		if !u.o.Force {
			return false, u.refuse(fmt.Sprintf("carries the copy of an old partition table at its end, at byte %d, which tools would restore beside a protective MBR", off),
				"if nobody needs that, --force overwrites it")
		}
		if err := u.blank(off &^ (diskquorum.BlockSize - 1)); err != nil {
			return false, err
		}
	}
	return true, im.err
}

// blank makes a block zero, or what there is of the last one.
func (u *upgrader) blank(off int64) error {
	u.wrote = true
	if off+diskquorum.BlockSize > u.dev.Size() {
		return wipeRest(u.path, u.dev.Size())
	}
	_, err := u.dev.WriteAt(make([]byte, diskquorum.BlockSize), off)
	return err
}

// clear makes the echo blocks blank. A run before that was interrupted may have left them so.
func (u *upgrader) clear(sb *diskquorum.Superblock) error {
	u.o.Progress("looking at what is behind the slots")
	block, blank := make([]byte, diskquorum.BlockSize), make([]byte, diskquorum.BlockSize)
	var dirty []int64
	for i := range sb.Slots {
		off := diskquorum.EchoOffset(sb.Slots, i)
		if _, err := u.dev.ReadAt(block, off); err != nil {
			return err
		}
		if _, _, err := diskquorum.DecodeEcho(block, sb.ID, sb.Slots, i, -1); err == nil || errors.Is(err, diskquorum.ErrTorn) {
			continue // of a run that was interrupted: agents have seen its flag
		}
		if at := firstNonZero(block); at >= 0 {
			dirty = append(dirty, off)
			if !u.o.Force {
				return u.refuse(fmt.Sprintf("carries data behind the slots, at byte %d", off+int64(at)),
					"if nobody needs that, --force overwrites it")
			}
		}
	}
	for _, off := range dirty {
		u.wrote = true
		if _, err := u.dev.WriteAt(blank, off); err != nil {
			return err
		}
	}
	return nil
}

// flag writes the superblock, one copy after the other, and reads it back.
func (u *upgrader) flag(sb *diskquorum.Superblock) error {
	want, got := make([]byte, diskquorum.BlockSize), make([]byte, diskquorum.BlockSize)
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(want, sb, which); err != nil {
			return err
		}
		off := int64(which) * diskquorum.BlockSize
		u.wrote = true
		if _, err := u.dev.WriteAt(want, off); err != nil {
			return err
		}
		if _, err := u.dev.ReadAt(got, off); err != nil {
			return err
		}
		if firstDifference(want, got) >= 0 {
			return errors.New("the superblock reads back differently: the device loses writes, or an init is running")
		}
	}
	return nil
}

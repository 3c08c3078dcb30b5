package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// ImportOptions say what to restore from which file.
type ImportOptions struct {
	Path     string
	File     string
	Force    bool          // take the administrator's word that the device is the exported one
	DryRun   bool          // say what would be done
	Horizon  time.Duration // how long nobody may write; 0: the longest that a slot states
	Progress func(string)

	kernel kernel // zero: this machine
}

// ImportResult says what was restored. Its JSON form is part of fencectl's interface.
type ImportResult struct {
	Device     *DeviceReport `json:"device,omitempty"`
	ID         string        `json:"id"`
	Exported   string        `json:"exported"` // RFC 3339
	DryRun     bool          `json:"dryRun"`
	Superblock []string      `json:"superblockCopies"` // restored: A, B
	Slots      []int         `json:"slots"`            // restored as free slots
	Kept       int           `json:"kept"`             // slots left as they are on the device
	Overridden []string      `json:"overridden"`
	Warnings   []string      `json:"warnings"`
}

// Import puts back what a LUN has lost: superblock copies that do not verify, and slots
// that cannot be read. What can be read stays: it is at least as new as the export, and a
// slot set back in time could take back a decision (lease.md B1). A slot that is restored
// is a free one, which carries the latest decision known and a token that no grant names.
func Import(ctx context.Context, o ImportOptions) (result *ImportResult, err error) {
	data, err := os.ReadFile(o.File)
	if cause := new(fs.PathError); errors.As(err, &cause) {
		return nil, fmt.Errorf("read the export %s: %w; FILE is what fencectl lun repair export wrote", o.File, cause.Err)
	}
	if err != nil {
		return nil, err
	}
	e, err := decodeExport(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.File, err)
	}
	if o.kernel == (kernel{}) {
		o.kernel = thisKernel
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	dev, err := openIdle(&InitOptions{Path: o.Path, kernel: o.kernel})
	if err != nil {
		if refused := new(RefusedError); errors.As(err, &refused) {
			refused.Op = "import"
		}
		return nil, err
	}
	defer func() {
		if cerr := dev.Close(); err == nil && cerr != nil {
			result, err = nil, fmt.Errorf("import %s: close: %w", o.Path, cerr)
		}
	}()
	result, err = restoreTo(ctx, dev, e, &o)
	refused, stopped := new(RefusedError), new(InterruptedError)
	if err != nil && !errors.As(err, &refused) && !errors.As(err, &stopped) {
		err = fmt.Errorf("import %s: %w", o.Path, err)
	}
	if err != nil {
		return nil, err
	}
	result.Device = deviceReport(o.Path, dev.Device)
	if w := dev.Warning(); w != "" {
		result.Warnings = append(result.Warnings, w)
	}
	return result, nil
}

// restoreTo does the work of Import on an open device.
func restoreTo(ctx context.Context, dev diskquorum.Device, e *exported, o *ImportOptions) (*ImportResult, error) {
	r := &restorer{
		o: o, e: e, dev: &interruptible{ctx: ctx, Device: dev},
		result: &ImportResult{
			ID: fmt.Sprintf("%x", e.superblock.ID), Exported: time.Unix(e.taken, 0).UTC().Format(time.RFC3339), DryRun: o.DryRun,
			Superblock: []string{}, Slots: []int{}, Overridden: []string{}, Warnings: []string{},
		},
	}
	for _, look := range []func(context.Context) error{r.recognise, r.watch} {
		if err := look(ctx); err != nil {
			return nil, stoppedOnTheWay(err, "import", o.Path, untouched)
		}
	}
	if err := r.plan(); err != nil {
		return nil, err
	}
	if o.DryRun {
		return r.result, nil
	}
	if err := r.write(); err != nil {
		return nil, stoppedOnTheWay(err, "import", o.Path, r.progress())
	}
	return r.result, nil
}

type restorer struct {
	o       *ImportOptions
	e       *exported
	dev     diskquorum.Device
	table   []byte // of the device, as last seen
	restore []*diskquorum.Slot
	result  *ImportResult

	slotsWritten, copiesWritten int // and read back
}

// progress says how far a write came that was stopped.
func (r *restorer) progress() string {
	return fmt.Sprintf("%d of %d slots and %d of %d copies of the superblock are restored, and a write under way may still land; "+
		"leave the agents of the group stopped and repeat the import, it restores the rest",
		r.slotsWritten, len(r.restore), r.copiesWritten, len(r.result.Superblock))
}

func (r *restorer) refuse(reason, advice string) error {
	return &RefusedError{Op: "import", Path: r.o.Path, Reason: reason, Forced: true, Advice: advice}
}

// recognise makes sure that the device is the one that was exported.
func (r *restorer) recognise(context.Context) (err error) {
	sb := &r.e.superblock
	if size := r.dev.Size(); size != r.e.deviceBytes {
		return r.refuse(fmt.Sprintf("has %d bytes, the exported device had %d", size, r.e.deviceBytes),
			"it is another device, or was resized: format a new LUN with fencectl lun init, or restore the size; --force does not override that")
	}
	if r.table, err = readAll(r.dev, int64(diskquorum.TableSize(sb.Slots))); err != nil {
		return err
	}
	proven := r.anyCopyOfOurs()
	for which := range 2 {
		found, err := diskquorum.DecodeSuperblock(r.table[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which)
		switch {
		case err == nil && found.ID != sb.ID && proven:
			// The other copy is of the exported LUN: something wrote over this one.
		case err == nil && found.ID != sb.ID:
			return r.refuse(fmt.Sprintf("carries the LUN %x, the export is of %x", found.ID, sb.ID),
				"it is another LUN or was formatted again; --force does not override that")
		case errors.Is(err, diskquorum.ErrVersion):
			return r.refuse(err.Error(), "use the fencectl of the agents; --force does not override that")
		}
	}
	var against []string
	if !proven && !r.anySlotOfOurs() {
		against = append(against, "carries nothing by which it can be recognised as the LUN that was exported")
	}
	found, err := scan(newImage(r.dev))
	if err != nil {
		return fmt.Errorf("look for signatures: %w", err)
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Name, "fencing-agent") })
	if len(found) > 0 {
		against = append(against, "carries "+findingNames(found))
	}
	if len(against) > 0 && !r.o.Force {
		return r.refuse(strings.Join(against, "; "), "if it is the right device and nobody needs what it carries, --force restores it")
	}
	r.result.Overridden = append(r.result.Overridden, against...)
	return nil
}

// anyCopyOfOurs reports whether a copy of the superblock is that of the exported LUN.
func (r *restorer) anyCopyOfOurs() bool {
	for which := range 2 {
		found, err := diskquorum.DecodeSuperblock(r.table[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which)
		if err == nil && found.ID == r.e.superblock.ID {
			return true
		}
	}
	return false
}

// anySlotOfOurs reports whether some block was sealed for the exported LUN's id.
func (r *restorer) anySlotOfOurs() bool {
	for _, v := range readSlots(r.table, &r.e.superblock) {
		for _, c := range v.copies {
			if c == copyValid || c == copyTorn || c == copyNewer {
				return true
			}
		}
	}
	return false
}

// watch refuses a device that anybody writes. It takes as long as a grant could be in
// force: an agent that does not write feeds under none after that.
func (r *restorer) watch(ctx context.Context) error {
	d := r.o.Horizon
	for _, image := range [][]byte{r.table, r.e.image} {
		for _, v := range readSlots(image, &r.e.superblock) {
			if r.o.Horizon == 0 {
				d = max(d, horizon(v.record))
			}
		}
	}
	v := vigil{r.dev, &r.e.superblock, r.o.Progress}
	table, _, err := v.keep(ctx, d, func(moved map[int]bool) error {
		for i, m := range moved {
			if m {
				name := "somebody"
				if rec := readSlots(r.table, &r.e.superblock)[i].record; rec != nil {
					name = clean(rec.NodeName)
				}
				return r.refuse(fmt.Sprintf("is alive: %s writes slot %d", name, i), "stop all agents of the group first, --force does not override that")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.table = table
	return nil
}

// skippedTies is how far a restored slot's token counter is moved on: past every token that
// its owner can have had since the export.
const skippedTies = 1 << 20

// plan finds what has to be restored.
func (r *restorer) plan() error {
	sb := &r.e.superblock
	for which, name := range []string{"A", "B"} {
		found, err := diskquorum.DecodeSuperblock(r.table[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which)
		if err != nil || found != *sb {
			r.result.Superblock = append(r.result.Superblock, name)
		}
	}
	here, there := readSlots(r.table, sb), readSlots(r.e.image, sb)
	latest := latestOf(here)
	if d := latestOf(there); d.instance > latest.instance {
		latest = d
	}
	for i := range here {
		lost := here[i].hides() || here[i].blank() && !there[i].blank()
		if !lost {
			if !here[i].blank() {
				r.result.Kept++
			}
			continue
		}
		v := there[i]
		if here[i].record != nil && (v.record == nil || here[i].record.Sequence > v.record.Sequence) {
			v.record = here[i].record // one copy is left, and newer than the export
		}
		s, err := freed(&v, latest)
		if err != nil {
			return err
		}
		if c := &s.Statement.Token.Counter; *c != 0 {
			*c = uint32(min(uint64(*c)+skippedTies, math.MaxUint32))
		}
		r.restore = append(r.restore, s)
		r.result.Slots = append(r.result.Slots, i)
	}
	return nil
}

// write restores the slots first: without superblock no agent takes the device for a LUN.
func (r *restorer) write() error {
	sb := &r.e.superblock
	for _, s := range r.restore {
		if err := writeSlot(r.dev, sb, s); err != nil {
			return fmt.Errorf("%w; repeat the import", err)
		}
		r.slotsWritten++
	}
	want, got := make([]byte, diskquorum.BlockSize), make([]byte, diskquorum.BlockSize)
	for which, name := range []string{"A", "B"} {
		if !slices.Contains(r.result.Superblock, name) {
			continue
		}
		if err := diskquorum.EncodeSuperblock(want, sb, which); err != nil {
			return err
		}
		off := int64(which) * diskquorum.BlockSize
		if _, err := r.dev.WriteAt(want, off); err != nil {
			return fmt.Errorf("%w; repeat the import", err)
		}
		if _, err := r.dev.ReadAt(got, off); err != nil {
			return err
		}
		if firstDifference(want, got) >= 0 {
			return fmt.Errorf("superblock copy %s reads back differently: the device loses writes", name)
		}
		r.copiesWritten++
	}
	return nil
}

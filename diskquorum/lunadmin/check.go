package lunadmin

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// CheckReport is how long the I/Os on the scratch block took. Its JSON form is part of
// fencectl's interface.
type CheckReport struct {
	Device *DeviceReport `json:"device,omitempty"`
	Set    *SetPlace     `json:"set,omitempty"` // nil: a LUN of one device
	Count  int           `json:"count"`         // of each, reads and writes
	Wrote  string        `json:"wrote"`         // what was written, in words; empty: nothing
	Read   Latency       `json:"read"`
	Write  Latency       `json:"write"`
	// Decision is what an equal split takes on a bad day until a half feeds by the grant, in I/O alone: as many writes and
	// reads as agents reckon with, at their p99.
	Decision float64 `json:"decisionMs"`
	Others   int     `json:"others"` // rounds in which a check of another node got in between
	// SCSI is missing where the device does not take SCSI commands.
	SCSI     *SCSIReport `json:"scsi,omitempty"`
	Damage   []string    `json:"damage"` // what agents cannot read; empty: in order
	Warnings []string    `json:"warnings"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50Ms"`
	P90 float64 `json:"p90Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

// Round is a write and a read at their p99, in milliseconds. Where nothing was written, a write counts as a read.
func (r *CheckReport) Round() float64 {
	if r.Wrote == "" {
		return 2 * r.Read.P99
	}
	return r.Read.P99 + r.Write.P99
}

// CheckPath opens a device and checks it, by reads alone if readOnly.
func CheckPath(ctx context.Context, path string, n int, readOnly bool, progress func(done int)) (*CheckReport, error) {
	dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: readOnly})
	if err != nil {
		return nil, err
	}
	check := Check
	if readOnly {
		check = CheckReads
	}
	r, err := check(ctx, dev, n, progress)
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	r.Device = deviceReport(path, dev)
	r.SCSI = probeSCSI(path)
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// ioTimeout is the agent's default limit for one I/O, beyond which the LUN counts as lost.
const ioTimeout = 2 * time.Second

// Check writes and reads the scratch block n times and times each. It is safe on a LUN
// that is in use, and on several nodes at once. progress, if not nil, is told after each
// round how many are done.
func Check(ctx context.Context, dev diskquorum.Device, n int, progress func(done int)) (*CheckReport, error) {
	dev = &interruptible{ctx: ctx, Device: dev}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	c := &checker{dev: dev, sb: sb, off: diskquorum.ScratchOffset(sb.Slots)}
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	c.run = binary.LittleEndian.Uint64(seed[:])
	for i := range n {
		if err := ended(ctx); err != nil {
			return nil, fmt.Errorf("stopped after %d of %d rounds: %w", i, n, err)
		}
		if err := c.round(uint64(i)); err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", i+1, n, err)
		}
		if progress != nil {
			progress(i + 1)
		}
	}
	if c.torn && !c.foreign {
		return nil, errors.New("the block read back half old, half new, and no other check runs: the device tears single writes")
	}
	r := &CheckReport{Count: n, Read: latency(c.reads), Write: latency(c.writes), Others: c.others, Warnings: []string{}, Wrote: scratchWords(sb), Set: setPlace(sb)}
	r.Decision = float64(diskquorum.RoundsToFeed(2)) * r.Round()
	r.warnSlow()
	return r, r.findDamage(ctx, dev, sb)
}

func scratchWords(sb *diskquorum.Superblock) string {
	return fmt.Sprintf("the scratch block, %d bytes at byte %d, which no agent reads", diskquorum.BlockSize, diskquorum.ScratchOffset(sb.Slots))
}

// CheckReads reads superblock and slot table n times, as an agent does, and times each. It
// writes nothing.
func CheckReads(ctx context.Context, dev diskquorum.Device, n int, progress func(done int)) (*CheckReport, error) {
	dev = &interruptible{ctx: ctx, Device: dev}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	table := make([]byte, diskquorum.TableSize(sb.Slots))
	var reads []time.Duration
	for i := range n {
		start := time.Now()
		if _, err := dev.ReadAt(table, 0); err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", i+1, n, err)
		}
		reads = append(reads, time.Since(start))
		if now, err := diskquorum.ReadSuperblock(table); err != nil || now != *sb {
			return nil, fmt.Errorf("round %d of %d: the superblock changed: is an init running?", i+1, n)
		}
		if progress != nil {
			progress(i + 1)
		}
	}
	r := &CheckReport{Count: n, Read: latency(reads), Warnings: []string{}, Set: setPlace(sb)}
	r.Decision = float64(diskquorum.RoundsToFeed(2)) * r.Round()
	r.warnSlow()
	return r, r.findDamage(ctx, dev, sb)
}

// findDamage looks at superblock and slots, which the rounds have only timed.
func (r *CheckReport) findDamage(ctx context.Context, dev diskquorum.Device, sb *diskquorum.Superblock) error {
	table, err := readTable(ctx, dev, sb)
	if err != nil {
		return fmt.Errorf("look at superblock and slots: %w", err)
	}
	r.Damage = damage(table, sb)
	return nil
}

func (r *CheckReport) warnSlow() {
	if worst := max(r.Read.Max, r.Write.Max); worst > ioTimeout.Seconds()*1000 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("an I/O took %.0f ms: beyond lun.ioTimeout (default %v) an agent takes the LUN for lost", worst, ioTimeout))
	}
}

type checker struct {
	dev           diskquorum.Device
	sb            *diskquorum.Superblock
	off           int64
	run           uint64
	reads, writes []time.Duration
	others        int
	foreign, torn bool // a block of another check was read; a torn one was
}

func (c *checker) round(count uint64) error {
	block := make([]byte, diskquorum.BlockSize)
	if err := diskquorum.EncodeScratch(block, c.sb, c.run, count); err != nil {
		return err
	}
	start := time.Now()
	if _, err := c.dev.WriteAt(block, c.off); err != nil {
		return err
	}
	c.writes = append(c.writes, time.Since(start))
	start = time.Now()
	if _, err := c.dev.ReadAt(block, c.off); err != nil {
		return err
	}
	c.reads = append(c.reads, time.Since(start))
	return c.verify(block, count)
}

// verify judges what was read back. The scratch block is the only one with many writers,
// so a block of another run proves no fault.
func (c *checker) verify(block []byte, count uint64) error {
	run, got, err := diskquorum.DecodeScratch(block, c.sb)
	switch {
	case errors.Is(err, diskquorum.ErrTorn):
		c.others++
		c.torn = true
	case err != nil:
		return fmt.Errorf("read back something else than was written: %w", err)
	case run != c.run:
		c.others++
		c.foreign = true
	case got != count:
		return fmt.Errorf("read back write %d instead of %d: there is a cache between this node and the LUN, which no lease survives", got, count)
	}
	return nil
}

// latency sorts ds. The percentile is the least value that so many per cent do not exceed.
func latency(ds []time.Duration) Latency {
	if len(ds) == 0 {
		return Latency{}
	}
	slices.Sort(ds)
	at := func(percent int) float64 {
		rank := (len(ds)*percent + 99) / 100
		return float64(ds[max(rank, 1)-1].Nanoseconds()) / 1e6
	}
	return Latency{at(50), at(90), at(99), at(100)}
}

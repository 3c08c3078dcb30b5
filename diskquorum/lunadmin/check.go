package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// CheckReport holds the times of the I/Os on the scratch block. Its JSON form is part of fencectl's interface.
type CheckReport struct {
	Opened
	Set   *SetPlace `json:"set,omitempty"` // nil: a LUN of one device
	Count int       `json:"count"`         // number of reads, and of writes
	Wrote string    `json:"wrote"`         // a description of what was written; empty: nothing
	Read  Latency   `json:"read"`
	Write Latency   `json:"write"`
	// Decision is the I/O time in a bad case from an equal split until a half feeds under the grant: as many writes and
	// reads as agents allow for, each at its p99.
	Decision float64  `json:"decisionMs"`
	Others   int      `json:"others"` // rounds in which a check of another node wrote in between
	Damage   []string `json:"damage"` // parts that agents cannot read; empty: no damage
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50Ms"`
	P90 float64 `json:"p90Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

// Round returns the time of a write and a read at their p99, in milliseconds. If nothing was written, the write counts
// like a read.
func (r *CheckReport) Round() float64 {
	if r.Wrote == "" {
		return 2 * r.Read.P99
	}
	return r.Read.P99 + r.Write.P99
}

// CheckOptions defines how to measure a LUN.
type CheckOptions struct {
	Count    int            // rounds
	ReadOnly bool           // only time reads of superblock and slot table, as agents do them
	Progress func(done int) // called after each round; nil: not called
}

// Check writes and reads the scratch block and times each. It is safe on a LUN that is in use, and on several nodes at once.
func Check(ctx context.Context, path string, o CheckOptions) (r *CheckReport, err error) {
	err = onDevice(ctx, "check", path, rawdev.Options{ReadOnly: o.ReadOnly}, func(dev *rawdev.Device, opened Opened) error {
		if r, err = check(ctx, dev, o); err == nil {
			r.add(opened)
		}
		return err
	})
	return r, err
}

// ioTimeout is the agent's default limit for one I/O, beyond which the LUN counts as lost.
const ioTimeout = 2 * time.Second

func check(ctx context.Context, raw diskquorum.Device, o CheckOptions) (*CheckReport, error) {
	dev := &interruptible{ctx: ctx, Device: raw}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	c := &checker{dev: dev, sb: sb, table: make([]byte, diskquorum.TableSize(sb.Slots)), block: make([]byte, diskquorum.BlockSize)}
	if c.run, err = random63(); err != nil {
		return nil, err
	}
	round := c.scratch
	if o.ReadOnly {
		round = c.readTable
	}
	for i := range o.Count {
		if err := ended(ctx); err != nil {
			return nil, fmt.Errorf("stopped after %d of %d rounds: %w", i, o.Count, err)
		}
		if err := round(uint64(i)); err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", i+1, o.Count, err)
		}
		if o.Progress != nil {
			o.Progress(i + 1)
		}
	}
	if c.torn && !c.foreign {
		return nil, errors.New("the read block is half old, half new, although no other check runs: the device tears single writes")
	}
	r := &CheckReport{Opened: Opened{Warnings: []string{}}, Count: o.Count, Read: latency(c.reads), Write: latency(c.writes), Others: c.others, Set: setPlace(sb)}
	if !o.ReadOnly {
		r.Wrote = fmt.Sprintf("the scratch block, %d bytes at byte %d, which no agent reads", diskquorum.BlockSize, diskquorum.ScratchOffset(sb.Slots))
	}
	r.Decision = float64(diskquorum.RoundsToFeed(2)) * r.Round()
	r.warnSlow()
	table, err := readTable(ctx, dev, sb) // the rounds only measure times
	if err != nil {
		return nil, fmt.Errorf("read superblock and slots: %w", err)
	}
	r.Damage = damage(table, sb)
	return r, nil
}

func (r *CheckReport) warnSlow() {
	if worst := max(r.Read.Max, r.Write.Max); worst > ioTimeout.Seconds()*1000 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("an I/O took %.0f ms: beyond lun.ioTimeout (default %v) an agent takes the LUN for lost", worst, ioTimeout))
	}
}

type checker struct {
	dev           diskquorum.Device
	sb            *diskquorum.Superblock
	run           uint64
	table, block  []byte
	reads, writes []time.Duration
	others        int
	foreign, torn bool // a block of another check was read; a torn block was read
}

// scratch writes and reads the scratch block.
func (c *checker) scratch(count uint64) error {
	if err := diskquorum.EncodeScratch(c.block, c.sb, c.run, count); err != nil {
		return err
	}
	off, start := diskquorum.ScratchOffset(c.sb.Slots), time.Now()
	if _, err := c.dev.WriteAt(c.block, off); err != nil {
		return err
	}
	c.writes = append(c.writes, time.Since(start))
	start = time.Now()
	if _, err := c.dev.ReadAt(c.block, off); err != nil {
		return err
	}
	c.reads = append(c.reads, time.Since(start))
	return c.verify(c.block, count)
}

// readTable reads superblock and slot table.
func (c *checker) readTable(uint64) error {
	start := time.Now()
	if _, err := c.dev.ReadAt(c.table, 0); err != nil {
		return err
	}
	c.reads = append(c.reads, time.Since(start))
	if now, err := diskquorum.ReadSuperblock(c.table); err != nil || now != *c.sb {
		return errors.New("the superblock changed: is an init running?")
	}
	return nil
}

// verify checks the block that was read back. The scratch block is the only one with many writers, so a block of
// another run is not a fault.
func (c *checker) verify(block []byte, count uint64) error {
	run, got, err := diskquorum.DecodeScratch(block, c.sb)
	switch {
	case errors.Is(err, diskquorum.ErrTorn):
		c.others++
		c.torn = true
	case err != nil:
		return fmt.Errorf("read back other data than was written: %w", err)
	case run != c.run:
		c.others++
		c.foreign = true
	case got != count:
		return fmt.Errorf("read back write %d instead of %d: there is a cache between this node and the LUN, with which a lease is not safe", got, count)
	}
	return nil
}

// latency returns the distribution of ds, which it sorts. A percentile is the smallest value that this percentage of
// the values does not exceed.
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

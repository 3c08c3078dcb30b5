package lunadmin

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// vigil watches a LUN for some time before it is changed. Only time by this machine's clock proves that a node is gone:
// the time of its last write in the slot is from another machine's clock.
type vigil struct {
	dev      diskquorum.Device
	sb       *diskquorum.Superblock
	progress func(string)
}

// vigilStep is the longest time between two reads, so that no write of a heartbeat is missed.
const vigilStep = 500 * time.Millisecond

// keep watches for the duration and returns the last table, and which slots changed. stop, if not nil, can end it early
// by returning an error.
func (v *vigil) keep(ctx context.Context, d time.Duration, stop func(moved map[int]bool) error) (table []byte, moved map[int]bool, err error) {
	size := int64(diskquorum.TableSize(v.sb.Slots))
	first, err := readAll(v.dev, size)
	if err != nil {
		return nil, nil, err
	}
	moved = map[int]bool{}
	step := max(1, min(d/4, vigilStep))
	for waited := time.Duration(0); waited < d; waited += step {
		v.progress(fmt.Sprintf("watching for signs of life, %v left", (d - waited).Round(time.Second)))
		if err := sleep(ctx, step); err != nil {
			return nil, nil, err
		}
		if table, err = readAll(v.dev, size); err != nil {
			return nil, nil, err
		}
		for i := range v.sb.Slots {
			from, to := diskquorum.SlotOffset(i, 0), diskquorum.SlotOffset(i+1, 0)
			moved[i] = moved[i] || !bytes.Equal(first[from:to], table[from:to])
		}
		if stop != nil {
			if err := stop(moved); err != nil {
				return nil, nil, err
			}
		}
	}
	if table == nil {
		table = first
	}
	return table, moved, nil
}

// budgetBesidesWatchdog is the time budget of an agent with default settings in an equal split, without the watchdog's
// timeout: evidence, arbitration, feed interval and margin.
const budgetBesidesWatchdog = 20 * time.Second

// horizon returns how long the owner of a slot may run after its last write to it, according to the slot. It is never
// less than with the default settings.
func horizon(s *diskquorum.Slot) time.Duration {
	if s == nil {
		return budgetBesidesWatchdog
	}
	guess := budgetBesidesWatchdog + s.Statement.Guard.Timeout + 3*min(s.HeartbeatInterval, maxWatch)
	return max(guess, s.Statement.Guard.Horizon)
}

// signOfLife returns how long a slot must not change even if its owner is known to have stopped, or the administrator
// says so.
func signOfLife(s *diskquorum.Slot) time.Duration {
	if s == nil {
		return minWatch
	}
	return max(minWatch, min(maxWatch, 3*s.HeartbeatInterval))
}

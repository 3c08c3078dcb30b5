package keeper

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

const retry = 5 * time.Second

func superblock() *diskquorum.Superblock {
	return &diskquorum.Superblock{Version: diskquorum.FormatVersion, ID: [16]byte{1}, Cluster: "main", NodeGroup: "worker", Slots: 4, Created: 1}
}

// openLUN is one open of the LUN in memory, with locks like those of this host.
type openLUN struct {
	*diskquorumtest.MemDevice
	rig         *lunRig
	wwid        string
	locked      []int
	closed      bool
	heldAtClose int
}

func (o *openLUN) LockSlot(slot int) error {
	o.rig.mu.Lock()
	defer o.rig.mu.Unlock()
	if o.rig.lockErr != nil {
		return o.rig.lockErr
	}
	o.locked = append(o.locked, slot)
	return nil
}

func (o *openLUN) Warning() string { return "" }
func (o *openLUN) WWID() string    { return o.wwid }

func (o *openLUN) Close() error {
	o.rig.mu.Lock()
	o.closed, o.heldAtClose = true, o.Held()
	o.rig.mu.Unlock()
	return o.MemDevice.Close()
}

// lunRig is a keeper over a LUN in memory, in a bubble.
type lunRig struct {
	t      *testing.T
	lun    *diskquorumtest.LUN
	keeper *Keeper
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards the fields that the keeper's goroutine uses
	log     bytes.Buffer
	openErr error
	lockErr error
	wwid    string // WWID of the next opened device
	opens   []*openLUN
	reports reports
}

// Write records the log.
func (r *lunRig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *lunRig) errors() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.log.String(), "level=ERROR")
}

func (r *lunRig) set(f func(*lunRig)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// last returns the newest open, after all goroutines have become idle.
func (r *lunRig) last(count int) *openLUN {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.opens) != count {
		r.t.Fatalf("opened %d times, want %d; log:\n%s", len(r.opens), count, r.log.String())
	}
	return r.opens[count-1]
}

// reports collects a keeper's reports.
type reports struct {
	opened    []Opened
	locked    []error
	completed []diskquorum.Completion
}

// taken returns the reports since its last call.
func (r *lunRig) taken() *reports {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.reports
	r.reports = reports{}
	return &got
}

func (r *lunRig) end() {
	r.cancel()
	<-r.done
}

func startKeeper(t *testing.T, edit func(*lunRig)) *lunRig {
	t.Helper()
	lun, err := diskquorumtest.NewFormattedLUN(superblock(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := &lunRig{t: t, lun: lun, done: make(chan struct{})}
	began := time.Now()
	r.keeper = New(Config{
		Path: "/dev/lun", Cluster: "main", Group: "worker", Members: 2, Retry: retry,
		Clock:  func() boottime.Instant { return boottime.Instant(time.Second + time.Since(began)) },
		Log:    slog.New(slog.NewTextHandler(r, nil)),
		Opened: func(o Opened) { r.set(func(r *lunRig) { r.reports.opened = append(r.reports.opened, o) }) },
		Locked: func(_ int, err error) { r.set(func(r *lunRig) { r.reports.locked = append(r.reports.locked, err) }) },
		Ended: func(c diskquorum.Completion) {
			r.set(func(r *lunRig) { r.reports.completed = append(r.reports.completed, c) })
		},
		Open: func(string) (LUN, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.openErr != nil {
				return nil, r.openErr
			}
			o := &openLUN{MemDevice: r.lun.Client(), rig: r, wwid: r.wwid}
			r.opens = append(r.opens, o)
			return o, nil
		},
	})
	if edit != nil {
		edit(r)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(r.done)
		r.keeper.run(ctx)
	}()
	return r
}

// fail passes as many failed operations as are needed to open the LUN again.
func (r *lunRig) fail() {
	for range reopenAfter {
		r.keeper.Observe(&diskquorum.Completion{Err: unix.EIO})
	}
}

func write(id uint64) diskquorum.Op {
	return diskquorum.Op{ID: id, Kind: diskquorum.OpWrite, Offset: diskquorum.SlotOffset(1, 0), Data: make([]byte, diskquorum.BlockSize)}
}

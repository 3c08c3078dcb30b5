package agent

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func listing(t *testing.T, names ...string) *roster.Roster {
	t.Helper()
	var members []roster.Member
	for i, n := range names {
		members = append(members, roster.Member{Name: n, Addresses: map[string]string{"mgmt": fmt.Sprintf("10.0.0.%d", i+1)}})
	}
	r, err := roster.New(0, members, names[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func superblock() *diskquorum.Superblock {
	return &diskquorum.Superblock{Version: diskquorum.FormatVersion, ID: [16]byte{1}, Cluster: "main", NodeGroup: "worker", Slots: 4, Created: 1}
}

// openLUN is one open of the LUN in memory, with locks as those of this host.
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
	keeper *lunKeeper
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex // guards what the keeper's goroutine uses
	log     bytes.Buffer
	openErr error
	lockErr error
	wwid    string // of what is opened next
	opens   []*openLUN
}

// Write takes the log.
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

// last is the newest open, after all goroutines came to rest.
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

// taken is what the loop would find in the mailbox now.
func (r *lunRig) taken() *batch {
	synctest.Wait()
	b := newBatch(1, 2)
	r.keeper.box.take(&b)
	return &b
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
	box := newMailbox(1, numbered(2))
	r.keeper = &lunKeeper{
		path: "/dev/lun", cluster: "main", group: "worker", members: 2, retry: lunRetry,
		clock: func() boottime.Instant { return boottime.Instant(time.Second + time.Since(began)) },
		log:   slog.New(slog.NewTextHandler(r, nil)), box: box,
		ended:  func(c diskquorum.Completion) { box.put(func(b *batch) { b.completions = append(b.completions, c) }) },
		reopen: make(chan struct{}, 1), first: make(chan error), notFirst: make(chan struct{}), slot: -1,
	}
	r.keeper.open = func(string) (LUN, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.openErr != nil {
			return nil, r.openErr
		}
		o := &openLUN{MemDevice: r.lun.Client(), rig: r, wwid: r.wwid}
		r.opens = append(r.opens, o)
		return o, nil
	}
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

// fail makes the loop see as many failed operations as it takes to open the LUN again.
func (r *lunRig) fail() {
	for range reopenAfter {
		r.keeper.observe(&diskquorum.Completion{Err: unix.EIO})
	}
}

func write(id uint64) diskquorum.Op {
	return diskquorum.Op{ID: id, Kind: diskquorum.OpWrite, Offset: diskquorum.SlotOffset(1, 0), Data: make([]byte, diskquorum.BlockSize)}
}

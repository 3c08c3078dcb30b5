package diskquorumtest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// LUN is a block device in memory that several clients share.
type LUN struct {
	seed uint64

	mu      sync.Mutex
	image   []byte
	before  []byte    // each sector as it was before its last write, for stale reads
	pending []landing // writes that were reported as failed and still land
	clients uint64
}

// landing is a write that reaches the image at its due time, seen or not.
type landing struct {
	due  time.Time
	off  int64
	data []byte
}

// NewLUN returns a blank LUN. The seed determines the faults of its clients.
func NewLUN(size int64, seed uint64) *LUN {
	return &LUN{seed: seed, image: make([]byte, size), before: make([]byte, size)}
}

// NewFormattedLUN returns a LUN as `fencectl lun init` leaves it.
func NewFormattedLUN(sb *diskquorum.Superblock, seed uint64) (*LUN, error) {
	l := NewLUN(diskquorum.DeviceSize(sb.Slots), seed)
	for which := range 2 {
		block := l.image[which*diskquorum.BlockSize : (which+1)*diskquorum.BlockSize]
		if err := diskquorum.EncodeSuperblock(block, sb, which); err != nil {
			return nil, err
		}
	}
	copy(l.before, l.image)
	return l, nil
}

// Client returns a new access to the LUN, without faults.
func (l *LUN) Client() *MemDevice {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	return &MemDevice{lun: l, rng: rand.New(rand.NewPCG(l.seed, l.clients))}
}

// Bytes returns a copy of the LUN's present contents.
func (l *LUN) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return slices.Clone(l.image)
}

// Modify lets f change the image without the clients.
func (l *LUN) Modify(f func(image []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	f(l.image)
}

// settle carries out the writes that are due. The caller holds l.mu.
func (l *LUN) settle() {
	now := time.Now()
	kept := l.pending[:0]
	for _, p := range l.pending {
		if p.due.After(now) {
			kept = append(kept, p)
			continue
		}
		l.put(p.off, p.data)
	}
	l.pending = kept
}

// put writes whole sectors. The caller holds l.mu.
func (l *LUN) put(off int64, data []byte) {
	copy(l.before[off:], l.image[off:off+int64(len(data))])
	copy(l.image[off:], data)
}

func (l *LUN) write(off int64, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.put(off, data)
}

func (l *LUN) writeLater(after time.Duration, off int64, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := landing{time.Now().Add(after), off, slices.Clone(data)}
	i, _ := slices.BinarySearchFunc(l.pending, at, func(a, b landing) int { return a.due.Compare(b.due) })
	l.pending = slices.Insert(l.pending, i, at)
}

func (l *LUN) read(off int64, into []byte, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	src := l.image
	if stale {
		src = l.before
	}
	copy(into, src[off:])
}

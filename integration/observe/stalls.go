package observe

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"
)

const (
	stallTick = 50 * time.Millisecond
	stallMin  = 500 * time.Millisecond
	diskTick  = 250 * time.Millisecond
)

// Stalls notices when the whole machine stalls: on shared hardware all processes of a virtual machine may stop for
// seconds. Agents that stall together rightly lose sight of each other, and observations then prove nothing. Only the
// calling process is measured: an agent that hangs is not a stall. Stalls is safe for concurrent use; Close ends its
// goroutines.
type Stalls struct {
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	found []stall // guarded by mu
}

type stall struct {
	end  time.Time
	took time.Duration
}

// NewStalls begins to watch.
func NewStalls() *Stalls {
	s := &Stalls{stop: make(chan struct{})}
	s.done.Go(s.run)
	return s
}

// Disk also watches the disk of a directory, because another process's write-back may keep it busy for seconds. If the
// agents' LUN is a file on that disk, it hangs too. Disk regularly writes a block of its own, as agents do.
func (s *Stalls) Disk(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "stalls"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT|unix.O_DSYNC, 0o600)
	if err != nil {
		return err
	}
	block := directio.AlignedBlock(directio.BlockSize)
	s.done.Go(func() {
		defer f.Close()
		s.watch(func() error { _, err := f.WriteAt(block, 0); return err })
	})
	return nil
}

// watch measures how long each write takes.
func (s *Stalls) watch(write func() error) {
	ticker := time.NewTicker(diskTick)
	defer ticker.Stop()
	for {
		began := time.Now()
		err := write()
		if now := time.Now(); now.Sub(began) >= stallMin {
			s.note(now, now.Sub(began))
		}
		if err != nil {
			// There is nothing to measure. The code that needs the disk reports the fault better.
			return
		}
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
	}
}

func (s *Stalls) run() {
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.tick(last, time.Now())
			last = time.Now()
		}
	}
}

func (s *Stalls) tick(last, now time.Time) {
	if took := now.Sub(last) - stallTick; took >= stallMin {
		s.note(now, took)
	}
}

func (s *Stalls) note(end time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, stall{end, took})
}

// Since returns the longest stall that ended after t, or 0 if there was none.
func (s *Stalls) Since(t time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.found {
		if f.end.After(t) {
			longest = max(longest, f.took)
		}
	}
	return longest
}

// Close ends the watch.
func (s *Stalls) Close() {
	close(s.stop)
	s.done.Wait()
}

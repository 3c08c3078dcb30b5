package observe

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStalls()
		defer s.Close()
		began := time.Now()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := s.Since(began); got != 0 {
			t.Errorf("a stall of %v on an idle machine", got)
		}
		now := time.Now()
		s.tick(now.Add(-stallTick-3*time.Second), now)
		s.tick(now.Add(-stallTick-time.Second), now)
		s.tick(now.Add(-stallTick-stallMin/2), now)
		if got := s.Since(began); got != 3*time.Second {
			t.Errorf("the longest stall is %v, want 3s", got)
		}
		if got := s.Since(now); got != 0 {
			t.Errorf("a stall of %v that had ended before", got)
		}
	})
}

func TestStallsOfTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStalls()
		began := time.Now()
		takes := []time.Duration{0, stallMin / 2, 2 * time.Second, time.Second}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.watch(func() error {
				if len(takes) == 0 {
					return errors.New("the disk is gone")
				}
				<-time.After(takes[0])
				takes = takes[1:]
				return nil
			})
		}()
		<-ended
		if got := s.Since(began); got != 2*time.Second || len(s.found) != 2 {
			t.Errorf("stalls %v, the longest %v; want two, and 2s", s.found, got)
		}
		s.Close()
	})
	dir := t.TempDir()
	s := NewStalls()
	defer s.Close()
	if err := s.Disk(dir); err != nil {
		t.Skipf("no direct I/O in %s: %v", dir, err)
	}
	for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) { // until it writes
		if i, err := os.Stat(dir + "/stalls"); err == nil && i.Size() > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nothing is written")
		}
	}
}

package observe

import (
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

package boottimetest

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

func TestClockGoesWithTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := Clock(boottime.Instant(time.Hour))
		time.Sleep(time.Minute)
		if got := now(); got != boottime.Instant(time.Hour+time.Minute) {
			t.Errorf("after a minute it is %v", time.Duration(got))
		}
	})
}

func TestPipesHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPipes(&net.UnixAddr{Name: "pipes", Net: "unix"})
		if p.Addr().String() != "pipes" {
			t.Errorf("it calls itself %v", p.Addr())
		}
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Hand(late, far); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while nobody accepts: %v", err)
		}
		go func() {
			if err := p.Hand(context.Background(), far); err != nil {
				t.Error(err)
			}
		}()
		if c, err := p.Accept(); err != nil || c != far {
			t.Errorf("accepted %v, %v", c, err)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := p.Hand(t.Context(), far); !errors.Is(err, net.ErrClosed) {
			t.Errorf("handed to a closed one: %v", err)
		}
		if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepted by a closed one: %v", err)
		}
	})
}

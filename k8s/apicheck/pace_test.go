package apicheck

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Guard: when checks become urgent, the next check is at once, and not at the end of a long interval. It is still not
// more frequent than checks that are always urgent.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := NewPace(time.Minute, 2*time.Second), rand.New(rand.NewPCG(1, 2))
		wait := func() time.Duration {
			began := time.Now()
			p.Wait(t.Context(), began, r)
			return time.Since(began)
		}
		between := func(what string, got, least, most time.Duration) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: after %v, want %v to %v", what, got, least, most)
			}
		}
		between("seldom", wait(), 54*time.Second, 66*time.Second)
		time.AfterFunc(20*time.Second, func() { p.Urge(true) })
		between("urgent after a while", wait(), 20*time.Second, 20*time.Second)
		between("urgent", wait(), 1800*time.Millisecond, 2200*time.Millisecond)
		p.Urge(true)
		time.AfterFunc(time.Second, func() { p.Urge(false) })
		between("not urgent any more", wait(), 54*time.Second, 66*time.Second)
		time.AfterFunc(time.Second, func() { p.Urge(true) })
		between("urgent soon after a check", wait(), 1800*time.Millisecond, 2200*time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		p.Urge(false)
		p.Wait(ctx, began, r)
		between("ended", time.Since(began), time.Second, time.Second)
	})
}

package lunadmin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		put(t, l, node(0, 100))
		dying := node(1, 50)
		put(t, l, dying)
		alive(t, l, node(0, 100))
		var pictures []*Report
		err := inspect(t.Context(), l.Client(), InspectOptions{Interval: 700 * time.Millisecond, Count: 12}, func(r *Report) error {
			if n := len(pictures); n < 3 {
				dying.Sequence++
				put(t, l, dying)
			}
			pictures = append(pictures, r)
			return nil
		})
		if err != nil || len(pictures) != 12 {
			t.Fatalf("%d pictures, %v", len(pictures), err)
		}
		if first := pictures[0].Slots[1]; first.Moving != nil || first.Unchanged != nil {
			t.Errorf("a single read cannot say that a slot moves: %+v", first)
		}
		last := pictures[11]
		if s := last.Slots[0]; !*s.Moving || *s.Unchanged > 1.4 {
			t.Errorf("the living slot: moving %v, unchanged %v", *s.Moving, *s.Unchanged)
		}
		if s := last.Slots[1]; *s.Moving || *s.Unchanged < 5 {
			t.Errorf("the dead slot: moving %v, unchanged %v", *s.Moving, *s.Unchanged)
		}
		if !*pictures[3].Slots[1].Moving {
			t.Error("the dying slot stood still already")
		}
	})
}

func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		n := 0
		if err := inspect(ctx, l.Client(), InspectOptions{Interval: time.Second}, func(*Report) error { n++; return nil }); !errors.Is(err, context.DeadlineExceeded) || n != 3 {
			t.Errorf("%d pictures, %v", n, err)
		}
		n = 0
		err := inspect(t.Context(), l.Client(), InspectOptions{Interval: time.Second}, func(*Report) error {
			n++
			l.Modify(func(b []byte) { clear(b[:8192]) })
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "is an init running?") || n != 1 {
			t.Errorf("%d pictures, %v", n, err)
		}
	})
}

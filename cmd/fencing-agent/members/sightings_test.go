package members

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// eye is a controller in memory to which an agent reports its sightings, on virtual time.
type eye struct {
	t *testing.T

	mu    sync.Mutex
	last  uint64
	heard []string // the reports since the test last read them
	asked int
	fail  error
	lost  error        // like fail, but the report is kept
	lines bytes.Buffer // the log
}

func newEye(t *testing.T) (*eye, *SightingTeller) {
	began := time.Now()
	e := &eye{t: t}
	clock := func() boottime.Instant { return boottime.Instant(time.Since(began)) + boottime.Instant(time.Second) }
	s := newSightingTeller(e.ask, tellerBoot, clock, slog.New(slog.NewTextHandler(&e.lines, nil)), "not accepted")
	s.Rand = rand.New(rand.NewPCG(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e, s
}

func (e *eye) ask(_ context.Context, r *fencingv1.SightingsReport) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.fail != nil {
		return e.fail
	}
	if r.GetBoot() != tellerBoot || r.GetNumber() <= e.last {
		e.t.Errorf("boot %q, number %d after %d", r.GetBoot(), r.GetNumber(), e.last)
	}
	e.last = r.GetNumber()
	text := strings.Join(r.GetSlotMoves(), "") + "/" + strings.Join(r.GetSlotStill(), "")
	if r.GetQuorumLost() {
		text += " lost"
	}
	e.heard = append(e.heard, text)
	return e.lost
}

func (e *eye) set(fail, lost error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.lost, e.asked = fail, lost, 0
}

// want advances the time, and compares what was heard meanwhile.
func (e *eye) want(after time.Duration, heard ...string) {
	e.t.Helper()
	time.Sleep(after) // in the bubble's time
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.heard, heard) {
		e.t.Errorf("heard %q, want %q", e.heard, heard)
	}
	e.heard = nil
}

func sees(s sightings.Sighting) *string {
	s.Boot, s.Number = tellerBoot, uint64(time.Now().UnixMilli()) // each Sighting of an agent has a number of its own
	text := sightings.Encode(s)
	return &text
}

// Guards: each wish is reported once, and again when it is made again. A sighting that has ended is taken back, once.
// In a quiet time nothing is reported.
func TestSightingTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEye(t)
		e.want(time.Hour)
		s.Renew(nil, time.Second)
		e.want(time.Hour)
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n4"}, SlotStill: []string{"n5"}}), time.Second)
		e.want(time.Hour, "n4/n5")
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n4"}, SlotStill: []string{"n5"}}), time.Second)
		e.want(time.Hour, "n4/n5")
		s.Renew(sees(sightings.Sighting{QuorumLost: true}), time.Second)
		e.want(time.Hour, "/ lost")
		s.Renew(nil, time.Second)
		e.want(time.Hour, "/")
		s.Renew(nil, time.Second)
		e.want(time.Hour)
	})
}

// Guards: when a controller comes back, it receives the present state and not the earlier one. What it may have heard
// is taken back. A controller of an older version causes no log line before there is a sighting to report, and few
// calls after that.
func TestSightingTellerWithoutAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEye(t)
		e.set(status.Error(codes.Unimplemented, "older"), nil)
		s.Renew(nil, 0)
		if e.want(time.Hour); e.asked != 0 || e.lines.Len() > 0 {
			t.Errorf("an older controller: asked %d times, %q", e.asked, e.lines.String())
		}
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n4"}}), 0)
		if e.want(time.Hour); e.asked > 20 || strings.Count(e.lines.String(), "\n") != 1 {
			t.Errorf("an older controller: asked %d times, %q", e.asked, e.lines.String())
		}
		e.set(status.Error(codes.Unimplemented, "older"), nil)
		s.Renew(nil, 0)
		if e.want(2 * time.Hour); e.asked != 0 {
			t.Errorf("an older controller: asked %d times to take back what it does not have", e.asked)
		}
		e.set(errors.New("away"), nil)
		e.want(time.Hour)
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n5"}}), 0)
		e.want(time.Minute)
		e.set(nil, nil)
		e.want(time.Minute, "n5/")
		e.set(nil, errors.New("no answer"))
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n6"}}), 0)
		e.want(100*time.Millisecond, "n6/")
		s.Renew(nil, 0)
		e.set(nil, nil)
		e.want(time.Minute, "/")
		e.set(nil, errors.New("no answer"))
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n7"}}), 0)
		e.want(100*time.Millisecond, "n7/")
		s.Renew(nil, 0)
		e.set(nil, nil)
		e.want(time.Minute, "/")
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n8"}}), time.Hour)
		synctest.Wait() // it waits for its turn
		s.Renew(sees(sightings.Sighting{SlotMoves: []string{"n9"}}), time.Hour)
		e.want(2*time.Hour, "n9/")
	})
}

// Guard: a node that the agent sees run is reported with the rest.
func TestWhoIsSeenIsTold(t *testing.T) {
	s := newSightingTeller(nil, tellerBoot, func() boottime.Instant { return 1 }, nil, "")
	sees := map[string]string{"n4": tellerBoot}
	if got := s.report(sightings.Encode(sightings.Sighting{Boot: tellerBoot, Sees: sees})).GetSees(); !maps.Equal(got, sees) {
		t.Errorf("%v", got)
	}
}

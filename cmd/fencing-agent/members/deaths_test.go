package members

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const tellerBoot = "024bc581b3a34be3"

// ear is a controller in memory to which an agent reports deaths, on virtual time.
type ear struct {
	t     *testing.T
	began time.Time

	mu     sync.Mutex
	kept   []*fencingv1.ProvenDeath
	last   uint64
	heard  []string // the reports since the test last read them
	asked  int
	fail   error
	lost   error        // like fail, but the report is kept
	lines  bytes.Buffer // the log
	before *string      // the earlier report that the agent was given; nil: none yet
}

func newEar(t *testing.T, kept ...string) (*ear, *DeathTeller) { return failingEar(t, nil, kept...) }

// failingEar fails from the start.
func failingEar(t *testing.T, fail error, kept ...string) (*ear, *DeathTeller) {
	e := &ear{t: t, began: time.Now(), fail: fail}
	for _, n := range kept {
		e.kept = append(e.kept, &fencingv1.ProvenDeath{Node: n, Boot: tellerBoot, Proof: "time", At: 1780000000})
	}
	clock := func() boottime.Instant { return boottime.Instant(time.Since(e.began)) + 1 }
	d := newDeathTeller(e.ask, e.known, tellerBoot, clock, slog.New(slog.NewTextHandler(&e.lines, nil)), "not accepted")
	d.Rand = rand.New(rand.NewPCG(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e, d
}

func (e *ear) known(s ownnode.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before != nil || !s.Known || !s.Exists {
		e.t.Errorf("told %+v", s)
	}
	text := s.Annotations[deaths.Annotation]
	e.before = &text
}

func (e *ear) ask(_ context.Context, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
	time.Sleep(time.Microsecond) // in the bubble's time: a call takes time, so no two reports have the same instant
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.fail != nil {
		return nil, e.fail
	}
	if r.GetAsk() {
		return &fencingv1.DeathsKnown{Deaths: e.kept}, nil
	}
	if r.GetBoot() != tellerBoot || r.GetAt() <= e.last {
		e.t.Errorf("boot %q, at %d after %d", r.GetBoot(), r.GetAt(), e.last)
	}
	e.last, e.kept = r.GetAt(), r.GetDeaths()
	var names []string
	for _, d := range r.GetDeaths() {
		names = append(names, d.GetNode())
	}
	slices.Sort(names)
	e.heard = append(e.heard, strings.Join(names, ""))
	return &fencingv1.DeathsKnown{Deaths: r.GetDeaths()}, e.lost
}

// want advances the time, and compares what was heard meanwhile.
func (e *ear) want(after time.Duration, heard ...string) {
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

func (e *ear) failing(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.asked = err, 0
}

func (e *ear) losing(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = err
}

func list(names ...string) *string {
	var out []deaths.Death
	for _, n := range names {
		out = append(out, deaths.Death{Node: n, Boot: tellerBoot, Proof: "time", At: time.Unix(1780000000, 0)})
	}
	text := deaths.Encode(out)
	return &text
}

func TestDeathTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := newEar(t)
		e.want(time.Minute)
		if e.before == nil || *e.before != "" {
			t.Errorf("before: %v", e.before)
		}
		d.Want(nil, time.Second)
		e.want(time.Hour) // no node was ever dead: nothing is kept
		d.Want(list("n4"), time.Second)
		e.want(2*time.Second, "n4")
		e.want(11*time.Minute, "n4", "n4") // repeated every five minutes
		d.Want(list("n4"), time.Second)
		e.want(time.Minute)
		d.Want(list("n4", "n5"), time.Hour)
		synctest.Wait()       // it waits for its turn
		d.Want(list("n5"), 0) // urgent
		e.want(time.Second, "n5")
		d.Want(nil, time.Second)
		e.want(time.Hour, "")
	})
}

// Deaths reported before a restart are reported again at once, so that they continue to count.
func TestDeathTellerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := newEar(t, "n4")
		e.want(time.Second)
		d.Want(e.before, time.Minute)
		e.want(time.Second, "n4")
		e.want(4 * time.Minute)
		d.Want(nil, 0)
		e.want(time.Second, "")
	})
}

// While the controller is away, the earlier report is unknown and nothing is reported. When it is back, the report is
// made.
func TestDeathTellerWithoutAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := newEar(t, "n4")
		e.failing(errors.New("connection refused"))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		e.mu.Lock()
		if e.before != nil && e.asked > 0 && *e.before == "" {
			t.Error("silence is taken for an answer")
		}
		e.mu.Unlock()
		e.failing(nil)
		e.want(marks.SlowestRetry)
		e.failing(status.Error(codes.Unavailable, "later"))
		d.Want(list("n4", "n5"), 0)
		e.want(time.Minute)
		e.failing(nil)
		e.want(marks.SlowestRetry, "n4n5")
		e.failing(status.Error(codes.Unimplemented, "an older one"))
		d.Want(list("n5"), 0)
		e.want(time.Hour)
		if e.asked > 20 { // ten while an upgrade may be in progress, then one in ten minutes
			t.Errorf("asked %d times in an hour", e.asked)
		}
		e.failing(nil)
		time.Sleep(marks.RefusedPause)
		synctest.Wait()
		e.mu.Lock()
		e.heard = slices.Compact(e.heard) // it may have been repeated by now
		e.mu.Unlock()
		e.want(0, "n5")
	})
}

// Guard: a death is taken back though the answer to its report was lost, so that nobody knows whether it was kept.
func TestDeathTellerTakesBackWhatMayBeKept(t *testing.T) {
	for _, before := range []*string{nil, list("n5")} {
		synctest.Test(t, func(t *testing.T) {
			e, d := newEar(t)
			d.Want(before, 0)
			time.Sleep(time.Second)
			synctest.Wait()
			e.losing(errors.New("connection reset"))
			d.Want(list("n4"), 0)
			time.Sleep(time.Second)
			synctest.Wait()
			e.losing(nil)
			d.Want(before, 0)
			time.Sleep(marks.SlowestRetry)
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if slices.ContainsFunc(e.kept, func(d *fencingv1.ProvenDeath) bool { return d.GetNode() == "n4" }) || before != nil && len(e.kept) != 1 {
				t.Errorf("the controller has %v", e.kept)
			}
		})
	}
}

// While a controller is upgraded, one replica takes deaths and the other does not yet. A death is reported when the
// upgrade is over, without the pause of ten minutes for a controller that remains an older version. Such a controller
// causes one line in the log.
func TestDeathTellerDuringAnUpgrade(t *testing.T) {
	older := status.Error(codes.Unimplemented, "an older one")
	for _, before := range []error{older, nil} {
		synctest.Test(t, func(t *testing.T) {
			e, d := failingEar(t, before)
			synctest.Wait()
			e.failing(older)
			d.Want(list("n4"), 0)
			e.want(30 * time.Second)
			e.failing(nil)
			e.want(time.Minute, "n4")
			if n := strings.Count(e.lines.String(), "level=WARN"); n != 1 {
				t.Errorf("%d lines:\n%s", n, e.lines.String())
			}
		})
	}
}

// Guard: an agent that began while the controller refused its first question asks again each minute. Until there is an
// answer, no wish is reported.
func TestDeathTellerAsksAControllerThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := failingEar(t, status.Error(codes.Unimplemented, "it takes no deaths"))
		d.Want(list("n4"), 0)
		e.want(41 * time.Minute)
		e.failing(nil)
		e.want(time.Minute, "n4")
	})
}

// Guard: a controller that was away when the agent began, and is away later, is logged both times.
func TestDeathTellerSaysThatAControllerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		e, d := failingEar(t, away)
		e.want(time.Minute)
		e.failing(nil)
		e.want(marks.SlowestRetry)
		e.failing(away)
		d.Want(list("n4"), 0)
		e.want(time.Hour)
		if n := strings.Count(e.lines.String(), "level=WARN"); n != 2 {
			t.Errorf("%d lines:\n%s", n, e.lines.String())
		}
	})
}

// In any order of wishes and failures, the controller has the last wish within a limited time, unless nothing was ever
// reported. The report is repeated before it stops counting.
func TestRandomDeathTeller(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed+run, 6))
			e, d := newEar(t)
			synctest.Wait()
			wanted := ""
			for range 20 {
				var names []string
				for _, n := range []string{"n4", "n5"} {
					if r.IntN(2) == 0 {
						names = append(names, n)
					}
				}
				wanted = strings.Join(names, "")
				value := list(names...)
				if len(names) == 0 {
					value = nil
				}
				e.failing(map[bool]error{true: errors.New("away")}[r.IntN(3) == 0])
				e.losing(map[bool]error{true: errors.New("lost")}[r.IntN(3) == 0])
				d.Want(value, time.Duration(r.IntN(3))*time.Second)
				time.Sleep(time.Duration(r.IntN(40)) * time.Second)
			}
			e.failing(nil)
			e.losing(nil)
			time.Sleep(marks.SlowestRetry + 3*time.Second)
			synctest.Wait()
			for range 3 {
				e.mu.Lock()
				got := ""
				for _, x := range []string{"n4", "n5"} {
					if slices.ContainsFunc(e.kept, func(d *fencingv1.ProvenDeath) bool { return d.GetNode() == x }) {
						got += x
					}
				}
				age := time.Since(e.began.Add(time.Duration(e.last)))
				if got != wanted || got != "" && age > deaths.Valid-5*time.Minute {
					e.t.Errorf("seed %d: the controller has %q for %v, want %q", seed+run, got, age, wanted)
				}
				e.mu.Unlock()
				time.Sleep(7 * time.Minute)
				synctest.Wait()
			}
		})
	}
}

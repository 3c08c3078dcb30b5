package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guards: what is none is left out, and what is right beside it counts; no more is read than may come; nothing that steers a terminal.
func TestFindingsAreRead(t *testing.T) {
	good := func() *fencingv1.FoundDeath {
		return &fencingv1.FoundDeath{Node: "n4", Boot: "024bc581b3a34be3", Proof: "power", Reference: "node-fence-n4", At: 1000}
	}
	all := &fencingv1.FoundDeaths{}
	for _, spoil := range []func(*fencingv1.FoundDeath){
		func(d *fencingv1.FoundDeath) { d.Boot = "24bc581b3a34be3" },
		func(d *fencingv1.FoundDeath) { d.Boot = "0000000000000000" },
		func(d *fencingv1.FoundDeath) { d.Boot = "024bc581b3a34bex" },
		func(d *fencingv1.FoundDeath) { d.Proof = "time" },
		func(d *fencingv1.FoundDeath) { d.Proof = "sentence" },
		func(d *fencingv1.FoundDeath) { d.Proof = "operator" },
		func(d *fencingv1.FoundDeath) { d.Proof = "" },
		func(d *fencingv1.FoundDeath) { d.Node = strings.Repeat("n", 254) },
		func(d *fencingv1.FoundDeath) { d.Node = "n\x1b[2J" },
		func(d *fencingv1.FoundDeath) { d.Reference = "a\nb" },
		func(d *fencingv1.FoundDeath) { d.Reference = strings.Repeat("n", 254) },
	} {
		d := good()
		spoil(d)
		all.Deaths = append(all.Deaths, d)
	}
	all.Deaths = append(all.Deaths, nil, good())
	want := []FoundDeath{{Node: "n4", Boot: 0x24bc581b3a34be3, Proof: watchdog.ProofPower, Reference: "node-fence-n4", At: time.Unix(1000, 0)}}
	if got := foundOf(all); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	many := &fencingv1.FoundDeaths{}
	for range 1000 {
		many.Deaths = append(many.Deaths, good())
	}
	if got := foundOf(many); len(got) != mostFound {
		t.Errorf("%d are read", len(got))
	}
	if foundOf(nil) != nil {
		t.Error("nothing is something")
	}
}

// Guard: an update without findings changes nothing; one with none ends what was found.
func TestFindingsOfAStream(t *testing.T) {
	f := newFollower(t)
	var got [][]FoundDeath
	f.finds = func(d []FoundDeath) { got = append(got, d) }
	f.told(&fencingv1.MembersUpdate{})
	f.told(&fencingv1.MembersUpdate{Found: &fencingv1.FoundDeaths{Deaths: []*fencingv1.FoundDeath{{Node: "n4", Boot: "024bc581b3a34be3", Proof: "kdump", Contradicted: true}}}})
	f.told(&fencingv1.MembersUpdate{})
	f.told(&fencingv1.MembersUpdate{Found: &fencingv1.FoundDeaths{}})
	if len(got) != 2 || len(got[0]) != 1 || got[0][0].Proof != watchdog.ProofKdump || !got[0][0].Contradicted || len(got[1]) != 0 {
		t.Errorf("%+v", got)
	}
}

// judge is an agent that is told.
type judge struct {
	mu    sync.Mutex
	heard []string // when, and what
	began time.Time
	say   func(d *FoundDeath, try int) error
	tries map[string]int
	log   bytes.Buffer
}

func (j *judge) tell(ctx context.Context, d *FoundDeath) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	what := d.Node
	if d.Contradicted {
		what += " lives"
	}
	j.tries[what]++
	j.heard = append(j.heard, fmt.Sprintf("%v %s", time.Since(j.began).Round(time.Second), what))
	return j.say(d, j.tries[what])
}

func newJudge(t *testing.T, say func(*FoundDeath, int) error) (*judge, *Finds) {
	j := &judge{began: time.Now(), say: say, tries: map[string]int{}}
	f := NewFinds(j.tell, slog.New(slog.NewTextHandler(&j.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return j, f
}

func (j *judge) since(after time.Duration) []string {
	time.Sleep(after) // of the bubble
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.heard
	j.heard = nil
	return out
}

func foundDead(nodes ...string) (out []FoundDeath) {
	for _, n := range nodes {
		out = append(out, FoundDeath{Node: n, Boot: 4, Proof: watchdog.ProofPower})
	}
	return out
}

// Guards: what speaks against a death passes, so it is told until it is believed, and then no more; who is not believed costs a line and two tries a
// minute; one that is not believed keeps no other waiting; what the controller does not say any more is not told.
func TestFindingsAreToldUntilTheyAreBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(d *FoundDeath, try int) error {
			if d.Node == "n4" && try > 2 || d.Node == "n6" {
				return nil
			}
			return errors.New("it was heard a moment ago")
		})
		f.Want(foundDead("n4", "n5", "n6"))
		got := j.since(time.Minute)
		if n := len(got); n < 3+2+5 || n > 20 || j.tries["n4"] != 3 || j.tries["n6"] != 1 {
			t.Errorf("%q", got)
		}
		f.Want(foundDead("n4", "n5", "n6")) // from another replica
		if got := j.since(time.Hour); len(got) > 2*60*2 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " n5") }) {
			t.Errorf("%d: %q", len(got), got[:min(len(got), 10)])
		}
		if n := strings.Count(j.log.String(), "not believed yet"); n != 2 {
			t.Errorf("%d lines:\n%s", n, j.log.String())
		}
		f.Want(nil)
		if got := j.since(time.Hour); len(got) != 0 {
			t.Errorf("%q", got)
		}
		f.Want(foundDead("n5")) // again
		if got := j.since(time.Second / 2); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

// Guard: what the controller takes back is told once, and ends what was told.
func TestFindingsThatAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(*FoundDeath, int) error { return errors.New("that boot has answered") })
		f.Want(foundDead("n4"))
		j.since(time.Minute)
		back := foundDead("n4")
		back[0].Contradicted = true
		f.Want(back)
		if got := j.since(time.Hour); len(got) != 1 || !strings.HasSuffix(got[0], " n4 lives") {
			t.Errorf("%q", got)
		}
	})
}

// Guard: a death that is on its way to the agent arrives before the word that takes it back, or not at all.
func TestFindingsAreTakenBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived []string // of who waits for its turn
		f := NewFinds(func(ctx context.Context, d *FoundDeath) error {
			if !d.Contradicted {
				<-ctx.Done()
				time.Sleep(time.Second) // of the bubble: the agent takes it when nobody waits for the answer any more
			}
			arrived = append(arrived, fmt.Sprint(d.Node, d.Contradicted))
			return errors.New("no")
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		f.Want(foundDead("n4"))
		synctest.Wait()
		back := foundDead("n4")
		back[0].Contradicted = true
		f.Want(back)
		time.Sleep(time.Minute) // of the bubble
		cancel()
		<-done
		if want := []string{"n4false", "n4true"}; !slices.Equal(arrived, want) {
			t.Errorf("%q", arrived)
		}
	})
}

// Guard: an agent that does not decide keeps nobody waiting for ever, and stops at once.
func TestFindingsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := NewFinds(func(ctx context.Context, _ *FoundDeath) error {
			calls++
			<-ctx.Done()
			return ctx.Err()
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		f.Want(foundDead("n4"))
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if calls < 2 {
			t.Errorf("asked %d times", calls)
		}
		cancel()
		<-done
	})
}

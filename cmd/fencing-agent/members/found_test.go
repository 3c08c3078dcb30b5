package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	lists "github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Guards: an entry that is not a finding is left out, and valid entries beside it count. No more is read than the
// limit. No text controls a terminal.
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
	want := []deaths.Death{{Node: "n4", Boot: "024bc581b3a34be3", Proof: "power", Reference: "node-fence-n4", At: time.Unix(1000, 0).UTC()}}
	if got := deaths.OfFound(all); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	many := &fencingv1.FoundDeaths{}
	for range 1000 {
		many.Deaths = append(many.Deaths, good())
	}
	if got := deaths.OfFound(many); len(got) != deaths.Most {
		t.Errorf("%d are read", len(got))
	}
	if deaths.OfFound(nil) != nil {
		t.Error("nothing is something")
	}
}

// Guard: an update without a list of findings changes nothing. An update with an empty list ends the findings.
func TestFindingsOfAStream(t *testing.T) {
	f := newFollower(t)
	var got [][]deaths.Death
	f.finds = func(d []deaths.Death) { got = append(got, d) }
	f.told(&fencingv1.MembersUpdate{})
	f.told(&fencingv1.MembersUpdate{Found: &fencingv1.FoundDeaths{Deaths: []*fencingv1.FoundDeath{{Node: "n4", Boot: "024bc581b3a34be3", Proof: "kdump", Contradicted: true}}}})
	f.told(&fencingv1.MembersUpdate{})
	f.told(&fencingv1.MembersUpdate{Found: &fencingv1.FoundDeaths{}})
	if len(got) != 2 || len(got[0]) != 1 || got[0][0].Proof != "kdump" || !got[0][0].Contradicted || len(got[1]) != 0 {
		t.Errorf("%+v", got)
	}
}

// finder is a server of lists that has found a death on the first stream, and nothing on the next stream.
type finder struct {
	fencingv1.UnimplementedFencingMembersServer
	streams atomic.Int32
	end     chan struct{} // ends the first stream
}

func (r *finder) Follow(call grpc.BidiStreamingServer[fencingv1.MembersReport, fencingv1.MembersUpdate]) error {
	if _, err := call.Recv(); err != nil {
		return err
	}
	u := &fencingv1.MembersUpdate{}
	first := r.streams.Add(1) == 1
	if first {
		u.Found = &fencingv1.FoundDeaths{Deaths: []*fencingv1.FoundDeath{{Node: "n4", Boot: "024bc581b3a34be3", Proof: "kdump"}}}
	}
	if err := call.Send(u); err != nil {
		return err
	}
	if first {
		<-r.end
		return nil
	}
	<-call.Context().Done()
	return call.Context().Err()
}

// Guard: the controller's findings end when the agent follows no controller: by the time it follows one again, that
// node may have been heard.
func TestFindingsEndWithTheStream(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		writeCertificate(t, dir) // by the bubble's clock
		f, listen := newFollower(t), bufconn.Listen(1<<16)
		f.clock = boottime.Clock(func() boottime.Instant { return boottime.Instant(time.Now().UnixNano()) })
		f.cfg.Members.Controller = config.Controller{Address: "c:1", ServerName: "fencing-controller", Credentials: dir}
		f.connect = func(ctx context.Context, _ string) (net.Conn, error) { return listen.DialContext(ctx) }
		var last atomic.Int32
		f.finds = func(d []deaths.Death) { last.Store(int32(len(d))) }
		r := &finder{end: make(chan struct{})}
		srv := grpc.NewServer(lists.Options(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.New(slog.DiscardHandler))...)
		fencingv1.RegisterFencingMembersServer(srv, r)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(listen) })
		wg.Go(func() { f.run(ctx, nil, func(string) {}, f.found) })
		time.Sleep(time.Second) // in the bubble's time
		synctest.Wait()
		if last.Load() != 1 {
			t.Error("nothing is found")
		}
		close(r.end)
		synctest.Wait()
		if r.streams.Load() != 1 || last.Load() != 0 {
			t.Errorf("while nobody is followed %d are found, on stream %d", last.Load(), r.streams.Load())
		}
		cancel()
		srv.Stop()
		wg.Wait()
	})
}

// judge is an agent that receives deaths.
type judge struct {
	mu    sync.Mutex
	heard []string // each entry has the time and the report
	began time.Time
	say   func(d *deaths.Death, try int) error
	tries map[string]int
	log   bytes.Buffer
}

func (j *judge) tell(ctx context.Context, d *deaths.Death) error {
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

func newJudge(t *testing.T, say func(*deaths.Death, int) error) (*judge, *Finds) {
	j := &judge{began: time.Now(), say: say, tries: map[string]int{}}
	f := NewFinds(j.tell, slog.New(slog.NewTextHandler(j, nil)))
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

// Write records the log.
func (j *judge) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Write(p)
}

// logged returns how often the log has a text, and the log.
func (j *judge) logged(text string) (int, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.log.String(), text), j.log.String()
}

// tried returns how often a death was reported.
func (j *judge) tried(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tries[what]
}

func (j *judge) since(after time.Duration) []string {
	time.Sleep(after) // in the bubble's time
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.heard
	j.heard = nil
	return out
}

func foundDead(nodes ...string) (out []deaths.Death) {
	for _, n := range nodes {
		out = append(out, deaths.Death{Node: n, Boot: "0000000000000004", Proof: "power"})
	}
	return out
}

// Guards: the reasons against a death may disappear. So a death is reported until it is believed, and not after that. A
// death that is not believed costs one log line, and two tries a minute, and delays no other death. A death that the
// controller no longer has is not reported.
func TestFindingsAreToldUntilTheyAreBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(d *deaths.Death, try int) error {
			if d.Node == "n4" && try > 2 || d.Node == "n6" {
				return nil
			}
			return errors.New("it was heard a moment ago")
		})
		f.Want(foundDead("n4", "n5", "n6"))
		got := j.since(time.Minute)
		if n := len(got); n < 3+2+5 || n > 20 || j.tried("n4") != 3 || j.tried("n6") != 1 {
			t.Errorf("%q", got)
		}
		f.Want(foundDead("n4", "n5", "n6")) // from another replica
		if got := j.since(time.Hour); len(got) > 2*60*2 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " n5") }) {
			t.Errorf("%d: %q", len(got), got[:min(len(got), 10)])
		}
		if n, log := j.logged("is not accepted yet"); n != 2 {
			t.Errorf("%d lines:\n%s", n, log)
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

// Guards: if the controller takes a death back, the report ends. The agent is told of the withdrawal for as long as the
// controller sends it, because a member that does not follow the controller may pass the death on meanwhile. The
// withdrawal is logged once.
func TestFindingsThatAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(*deaths.Death, int) error { return errors.New("that boot has answered") })
		f.Want(foundDead("n4"))
		j.since(time.Minute)
		back := foundDead("n4")
		back[0].Contradicted = true
		f.Want(back)
		if got := j.since(time.Minute); len(got) < 12 || len(got) > 13 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " n4 lives") }) {
			t.Errorf("%q", got)
		}
		if n, log := j.logged("withdrew its external confirmation"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log)
		}
		f.Want(nil)
		if got := j.since(time.Hour); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// Guard: a replica that is behind reports a death that another one has taken back. The agent ignores it, unless it
// names another boot.
func TestWhatWasTakenBackIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(d *deaths.Death, _ int) error {
			if d.Contradicted {
				return errors.New("that boot has answered")
			}
			return nil
		})
		back := foundDead("n4")
		back[0].Contradicted = true
		f.Want(back)
		j.since(time.Minute)
		f.Want(nil) // the stream ends
		j.since(time.Minute)
		f.Want(foundDead("n4", "n5"))
		if got := j.since(time.Minute); len(got) != 1 || !strings.HasSuffix(got[0], " n5") {
			t.Errorf("%q", got)
		}
		next := foundDead("n4")
		next[0].Boot = "0000000000000005"
		f.Want(next)
		if got := j.since(time.Minute); len(got) != 1 || !strings.HasSuffix(got[0], " n4") {
			t.Errorf("another boot: %q", got)
		}
	})
}

// Guard: if a controller sends reports without end, the agent's loop looks at them once a second.
func TestFindingsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJudge(t, func(*deaths.Death, int) error { return errors.New("the latest known boot is another one") })
		for boot := range uint64(10000) {
			f.Want([]deaths.Death{{Node: "n4", Boot: fmt.Sprintf("%016x", boot+1), Proof: "power"}})
			time.Sleep(time.Millisecond) // in the bubble's time
		}
		if got := j.since(0); len(got) < 9 || len(got) > 25 {
			t.Errorf("%d are told", len(got))
		}
	})
}

// Guard: a death under way to the agent arrives before the report that takes it back, or not at all.
func TestFindingsAreTakenBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived []string // the reports that wait for their turn
		f := NewFinds(func(ctx context.Context, d *deaths.Death) error {
			if !d.Contradicted {
				<-ctx.Done()
				time.Sleep(time.Second) // in the bubble's time: the agent reads it when no caller waits for the answer any more
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
		time.Sleep(time.Minute) // in the bubble's time
		cancel()
		<-done
		if first := slices.Index(arrived, "n4true"); first != 1 || slices.Contains(arrived[1:], "n4false") {
			t.Errorf("%q", arrived)
		}
	})
}

// Guard: an agent that does not decide makes no caller wait for ever, and stops at once.
func TestFindingsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := NewFinds(func(ctx context.Context, _ *deaths.Death) error {
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
		time.Sleep(time.Minute) // in the bubble's time
		synctest.Wait()
		if calls < 2 {
			t.Errorf("asked %d times", calls)
		}
		cancel()
		<-done
	})
}

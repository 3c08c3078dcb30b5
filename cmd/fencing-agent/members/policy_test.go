package members

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	lists "github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

func policy(mode string, timeout time.Duration, loss string) *fencingv1.MembersUpdate {
	return &fencingv1.MembersUpdate{Policy: policyMessage(grouppolicy.Policy{Mode: mode, Timeout: timeout, OnQuorumLoss: loss})}
}

// What differs is shown until it does not; a stream that shows no policy, as an older controller's, shows that there is none.
func TestPolicyIsCompared(t *testing.T) {
	f := newFollower(t)
	m := &Members{controller: f.controllerSource}
	if d := m.PolicyDiffers(); d != nil {
		t.Error(d)
	}
	f.told(policy("Watchdog", f.cfg.Watchdog.Timeout, "fence"))
	if d := m.PolicyDiffers(); len(d) != 0 || f.log.Len() != 0 {
		t.Error(d, f.log.String())
	}
	f.told(policy("Notify", 0, "wait"))
	want := []string{"mode is Watchdog, the group's policy says Notify", "onQuorumLoss is fence, the group's policy says wait"}
	if d := m.PolicyDiffers(); !reflect.DeepEqual(d, want) || !strings.Contains(f.log.String(), "the group's policy says wait") {
		t.Error(d, f.log.String())
	}
	f.told(&fencingv1.MembersUpdate{}) // a sign of life
	if d := m.PolicyDiffers(); !reflect.DeepEqual(d, want) {
		t.Error(d)
	}
	f.now = f.now.Add(controllerLines)
	f.policed(nil)
	if d := m.PolicyDiffers(); len(d) != 0 || !strings.Contains(f.log.String(), "no policy for the group any more") {
		t.Error(d, f.log.String())
	}
	if d := (&Members{}).PolicyDiffers(); d != nil {
		t.Error(d)
	}
}

// A policy that was not read for long says so, from where it differs on; one of a controller that does not tell its age does not.
func TestOldPoliciesSaySo(t *testing.T) {
	f := newFollower(t)
	m := &Members{controller: f.controllerSource}
	last := func() string {
		d := m.PolicyDiffers()
		return d[len(d)-1]
	}
	const differs = "mode is Watchdog, the group's policy says Notify"
	u := policy("Notify", 0, "")
	f.told(u)
	if f.now = f.now.Add(time.Hour); last() != differs {
		t.Errorf("a controller that does not say: %q", last())
	}
	u.PolicyAgeMs = 5000
	f.told(u)
	if last() != differs {
		t.Error(last())
	}
	if f.now = f.now.Add(3 * time.Minute); last() != "the controller read that policy 3m ago" {
		t.Error(last())
	}
	f.told(&fencingv1.MembersUpdate{PolicyAgeMs: 10}) // it is followed again
	if last() != differs {
		t.Error(last())
	}
	f.told(&fencingv1.MembersUpdate{PolicyAgeMs: uint64((26*time.Hour + time.Minute).Milliseconds())}) // and cannot read it
	if want := "the controller read that policy"; !strings.HasPrefix(last(), want) {
		t.Error(last())
	}
	for _, ms := range []uint64{1 << 62, 1<<64 - 1} {
		if f.told(&fencingv1.MembersUpdate{PolicyAgeMs: ms}); len(m.PolicyDiffers()) > 2 {
			t.Error(m.PolicyDiffers())
		}
	}
	f.told(policy("Notify", 0, "")) // by an older controller
	if last() != differs {
		t.Error(last())
	}
	f.told(policy("Watchdog", f.cfg.Watchdog.Timeout, "fence"))
	if f.now = f.now.Add(time.Hour); len(m.PolicyDiffers()) != 0 {
		t.Error(m.PolicyDiffers())
	}
}

// Guard: a controller may show any policy at any time. The agent's configuration, what it says it runs with, its lists and what it knows of its Node
// stay what they were; the log stays short, and the latest policy is what is shown.
func TestNothingOfAPolicyIsTakenUp(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	f := newFollower(t)
	f.metrics = newControllerMetrics(prometheus.NewRegistry())
	before, err := f.cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	report := f.report()
	for range 2000 {
		f.told(policy(pick("", "Watchdog", "Notify", "Off", strings.Repeat("\n", 5000)), time.Duration(r.Int64N(1<<45)-1<<44), pick("", "fence", "exclude", "wait", "never")))
	}
	after, err := f.cfg.YAML()
	if err != nil || string(before) != string(after) {
		t.Errorf("seed %d: the configuration is another one: %v\n%s", seed, err, after)
	}
	if !proto.Equal(report, f.report()) {
		t.Errorf("seed %d: it says %v, and said %v", seed, f.report(), report)
	}
	if len(f.lists) != 0 || len(f.states) != 0 || f.offer != nil {
		t.Errorf("seed %d: %+v, %+v", seed, f.lists, f.states)
	}
	if n := strings.Count(f.log.String(), "\n"); n > 1 || f.log.Len() > 1000 {
		t.Errorf("seed %d: %d lines:\n%s", seed, n, f.log.String())
	}
	f.told(policy("Notify", 0, ""))
	f.now = f.now.Add(controllerLines)
	f.tick(func(string) {}, f.found)
	if d := *f.differs.Load(); len(d) != 1 || !strings.HasSuffix(strings.TrimSpace(f.log.String()), `differs="mode is Watchdog, the group's policy says Notify"`) {
		t.Errorf("seed %d: %q\n%s", seed, d, f.log.String())
	}
}

// What an agent runs with is in the words of the policy, and no setting is left out.
func TestRuns(t *testing.T) {
	c := config.Default()
	if p := runs(c); p != (grouppolicy.Policy{Mode: "Watchdog", Timeout: c.Watchdog.Timeout, OnQuorumLoss: "fence"}) {
		t.Errorf("%+v", p)
	}
	c.Watchdog.Driver, c.OnQuorumLoss = config.DriverNone, config.LossWait
	if p := runs(c); p.Mode != "Notify" || p.OnQuorumLoss != "wait" {
		t.Errorf("%+v", p)
	}
}

// ruling is a server of lists that shows a policy on the first stream, and knows of none on the next, as one of an older version.
type ruling struct {
	fencingv1.UnimplementedFencingMembersServer
	streams atomic.Int32
	told    chan *fencingv1.MembersReport
	end     chan struct{} // ends the first stream
}

func (r *ruling) Follow(call grpc.BidiStreamingServer[fencingv1.MembersReport, fencingv1.MembersUpdate]) error {
	report, err := call.Recv()
	if err != nil {
		return err
	}
	r.told <- report
	first := r.streams.Add(1) == 1
	if err := call.Send(map[bool]*fencingv1.MembersUpdate{true: policy("Notify", 0, ""), false: {}}[first]); err != nil {
		return err
	}
	if first {
		<-r.end
		return nil
	}
	<-call.Context().Done()
	return call.Context().Err()
}

// Guard: what a controller has shown is not shown for ever: it ends with the first word of the next one that knows of no policy. While nobody is
// followed it stands.
func TestPolicyEndsWithAnOlderController(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		writeCertificate(t, dir) // by the clock in here
		f, listen := newFollower(t), bufconn.Listen(1<<16)
		f.clock = boottime.Clock(func() boottime.Instant { return boottime.Instant(time.Now().UnixNano()) })
		f.cfg.Members.Controller = config.Controller{Address: "c:1", ServerName: "fencing-controller", Credentials: dir}
		f.connect = func(ctx context.Context, _ string) (net.Conn, error) { return listen.DialContext(ctx) }
		r := &ruling{told: make(chan *fencingv1.MembersReport, 2), end: make(chan struct{})}
		srv := grpc.NewServer(lists.Options(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))...)
		fencingv1.RegisterFencingMembersServer(srv, r)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(listen) })
		wg.Go(func() { f.run(ctx, nil, func(string) {}, f.found) })
		if run := (<-r.told).GetRunning(); run.GetMode() != "Watchdog" || run.GetOnQuorumLoss() != "fence" || run.GetWatchdogTimeoutMs() != f.cfg.Watchdog.Timeout.Milliseconds() {
			t.Errorf("it says that it runs with %v", run)
		}
		synctest.Wait()
		differs := func() int {
			if d := f.differs.Load(); d != nil {
				return len(*d)
			}
			return -1
		}
		if n := differs(); n != 1 {
			t.Errorf("%d settings differ", n)
		}
		close(r.end)
		synctest.Wait()
		if n := differs(); n != 1 {
			t.Errorf("%d settings differ while nobody is followed", n)
		}
		<-r.told
		synctest.Wait()
		if n := differs(); n != 0 {
			t.Errorf("%d settings differ by a controller that knows of no policy", n)
		}
		cancel()
		srv.Stop()
		wg.Wait()
	})
}

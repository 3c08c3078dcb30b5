package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// watching is a running watch, whose pauses the test ends.
type watching struct {
	stdout, stderr *output
	paused         chan time.Duration // a pause of this length began
	resume         chan struct{}
	cancel         context.CancelFunc
	ended          chan error
}

type follower func(ctx context.Context, conn *agentConn, connected func()) error

// watch starts a watcher of the socket. The follower prints to the given environment.
func watch(t *testing.T, path string, stdout *output, follow func(*environment) follower) *watching {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{
		stdout: stdout, stderr: newOutput(), paused: make(chan time.Duration), resume: make(chan struct{}),
		cancel: cancel, ended: make(chan error, 1),
	}
	env := &environment{
		name: "fencectl", stdin: strings.NewReader(""), stdout: w.stdout, stderr: w.stderr, now: func() time.Time { return noon },
		getenv: func(key string) string { return map[string]string{"TZ": "UTC"}[key] },
	}
	watcher := &watcher{env: env, agent: &agentFlags{socket: path, timeout: patience}, pause: func(ctx context.Context, d time.Duration) {
		select {
		case w.paused <- d:
		case <-ctx.Done():
			return
		}
		select {
		case <-w.resume:
		case <-ctx.Done():
		}
	}}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.ended <- watcher.run(ctx, follow(env))
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
		goleak.VerifyNone(t, leaks)
	})
	return w
}

func events(format string) func(*environment) follower {
	return func(env *environment) follower { return newEventLog(env, format).follow }
}

// pausing waits until the watch has lost its agent.
func (w *watching) pausing(t *testing.T) time.Duration {
	t.Helper()
	select {
	case d := <-w.paused:
		return d
	case err := <-w.ended:
		t.Fatalf("the watch ended: %v", err)
	case <-time.After(patience):
		t.Fatalf("the watch goes on; stderr %q", w.stderr)
	}
	return 0
}

func (w *watching) waitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the watch goes on; stderr %q", w.stderr)
		return nil
	}
}

func member(name string) publish.Node {
	return publish.Node{Name: name, Addresses: map[string]string{"mgmt": "10.0.0." + name[1:], "data": "10.1.0." + name[1:]}}
}

func members(names ...string) (all []publish.Node) {
	for _, n := range names {
		all = append(all, member(n))
	}
	return all
}

func left(name string, at time.Time) publish.Edge {
	return publish.Edge{Type: fencingv1.EventType_LEFT, Node: publish.Node{Name: name}, Time: at}
}

func join(n publish.Node, at time.Time) publish.Edge {
	return publish.Edge{Type: fencingv1.EventType_JOIN, Node: n, Time: at}
}

func lines(n int) func(string) bool {
	return func(text string) bool { return strings.Count(text, "\n") >= n }
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("%s is\n%swant\n%s", what, got, want)
	}
}

// eventLines is also shown in docs/fencectl.md.
const eventLines = `
2026-03-01 12:00:00.000  NOW   n1   data=10.1.0.1 mgmt=10.0.0.1
2026-03-01 12:00:00.000  NOW   n10  data=10.1.0.10 mgmt=10.0.0.10
2026-03-01 12:00:00.000  NOW   n2   data=10.1.0.2 mgmt=10.0.0.2
2026-03-01 12:00:01.000  LEFT  n10  data=10.1.0.10 mgmt=10.0.0.10
2026-03-01 12:00:50.000  JOIN  n10  data=10.1.0.10 mgmt=10.0.0.10  (was away for 49s)
2026-03-01 12:00:51.000  JOIN  n2   data=10.1.9.2 mgmt=10.0.0.2  (addresses changed)
2026-03-01 12:00:52.007  JOIN  n4   data=10.1.0.4 mgmt=10.0.0.4
`

func TestWatchPrintsTheSetAndThenEvents(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.hub.Update(members("n1", "n2", "n10"), nil)
	w := watch(t, a.path, newOutput(), events(formatTable))
	w.stdout.until(t, "the set", lines(3))
	moved := member("n2")
	moved.Addresses["data"] = "10.1.9.2"
	a.hub.Publish(left("n10", noon.Add(time.Second)), join(member("n10"), noon.Add(50*time.Second)),
		join(moved, noon.Add(51*time.Second)), join(member("n4"), noon.Add(52*time.Second+7*time.Millisecond)))
	w.stdout.until(t, "the events", lines(7))
	w.cancel()
	if err := w.waitEnd(t); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	wantText(t, "stdout", w.stdout.String(), eventLines)
	wantText(t, "stderr", w.stderr.String(), "")
}

func TestWatchOfNobody(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.hub.Update(nil, nil)
	w := watch(t, a.path, newOutput(), events(formatTable))
	w.stdout.until(t, "the empty set", lines(1))
	wantText(t, "stdout", w.stdout.String(), "2026-03-01 12:00:00.000  NOW   no node is available\n")
}

func TestWatchJSON(t *testing.T) {
	a := startAgent(t, publish.HubConfig{Source: "n1"})
	a.hub.Update(members("n1", "n2"), nil)
	w := watch(t, a.path, newOutput(), events(formatJSON))
	w.stdout.until(t, "the set", lines(1))
	a.hub.Publish(left("n2", noon))
	w.stdout.until(t, "the event", lines(2))
	wantText(t, "stdout", w.stdout.String(), `
{"nodes":[{"name":"n1","addresses":{"data":"10.1.0.1","mgmt":"10.0.0.1"}},{"name":"n2","addresses":{"data":"10.1.0.2","mgmt":"10.0.0.2"}}]}
{"node":{"name":"n2","addresses":{"data":"10.1.0.2","mgmt":"10.0.0.2"}},"time":"2026-03-01T12:00:00Z","type":"LEFT","sourceName":"n1"}
`)
	var ev fencingv1.Event
	if err := protojson.Unmarshal([]byte(strings.Split(w.stdout.String(), "\n")[1]), &ev); err != nil {
		t.Error(err)
	}
}

// TestWatchComesBack replaces the agent: it is away, then it has no view yet, then it has one.
func TestWatchComesBack(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.hub.Update(members("n1", "n2", "n3"), nil)
	w := watch(t, a.path, newOutput(), events(formatTable))
	w.stdout.until(t, "the set", lines(3))
	a.hub.Publish(join(member("n4"), noon))
	w.stdout.until(t, "the last event", lines(4))
	a.stop(t.Context())
	for range 3 { // the stream ends, then there is no socket, twice
		w.pausing(t)
		w.resume <- struct{}{}
	}
	w.pausing(t)
	b := startAgentAt(t, a.path, publish.HubConfig{})
	w.resume <- struct{}{}
	w.pausing(t)
	moved := member("n4")
	moved.Addresses["data"] = "10.1.9.4"
	b.hub.Update(append(members("n1", "n3", "n5"), moved), nil)
	w.resume <- struct{}{}
	w.stdout.until(t, "the differences", lines(7))
	b.hub.Publish(left("n5", noon))
	w.stdout.until(t, "an event of the new agent", lines(8))
	_, after, _ := strings.Cut(w.stdout.String(), "mgmt=10.0.0.4\n")
	wantText(t, "stdout after the first set", after, `
2026-03-01 12:00:00.000  JOIN  n4  data=10.1.9.4 mgmt=10.0.0.4  (addresses changed while disconnected)
2026-03-01 12:00:00.000  JOIN  n5  data=10.1.0.5 mgmt=10.0.0.5  (while disconnected)
2026-03-01 12:00:00.000  LEFT  n2  data=10.1.0.2 mgmt=10.0.0.2  (while disconnected)
2026-03-01 12:00:00.000  LEFT  n5  data=10.1.0.5 mgmt=10.0.0.5
`)
	wantText(t, "stderr", w.stderr.String(), strings.ReplaceAll(`
fencectl: agent at PATH: the agent is stopping: keep the last known nodes and try again; trying again
fencectl: agent socket PATH: it does not exist: is the agent running on this node? If its api.socket is another path, say so with --socket or $FENCING_AGENT_SOCKET; trying again
fencectl: agent at PATH: the agent has no view of its group yet: keep the last known nodes and try again; trying again
fencectl: connected again
`, "PATH", a.path))
}

// TestWatchIsOneTooMany: the watch is refused with RESOURCE_EXHAUSTED, before any headers.
func TestWatchIsOneTooMany(t *testing.T) {
	a := startAgent(t, publish.HubConfig{MaxSubscribers: 1})
	a.hub.Update(members("n1"), nil)
	other, err := a.hub.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, a.path, newOutput(), events(formatTable))
	w.pausing(t)
	if got := w.stderr.String(); !strings.Contains(got, "too many clients are subscribed") || w.stdout.String() != "" {
		t.Errorf("stderr %q, stdout %q", got, w.stdout)
	}
	other.Close()
	w.resume <- struct{}{}
	w.stdout.until(t, "the set", lines(1))
}

// gate blocks the first write after it was armed, until it is opened.
type gate struct {
	*output
	armed   chan struct{} // closed: the next write waits
	waiting chan struct{}
	open    chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case <-g.armed:
		select {
		case <-g.waiting:
		default:
			close(g.waiting)
		}
		<-g.open
	default:
	}
	return g.output.Write(p)
}

// TestWatchTooSlow stops reading, as a pager does, until the agent ends the stream with
// RESOURCE_EXHAUSTED. Afterwards the lines must add up to the set again.
func TestWatchTooSlow(t *testing.T) {
	a := startAgent(t, publish.HubConfig{MaxSubscribers: 1, QueueLength: 64})
	a.hub.Update(members("n1", "n2"), nil)
	g := &gate{output: newOutput(), armed: make(chan struct{}), waiting: make(chan struct{}), open: make(chan struct{})}
	w := watch(t, a.path, g.output, func(env *environment) follower {
		env.stdout = g
		return newEventLog(env, formatTable).follow
	})
	w.stdout.until(t, "the set", lines(2))
	close(g.armed)
	big := member("n3")
	big.Addresses["data"] = strings.Repeat("x", 4000) // so that the transport is full soon
	a.hub.Publish(join(big, noon))
	<-g.waiting
	deadline := time.Now().Add(patience)
	for {
		if s, err := a.hub.Subscribe(); err == nil { // a free slot shows that the agent has ended the watch's stream
			s.Close()
			break
		} else if !errors.Is(err, publish.ErrTooMany) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		a.hub.Publish(left("n3", noon), join(big, noon))
	}
	a.hub.Publish(left("n1", noon))
	close(g.open)
	w.pausing(t)
	if got := w.stderr.String(); !strings.Contains(got, "events were read too slowly") {
		t.Errorf("stderr %q", got)
	}
	w.resume <- struct{}{}
	w.stderr.until(t, "the reconnection", func(text string) bool { return strings.Contains(text, "connected again") })
	a.hub.Publish(left("n2", noon))
	w.stdout.until(t, "an event after it", func(text string) bool { return strings.Contains(text, "LEFT  n2") })
	if got := replay(w.stdout.String()); !slices.Equal(got, []string{"n3"}) {
		t.Errorf("the lines add up to %v", got)
	}
}

// replay returns the set that a reader of the lines would have.
func replay(text string) (present []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		kind, name := fields[2], fields[3]
		present = slices.DeleteFunc(present, func(n string) bool { return n == name })
		if kind != "LEFT" {
			present = append(present, name)
		}
	}
	slices.Sort(present)
	return present
}

func TestWatchFailsWhenItCannotPrint(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.hub.Update(members("n1"), nil)
	a.set(scene(t, "healthy"))
	for _, args := range [][]string{{"watch"}, {"watch", "-o", "json"}, {"watch", "--status"}, {"status"}, {"status", "-o", "json"}} {
		var errs strings.Builder
		code := run(t.Context(), &environment{
			name: "fencectl", stdout: fullDisk{}, stderr: &errs,
			getenv: func(key string) string { return map[string]string{envSocket: a.path}[key] },
		}, args)
		if code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit %d, stderr %q", args, code, errs.String())
		}
	}
}

// TestInterrupt presses Ctrl-C on the real program.
func TestInterrupt(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.hub.Update(members("n1"), nil)
	a.set(scene(t, "healthy"))
	for _, args := range [][]string{{"watch"}, {"watch", "--status"}} {
		stdout, stderr := newOutput(), newOutput()
		cmd := exec.CommandContext(t.Context(), "fencectl", append(args, "--socket", a.path)...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stdout.until(t, "the first line", lines(1))
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || stderr.String() != "" {
			t.Errorf("%v ended with %v, stderr %q", args, err, stderr)
		}
	}
}

// TestPatienceEndsWithTheAnswer: the time limit is for the first answer. What follows may take any time. The test uses
// virtual time.
func TestPatienceEndsWithTheAnswer(t *testing.T) {
	for _, verb := range []string{"events", "status"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := publish.NewHub(publish.HubConfig{})
				hub.Update(members("n1"), nil)
				var present atomic.Pointer[fencingv1.Status]
				present.Store(scene(t, "healthy"))
				server, err := publish.New(publish.Config{Hub: hub, Status: func() *fencingv1.Status { return proto.CloneOf(present.Load()) }})
				if err != nil {
					t.Fatal(err)
				}
				listener := bufconn.Listen(1 << 20)
				go func() { _ = server.Serve(listener) }()
				client, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
				if err != nil {
					t.Fatal(err)
				}
				out := newOutput()
				env := &environment{stdout: out, now: func() time.Time { return noon }, getenv: func(string) string { return "UTC" }}
				follow, next := newEventLog(env, formatTable).follow, func() { hub.Publish(left("n1", noon)) }
				if verb == "status" {
					follow, next = newStatusLog(env, formatTable, new(shownFlags)).follow, func() { present.Store(scene(t, "split-lost")); server.StatusChanged() }
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- follow(ctx, &agentConn{ClientConn: client, patience: 5 * time.Second}, func() {}) }()
				time.Sleep(time.Hour)
				next()
				time.Sleep(time.Second)
				if got := out.String(); strings.Count(got, "\n") != 2 {
					t.Errorf("after an hour it has printed\n%s", got)
				}
				cancel()
				<-ended
				client.Close()
				if err := server.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPausesGrow: the pauses grow until the agent is there again.
func TestPausesGrow(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	w := watch(t, a.path, newOutput(), events(formatTable))
	for tries := range 6 {
		if d := w.pausing(t); d < min(longestPause, firstPause<<tries)/2 {
			t.Errorf("pause %d lasts %v", tries, d)
		}
		if tries == 5 {
			a.hub.Update(members("n1"), nil)
		}
		w.resume <- struct{}{}
	}
	w.stdout.until(t, "the set", lines(1))
	a.stop(t.Context())
	if d := w.pausing(t); d >= firstPause {
		t.Errorf("the first pause after a connection lasts %v", d)
	}
	if n := strings.Count(w.stderr.String(), "no view of its group yet"); n != 1 {
		t.Errorf("the same reason was told %d times", n)
	}
}

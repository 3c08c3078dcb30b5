package client

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func TestSetThenEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3"), nil)
		follow(t, a, 0, w)
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2 n3", "", "+n1 +n2 +n3")

		hub.Publish(left("n2"))
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n3", "n2", "-n2")
		hub.Publish(join("n2"))
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2 n3", "", "+n2")
		moved := join("n3")
		moved.Node.Addresses["mgmt"] = "10.9.9.9"
		hub.Publish(moved)
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2 n3@10.9.9.9", "", "+n3@10.9.9.9")
		if got := w.last().revision; got != hub.Revision() {
			t.Errorf("revision %d, the agent's is %d", got, hub.Revision())
		}
	})
}

// TestSlowCallback: while the callback does not return, it is not called again. Then one call reports what is left: for
// each node, the edges from the last known state to the present one.
func TestSlowCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3", "n4"), nil)
		stuck := make(chan struct{})
		w.busy = func() { <-stuck }
		follow(t, a, 0, w)
		synctest.Wait()

		hub.Publish(left("n3"), left("n2"), join("n9"), join("n2"), left("n9"), left("n4"), join("n4"), left("n4"), join("n8"))
		synctest.Wait()
		if n := len(w.seen()); n != 1 {
			t.Fatalf("%d calls at once", n)
		}
		close(stuck)
		synctest.Wait()
		// n9 joined and left unseen; n2 left and came back; n4 left, as far as the follower knows.
		want(t, w.last(), "connected", "n1 n2 n8", "n3 n4 n9", "-n3 -n2 +n2 -n4 +n8")
	})
}

// TestCallbackStuckOnAnEvent: the goroutine that reads the stream calls the callback, so another goroutine must read
// on. Otherwise the agent would end the stream of a subscriber that is only slow.
func TestCallbackStuckOnAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3"), nil)
		follow(t, a, 0, w)
		synctest.Wait()

		stuck := make(chan struct{})
		w.busy = func() { <-stuck }
		time.Sleep(lull) // otherwise Follow's goroutine would make the call
		hub.Publish(left("n2"))
		time.Sleep(2 * callbackPatience)
		for range 2000 { // more than the agent queues and the stream buffers
			hub.Publish(left("n3"), join("n3"))
			synctest.Wait()
		}
		if n := len(w.seen()); n != 2 {
			t.Fatalf("%d calls, one of them does not return", n)
		}
		close(stuck)
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n3", "n2", "-n3 +n3")
		if got := w.last().revision; got != hub.Revision() {
			t.Errorf("revision %d, the agent's is %d", got, hub.Revision())
		}
		hub.Publish(join("n2"))
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2 n3", "", "+n2")
	})
}

// TestManyEventsFewCalls: events that arrive during a callback are reported together after it, although the goroutine
// that reads the stream has made the call.
func TestManyEventsFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		names := []string{"n1"}
		var edges []publish.Edge
		for i := range 500 {
			names = append(names, fmt.Sprintf("n%d", 100+i))
			edges = append(edges, left(names[i+1]))
		}
		hub.Update(nodes(names...), nil)
		follow(t, a, 0, w)
		time.Sleep(lull)
		synctest.Wait()
		w.busy = func() { time.Sleep(time.Millisecond) }
		before := len(w.seen())
		hub.Publish(edges...)
		time.Sleep(time.Second / 2)
		if got := w.last(); got.available != "n1" || got.revision != hub.Revision() {
			t.Errorf("in the end the callback was told [%s], revision %d; the agent's is %d", got.available, got.revision, hub.Revision())
		}
		if n := len(w.seen()) - before; n > 10 {
			t.Errorf("%d calls for %d events at once", n, len(edges))
		}
	})
}

// TestOneCallAtATime: no two calls overlap, although both the goroutine that reads a stream and Follow's goroutine
// call.
func TestOneCallAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3"), nil)
		var inside, together atomic.Int32
		w.busy = func() {
			together.Add(max(0, inside.Add(1)-1))
			time.Sleep(3 * callbackPatience / 2)
			inside.Add(-1)
		}
		follow(t, a, time.Minute, w)
		synctest.Wait()
		for i := range 60 {
			e := left("n2")
			if i%2 == 1 {
				e = join("n2")
			}
			hub.Publish(e)
			time.Sleep(time.Duration(i) * time.Millisecond)
			if i%20 == 19 {
				a.cut()
			}
		}
		time.Sleep(2 * longestPause)
		want(t, w.last(), "connected", "n1 n2 n3", "", w.last().edges)
		if n := together.Load(); n > 0 {
			t.Errorf("%d calls while another one ran", n)
		}
	})
}

// TestFloodWhileTheCallbackIsStuck: the follower keeps at most one entry for each node, and the agent does not end a
// stream whose callback is slow.
func TestFloodWhileTheCallbackIsStuck(t *testing.T) {
	a, w := newAgent(t), newWitness()
	hub := a.start()
	hub.Update(nodes("n1", "n2"), nil)
	stuck := make(chan struct{})
	w.busy = func() { <-stuck }
	f := newFollower(mustDefaults(t, Config{Dial: a.dial}), w.use)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.run(ctx); close(done) }()
	<-w.more

	const names, rounds = 50, 200 // ten times what the agent queues
	for i := range rounds {
		for n := range names / 2 {
			hub.Publish(join(fmt.Sprintf("n%d", 10+(i*names/2+n)%(names*rounds))), left(fmt.Sprintf("n%d", 10+(i*names/2+n)%(names*rounds))))
		}
		eventually(t, "the flood is read", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := len(f.pending); n > 1 {
				t.Fatalf("%d changes are kept, of nodes that came and went", n)
			}
			return f.connected && f.revision == hub.Revision()
		})
	}
	close(stuck)
	cancel()
	<-done
	if n := len(f.left); n > maxLeft {
		t.Errorf("%d names are kept as left, more than %d", n, maxLeft)
	}
}

func mustDefaults(t testing.TB, c Config) Config {
	t.Helper()
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls until ok returns true. Tests use it for states that no event reports.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up: %s", what)
		}
	}
}

// TestAgentIsReplaced: the last set stays in force. When the next agent answers, the changes since then are reported as
// edges.
func TestAgentIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		a.start().Update(nodes("n1", "n2", "n3"), nil)
		follow(t, a, 10*time.Second, w)
		synctest.Wait()
		a.stop()
		synctest.Wait()
		want(t, w.last(), "held", "n1 n2 n3", "", "")
		if err := w.last().err; err == nil {
			t.Error("no reason is given")
		}
		hub := a.start() // it has no view yet
		time.Sleep(4 * time.Second)
		want(t, w.last(), "held", "n1 n2 n3", "", "")
		hub.Update(nodes("n1", "n3", "n4"), nil)
		time.Sleep(longestPause)
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n3 n4", "n2", "-?n2 +?n4")
		if err := w.last().err; err != nil {
			t.Errorf("connected, and yet %v", err)
		}
	})
}

// TestConnectionBreaks: a node that left and came back during the break is reported with both edges.
func TestConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3"), nil)
		follow(t, a, 10*time.Second, w)
		synctest.Wait()
		a.cut()
		synctest.Wait()
		want(t, w.last(), "held", "n1 n2 n3", "", "")
		hub.Publish(left("n3"))
		time.Sleep(time.Millisecond)
		hub.Publish(join("n3"))
		time.Sleep(longestPause)
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2 n3", "", "-?n3 +?n3")
	})
}

// TestHold checks to the millisecond how long the last update stays in force.
func TestHold(t *testing.T) {
	const hold, goneAfter = 3 * time.Second, 10500 * time.Millisecond
	for _, tt := range []struct {
		name      string
		gone      func(*agent)
		silentAt  time.Duration
		back      func(*agent)
		connected bool // while the agent does not answer
	}{
		// The agent's last sign of life is the end of its stream.
		{"killed", (*agent).stop, goneAfter + hold, func(a *agent) { a.start().Update(nodes("n1"), nil) }, false},
		// The agent last answered ten seconds after the start, half a second before the freeze.
		{"frozen", (*agent).freeze, 10*time.Second + hold, (*agent).thaw, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, w := newAgent(t), newWitness()
				a.start().Update(nodes("n1", "n2"), nil)
				follow(t, a, hold, w)
				time.Sleep(goneAfter)
				tt.gone(a)
				time.Sleep(tt.silentAt - goneAfter - time.Nanosecond)
				synctest.Wait()
				if !w.last().inForce {
					t.Fatalf("given up after %v, at the latest word plus %v", w.last().at, hold)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				want(t, w.last(), "silent", "n1 n2", "", "")
				if w.last().at != tt.silentAt || w.last().connected != tt.connected {
					t.Fatalf("silent at %v, connected %v; want %v, %v", w.last().at, w.last().connected, tt.silentAt, tt.connected)
				}
				time.Sleep(7 * time.Second)
				tt.back(a)
				time.Sleep(longestPause)
				synctest.Wait()
				if !w.last().inForce || !w.last().connected || w.last().err != nil {
					t.Fatalf("the agent is back, told was %+v", w.last())
				}
			})
		})
	}
}

// TestNoAgentAtAll: after the hold time the callback learns, once, that there is no agent.
func TestNoAgentAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		follow(t, a, 5*time.Second, w)
		time.Sleep(time.Minute)
		synctest.Wait()
		if all := w.seen(); len(all) != 1 || all[0].at != 5*time.Second || all[0].inForce || !strings.Contains(fmt.Sprint(all[0].err), "refused") {
			t.Fatalf("told %+v; want one update after the hold time", all)
		}
		a.start().Update(nodes("n1"), nil)
		time.Sleep(longestPause)
		synctest.Wait()
		want(t, w.last(), "connected", "n1", "", "+n1")
	})
}

// TestNodeThatLeftBefore: the status names nodes that had LEFT before this follower started, but no node that the agent
// has never met.
func TestNodeThatLeftBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := newAgent(t), newWitness()
		roster := []*fencingv1.NodeStatus{
			{Name: "n1", Available: true, State: fencingv1.NodeState_NODE_STATE_REACHABLE},
			{Name: "n2", LeftReason: "unreachable", State: fencingv1.NodeState_NODE_STATE_UNREACHABLE, PrevDisconnect: timestamppb.Now()},
			{Name: "n3", State: fencingv1.NodeState_NODE_STATE_UNKNOWN},
			{Name: "n4", State: fencingv1.NodeState_NODE_STATE_FENCED},
		}
		a.status = func() *fencingv1.Status { return &fencingv1.Status{Nodes: roster} }
		hub := a.start()
		hub.Update(nodes("n1"), nil)
		follow(t, a, 0, w)
		synctest.Wait()
		want(t, w.last(), "connected", "n1", "n2 n4", "")

		for _, e := range []publish.Edge{join("n5"), left("n5"), join("n2")} { // one call or two calls may report both
			hub.Publish(e)
			synctest.Wait()
		}
		want(t, w.last(), "connected", "n1 n2", "n4 n5", "+n2")
		time.Sleep(rosterInterval + askInterval) // long enough for the follower to learn that n5 is not a member
		synctest.Wait()
		want(t, w.last(), "connected", "n1 n2", "n4", "")
	})
}

// TestConnectionIsUsedOnce: the set and the events must come from one agent.
func TestConnectionIsUsedOnce(t *testing.T) {
	f := &follower{cfg: mustDefaults(t, Config{Dial: newAgent(t).dial})}
	dial := f.cfg.dialOnce()
	if _, err := dial(t.Context(), ""); err == errOnce {
		t.Error("the first attempt is refused")
	}
	if _, err := dial(t.Context(), ""); err != errOnce {
		t.Errorf("the second attempt: %v", err)
	}
}

func TestConfigThatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Socket: "relative.sock"}, "must be absolute"},
		{Config{Socket: "/" + strings.Repeat("x", 107)}, "107"},
		{Config{Hold: time.Millisecond}, "at least 1s"},
	} {
		if err := Follow(t.Context(), tt.cfg, func(Update) {}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.cfg, err, tt.want)
		}
	}
	if err := Follow(t.Context(), Config{}, nil); err == nil {
		t.Error("a missing callback is not an error")
	}
}

package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// scene is the status that an agent serves.
type scene struct {
	mu    sync.Mutex
	began time.Time
	st    *fencingv1.Status
	// halted is the time at which the agent's loop took its last status; zero while the loop runs.
	halted time.Time
	ahead  time.Duration // by how much the wall clock is ahead
}

func newScene() *scene {
	return &scene{began: time.Now(), st: &fencingv1.Status{
		Self: &fencingv1.NodeIdentity{Name: "n1", BootNonce: "0000000000000001"}, Verdict: &fencingv1.Verdict{Permission: fencingv1.Permission_PERMISSION_FEED, Quorum: true},
		Nodes: []*fencingv1.NodeStatus{{Name: "n1", Reachable: true}, {Name: "n2", Reachable: true}, {Name: "n3", Reachable: true}},
	}}
}

func (s *scene) status() *fencingv1.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := proto.CloneOf(s.st)
	now := time.Now()
	if !s.halted.IsZero() {
		now = s.halted
	}
	st.Time, st.Self.Uptime = timestamppb.New(now.Add(s.ahead)), durationpb.New(now.Sub(s.began))
	return st
}

func (s *scene) change(f func(st *fencingv1.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.st)
}

// fence makes the agent report a node as dead, with the proof of its death.
func fence(i int, boot string) func(*fencingv1.Status) {
	return func(st *fencingv1.Status) {
		n := st.Nodes[i]
		n.State, n.Reachable = fencingv1.NodeState_NODE_STATE_FENCED, false
		n.Death = &fencingv1.Death{Proof: fencingv1.Proof_PROOF_TIME, BootNonce: boot, Time: timestamppb.Now()}
	}
}

// back makes the agent report that a node answers, under a boot.
func back(i int, boot string, death bool) func(*fencingv1.Status) {
	return func(st *fencingv1.Status) {
		n := st.Nodes[i]
		n.State, n.Reachable, n.Token = fencingv1.NodeState_NODE_STATE_REACHABLE, true, &fencingv1.Token{BootNonce: boot}
		if !death {
			n.Death = nil
		}
	}
}

// statusWitness records what differs from one call to the next.
type statusWitness struct {
	mu   sync.Mutex
	all  []string
	last StatusUpdate
	busy func()
}

func (w *statusWitness) use(u StatusUpdate) {
	w.mu.Lock()
	w.last = u
	for _, d := range u.Proven {
		w.all = append(w.all, "+"+d.Node+"/"+d.Boot)
	}
	for _, d := range u.Withdrawn {
		w.all = append(w.all, "-"+d.Node+"/"+d.Boot)
	}
	busy := w.busy
	w.mu.Unlock()
	if busy != nil {
		busy()
	}
}

func (w *statusWitness) expect(t *testing.T, when string, mayAct bool, fenced int, want ...string) {
	t.Helper()
	time.Sleep(5 * time.Second) // in the bubble's time; a status is repeated meanwhile
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := fmt.Sprint(w.all); got != fmt.Sprint(want) || w.last.MayAct() != mayAct || len(w.last.Fenced()) != fenced {
		t.Errorf("%s: told %s, may act %v, %d fenced; want %v, %v, %d", when, got, w.last.MayAct(), len(w.last.Fenced()), want, mayAct, fenced)
	}
	w.all = nil
}

func followStatus(t *testing.T, a *agent, w *statusWitness) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- FollowStatus(ctx, Config{Hold: 15 * time.Second, Dial: a.dial}, w.use) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("FollowStatus: %v", err)
		}
	})
}

// Guards: each death is reported once, with its boot. The return of a node under another boot withdraws nothing, but
// the return of the boot that had ended does. Nothing may be done without quorum.
func TestDeathsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, w := newAgent(t), newScene(), &statusWitness{}
		a.status = s.status
		a.start()
		followStatus(t, a, w)
		w.expect(t, "at first", true, 0)
		s.change(fence(1, "21"))
		w.expect(t, "fenced", true, 1, "+n2/21")
		s.change(back(1, "23", true))
		w.expect(t, "back under another boot", true, 0)
		s.change(fence(1, "23"))
		w.expect(t, "fenced again", true, 1, "+n2/23")
		s.change(back(1, "23", true))
		w.expect(t, "back without a reboot", true, 0, "-n2/23")
		s.change(fence(2, "31"))
		w.expect(t, "another", true, 1, "+n3/31")
		s.change(func(st *fencingv1.Status) { st.Nodes[2].Death, st.Nodes[2].State = nil, 3 })
		w.expect(t, "taken back", true, 0, "-n3/31")
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = false })
		s.change(fence(2, "31"))
		w.expect(t, "without quorum", false, 1, "+n3/31")
		s.change(fence(1, ""))
		w.expect(t, "a node that the agent never met", false, 1)
	})
}

// Guard: an agent that takes a death back while the wall clock is being set is the same agent that reported it.
func TestDeathIsTakenBackAsTheClockIsSet(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			a, s, w := newAgent(t), newScene(), &statusWitness{}
			a.status = s.status
			a.start()
			followStatus(t, a, w)
			s.change(fence(2, "31"))
			w.expect(t, "fenced", true, 1, "+n3/31")
			s.change(func(st *fencingv1.Status) {
				s.ahead = ahead
				st.Nodes[2].Death, st.Nodes[2].State = nil, fencingv1.NodeState_NODE_STATE_UNKNOWN
			})
			w.expect(t, "taken back", true, 0, "-n3/31")
			s.change(fence(1, "21"))
			w.expect(t, "another", true, 1, "+n2/21")
			s.change(func(st *fencingv1.Status) {
				s.began, s.ahead = time.Now(), 0
				st.Nodes[1].Death, st.Nodes[1].State = nil, fencingv1.NodeState_NODE_STATE_UNKNOWN
			})
			a.start()
			w.expect(t, "restarted as the clock is set", true, 0)
		})
	}
}

// Guard: if a status is read late, the client does not take the next agent for the one that reported a death.
func TestLateStatusMakesNotOneAgentOfTwo(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := deathBook{known: map[string]NodeDeath{}}
	status := func(began, sent time.Duration, dead bool) *fencingv1.Status {
		s := newScene()
		if dead {
			fence(2, "31")(s.st)
		}
		st := proto.CloneOf(s.st)
		st.Self.Uptime, st.Time = durationpb.New(sent-began), timestamppb.New(start.Add(sent))
		return st
	}
	for _, c := range []struct {
		began, sent, came time.Duration
		dead              bool
		proven            int
	}{
		{0, 10 * time.Second, 10 * time.Second, true, 1},
		{0, 20 * time.Second, 50 * time.Second, true, 0},
		{30 * time.Second, 51 * time.Second, 51 * time.Second, false, 0}, // another agent, which has forgotten
	} {
		proven, withdrawn := b.note(status(c.began, c.sent, c.dead), start.Add(c.came))
		if len(proven) != c.proven || len(withdrawn) != 0 {
			t.Errorf("at %v: proven %v, withdrawn %v", c.came, proven, withdrawn)
		}
	}
}

// Guards: a restarted agent has forgotten all deaths, and this withdraws none of them. But a node that answers is
// alive.
func TestRestartWithdrawsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, w := newAgent(t), newScene(), &statusWitness{}
		a.status = s.status
		a.start()
		s.change(fence(1, "21"))
		s.change(fence(2, "31"))
		followStatus(t, a, w)
		w.expect(t, "at first", true, 2, "+n2/21", "+n3/31")
		s.change(func(st *fencingv1.Status) {
			s.began = time.Now()
			st.Nodes[1].Death, st.Nodes[2].Death = nil, nil
			st.Nodes[1].State, st.Nodes[2].State = fencingv1.NodeState_NODE_STATE_UNKNOWN, fencingv1.NodeState_NODE_STATE_UNKNOWN
		})
		a.start()
		w.expect(t, "restarted", true, 0)
		s.change(fence(1, "21"))
		w.expect(t, "proven once more", true, 1)
		s.change(back(2, "31", false))
		w.expect(t, "the other answers", true, 1, "-n3/31")
	})
}

// Guards: a status is in force for the hold time, also if the agent stands still with its socket open. The next status
// is in force again. A callback that was late to return receives the rest at once.
func TestStatusInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, w := newAgent(t), newScene(), &statusWitness{}
		a.status = s.status
		followStatus(t, a, w)
		w.expect(t, "without an agent", false, 0)
		time.Sleep(15 * time.Second)
		w.expect(t, "and for long", false, 0)
		if w.last.Err == nil || w.last.Status != nil {
			t.Errorf("told %v", w.last)
		}
		a.start()
		w.expect(t, "an agent", true, 0)
		a.freeze()
		w.expect(t, "it stands still", true, 0)
		time.Sleep(15 * time.Second)
		w.expect(t, "for long", false, 0)
		a.thaw()
		w.expect(t, "it goes on", true, 0)
		stuck := make(chan struct{})
		w.mu.Lock()
		w.busy = func() { <-stuck }
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		s.change(fence(1, "21"))
		time.Sleep(5 * time.Second)
		s.change(back(1, "23", true))
		time.Sleep(5 * time.Second)
		close(stuck)
		w.expect(t, "after a long callback", true, 0, "+n2/21")
	})
}

func TestStatusConfig(t *testing.T) {
	for _, c := range []Config{{Hold: time.Second}, {Socket: "x"}} {
		if err := FollowStatus(t.Context(), c, func(StatusUpdate) {}); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
	if err := FollowStatus(t.Context(), Config{}, nil); err == nil {
		t.Error("no callback is taken")
	}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// machine holds the true state of a node, and what the agent that observes it has concluded.
type machine struct {
	name   string
	boot   int
	runs   bool
	linked bool // the agent can reach it
	known  int  // the latest boot that the agent has met
	ended  int  // the boot whose death the agent names; 0: none
	defied bool // that boot has answered since, and an older agent still names its death
	liar   bool // its watchdog does not reset it, so a proof of its death may be wrong
}

// world holds some machines, the agent of one further machine, and the log of what this agent has reported with quorum.
type world struct {
	r        *rand.Rand
	scene    *scene
	agent    *agent
	up       bool
	quorum   bool
	before   bool // the agents run a version that still names a death after it was contradicted
	machines []*machine

	mu   sync.Mutex
	said map[string]time.Time // when an agent with quorum last named that death
	good map[string]bool      // boots that have in truth ended
}

// word names a boot of a machine, in the form that the oracle and the consumer both use.
func word(name string, boot int) string { return fmt.Sprintf("%s/%016x", name, boot) }

func newWorld(t *testing.T, r *rand.Rand) *world {
	w := &world{
		r: r, scene: newScene(), agent: newAgent(t), quorum: true, before: r.IntN(2) == 0,
		said: map[string]time.Time{}, good: map[string]bool{},
	}
	for i, name := range []string{"n2", "n3", "n30"} {
		w.machines = append(w.machines, &machine{name: name, boot: 16 * (i + 1), runs: true, linked: true, liar: i == 1})
	}
	w.agent.status = w.status
	w.look()
	return w
}

// look does what an agent does all the time: it meets the machines that answer, and forgets the death of a boot that
// answers.
func (w *world) look() {
	for _, m := range w.machines {
		if !m.runs || !m.linked {
			continue
		}
		if m.known != 0 && m.known != m.boot {
			m.ended, m.defied = m.known, false // another boot answers
		}
		m.known = m.boot
		switch {
		case m.ended != m.boot:
		case w.before:
			m.defied = true
		default:
			m.ended = 0
		}
	}
}

// status returns the agent's view, and records in the log what a consumer may have heard.
func (w *world) status() *fencingv1.Status {
	st := w.scene.status()
	w.mu.Lock()
	defer w.mu.Unlock()
	st.Verdict = &fencingv1.Verdict{Permission: fencingv1.Permission_PERMISSION_FEED, Quorum: w.quorum}
	st.Nodes = st.Nodes[:1]
	for _, m := range w.machines {
		n := &fencingv1.NodeStatus{Name: m.name, Reachable: m.runs && m.linked, State: fencingv1.NodeState_NODE_STATE_UNKNOWN}
		if m.known != 0 {
			n.State, n.Token = fencingv1.NodeState_NODE_STATE_UNREACHABLE, &fencingv1.Token{BootNonce: fmt.Sprintf("%016x", m.known)}
		}
		if m.ended != 0 {
			n.Death = &fencingv1.Death{Proof: fencingv1.Proof_PROOF_TIME, BootNonce: fmt.Sprintf("%016x", m.ended), Time: timestamppb.Now()}
		}
		switch {
		case n.Reachable:
			n.State = fencingv1.NodeState_NODE_STATE_REACHABLE
		case m.ended != 0 && m.ended == m.known && !m.defied:
			n.State = fencingv1.NodeState_NODE_STATE_FENCED
		}
		if m.ended != 0 && w.quorum && !m.defied {
			w.said[word(m.name, m.ended)] = time.Now()
		}
		st.Nodes = append(st.Nodes, n)
	}
	return st
}

// step makes one random change.
func (w *world) step() {
	w.mu.Lock()
	m := w.machines[w.r.IntN(len(w.machines))]
	k := w.r.IntN(26)
	switch {
	case k < 3 && m.runs: // reset by its watchdog
		m.runs = false
		w.good[word(m.name, m.boot)] = true
	case k < 6 && !m.runs:
		m.runs, m.boot = true, m.boot+1
	case k < 8 && m.runs && (m.liar || !m.linked):
		m.linked = !m.linked
	case k < 12 && !(m.runs && m.linked) && m.known != 0 && (m.liar || !m.runs || m.boot != m.known):
		m.ended, m.defied = m.known, false // proven dead; the liar may still run
	case k < 14:
		w.quorum = !w.quorum
	case k == 14: // the agent restarts and has forgotten all boots
		for _, m := range w.machines {
			m.known, m.ended, m.defied = 0, 0, false
		}
	}
	w.look()
	w.mu.Unlock()
	switch {
	case k == 14 || (!w.up && k < 20):
		w.scene.change(func(*fencingv1.Status) { w.scene.began = time.Now() })
		w.agent.start()
		w.up = true
	case k == 15:
		w.agent.stop()
		w.up = false
	case k == 16:
		w.agent.cut()
	case k == 17:
		w.agent.freeze()
	case k < 20:
		w.agent.thaw()
	}
	time.Sleep(time.Duration(w.r.IntN(4)*w.r.IntN(1500)) * time.Millisecond)
}

// settle lets a healthy agent see all machines. All of them run except n30, whose death the agent proves.
func (w *world) settle() (deadBoot int) {
	w.mu.Lock()
	w.quorum = true
	for _, m := range w.machines {
		m.linked = true
		if !m.runs {
			m.runs, m.boot = true, m.boot+1
		}
	}
	w.look()
	m := w.machines[2]
	m.runs, m.ended, m.defied = false, m.boot, false
	w.good[word(m.name, m.boot)] = true
	w.mu.Unlock()
	w.agent.thaw()
	if !w.up {
		w.scene.change(func(*fencingv1.Status) { w.scene.began = time.Now() })
		w.agent.start()
	}
	time.Sleep(2*DefaultHold + longestPause)
	return m.boot
}

// ledgerOfDeaths is the consumer. It checks each report against the log of the world.
type ledgerOfDeaths struct {
	t     *testing.T
	world *world
	holds map[string]bool
	tells int
}

// proven checks a death that has just been reported. The report may be as old as the oldest status that counts.
func (l *ledgerOfDeaths) proven(by, key string) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if at, said := l.world.said[key]; !said || time.Since(at) > 6*time.Second {
		l.t.Errorf("%s told the death of %s, which no agent with quorum has said in the last 6 s (%v, said %v)", by, key, said, time.Since(at))
	}
	if l.world.good[key] {
		return
	}
	if m := l.world.machines[1]; m.liar && key == word(m.name, m.boot) {
		return // the agent itself was mistaken
	}
	l.t.Errorf("%s told the death of %s, which runs", by, key)
}

func (l *ledgerOfDeaths) use(n DeathNews) {
	for _, d := range n.Withdrawn {
		key := d.Node + "/" + d.Boot
		if !l.holds[key] {
			l.t.Errorf("withdrawn: %s, which was not told", key)
		}
		delete(l.holds, key)
	}
	for _, d := range n.Proven {
		key := d.Node + "/" + d.Boot
		if l.holds[key] {
			l.t.Errorf("told twice: %s", key)
		}
		l.holds[key] = true
		l.tells++
		l.proven("FollowDeaths", key)
	}
}

// waiters holds the calls of WaitFenced in one schedule.
type waiters struct {
	t     *testing.T
	world *world
	judge *ledgerOfDeaths

	mu    sync.Mutex
	open  map[string]bool
	ended int
}

func (w *waiters) wait(ctx context.Context, name, boot string) {
	w.mu.Lock()
	w.open[name+"/"+boot] = true
	w.mu.Unlock()
	d, err := WaitFenced(ctx, Config{Dial: w.world.agent.dial}, name, boot, nil)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			w.t.Errorf("WaitFenced %s/%s: %v", name, boot, err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, name+"/"+boot)
	w.ended++
	w.judge.proven("WaitFenced", d.Node+"/"+d.Boot)
	if d.Node != name || (boot != "" && d.Boot != boot) || (boot == "" && d.Runs != "") {
		w.t.Errorf("WaitFenced %s/%s ended with %+v", name, boot, d)
	}
}

// TestRandomDeaths: machines are reset, lost and back; the agent is restarted, frozen, cut off and without quorum; and
// some proofs are wrong. A death is reported only if an agent with quorum has reported it, and only once. No death
// remains whose boot is running at the end. A true death is reported, also to a caller that waits for it.
func TestRandomDeaths(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	t.Logf("repeat with -args -seed=%d -runs=1", first)
	tells, ended := 0, 0
	for i := range *runsFlag {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, 2)))
			l := &ledgerOfDeaths{t: t, world: w, holds: map[string]bool{}}
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() {
				if err := FollowDeaths(ctx, Config{Dial: w.agent.dial}, l.use); err != nil {
					t.Errorf("FollowDeaths: %v", err)
				}
			})
			waits := &waiters{t: t, world: w, judge: l, open: map[string]bool{}}
			wait := func(name, boot string) { running.Go(func() { waits.wait(ctx, name, boot) }) }
			for i := range 80 {
				if i%16 == 0 {
					m := w.machines[w.r.IntN(3)]
					w.mu.Lock()
					boot := fmt.Sprintf("%016x", m.boot)
					w.mu.Unlock()
					if w.r.IntN(2) == 0 {
						boot = ""
					}
					wait(m.name, boot)
				}
				w.step()
			}
			dead := fmt.Sprintf("%016x", w.settle())
			wait("n30", dead)
			wait("n30", "")
			time.Sleep(2 * staleAfter)
			synctest.Wait()
			if !l.holds["n30/"+dead] || waits.open["n30/"+dead] || waits.open["n30/"] {
				t.Errorf("n30/%s is dead; told %v, waits %v", dead, l.holds, waits.open)
			}
			for _, m := range w.machines[:2] {
				if key := word(m.name, m.boot); l.holds[key] {
					t.Errorf("%s runs, and its death stands", key)
				}
			}
			tells, ended = tells+l.tells, ended+waits.ended
			cancel()
			running.Wait()
		})
		if t.Failed() {
			t.Fatalf("seed %d: repeat with -args -seed=%d -runs=1", seed, seed)
		}
	}
	t.Logf("%d schedules, %d deaths told, %d waits ended", *runsFlag, tells, ended)
	if *runsFlag > 10 && (tells < *runsFlag || ended < *runsFlag) {
		t.Errorf("%d deaths and %d waits in %d schedules: they test nothing", tells, ended, *runsFlag)
	}
}

package client

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
)

var (
	seedFlag = flag.Uint64("seed", 0, "first seed of the random schedules; 0: another each time")
	runsFlag = flag.Int("runs", 60, "how many random schedules")
)

// TestRandomSchedules: agents are replaced, frozen and cut off, nodes join and leave, and the callback takes its time.
// Every set that the callback receives was an agent's set, the edges lead from each set to the next, and the final set
// is that of the last agent.
func TestRandomSchedules(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	t.Logf("repeat with -args -seed=%d -runs=1", first)
	updates, sets := 0, 0
	for i := range *runsFlag {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			s := &schedule{t: t, r: rand.New(rand.NewPCG(seed, 0)), agent: newAgent(t), were: map[string]bool{"": true}}
			w := newWitness()
			pauses := rand.New(rand.NewPCG(seed, 1)) // for the callback, which runs in parallel with the schedule
			w.busy = func() { time.Sleep(time.Duration(pauses.IntN(4)) * 40 * time.Millisecond) }
			end := follow(t, s.agent, 3*time.Second, w)
			for range 60 {
				s.step()
			}
			s.settle()
			synctest.Wait()
			end()
			s.check(w.seen(), seed)
			updates += len(w.seen())
			sets += len(s.were)
		})
		if t.Failed() {
			t.Fatalf("seed %d: repeat with -args -seed=%d -runs=1", seed, seed)
		}
	}
	t.Logf("%d schedules, %d sets of agents, %d updates", *runsFlag, sets, updates)
}

// schedule is one random run, with the agents' sets in it.
type schedule struct {
	t     *testing.T
	r     *rand.Rand
	agent *agent
	hub   *publish.Hub // nil while there is no agent
	were  map[string]bool
	now   string
}

func (s *schedule) step() {
	switch k := s.r.IntN(20); {
	case k == 0 && s.hub != nil:
		s.agent.stop()
		s.hub = nil
	case s.hub == nil && k < 10, k == 1:
		s.hub = s.agent.start()
	case k == 2:
		s.agent.cut()
	case k == 3:
		s.agent.freeze()
	case k < 8:
		s.agent.thaw()
	case k < 11 && s.hub != nil:
		var set []publish.Node
		for i := range 6 {
			if s.r.IntN(3) > 0 {
				set = append(set, s.some(i))
			}
		}
		s.hub.Update(set, nil)
		s.note()
	case s.hub != nil:
		e := left("n0")
		if e.Node = s.some(s.r.IntN(6)); s.r.IntN(2) == 0 {
			e.Type = join("n0").Type
		}
		s.hub.Publish(e)
		s.note()
	}
	time.Sleep(time.Duration(s.r.IntN(3)*s.r.IntN(400)) * time.Millisecond)
}

func (s *schedule) some(i int) publish.Node {
	n := node(fmt.Sprintf("n%d", i))
	if s.r.IntN(4) == 0 {
		n.Addresses["mgmt"] = "10.1.1." + fmt.Sprint(s.r.IntN(3))
	}
	return n
}

// note records the agent's set. An Update makes several edges at once, but the answers to all requests hold one set.
// The events of a stream are applied one by one: each order is recorded.
func (s *schedule) note() {
	all, _, err := s.hub.Nodes()
	if err != nil {
		return
	}
	names := make([]string, 0, len(all.GetNodes()))
	for _, n := range all.GetNodes() {
		names = append(names, n.GetName()+address(n))
	}
	before := strings.Fields(s.now)
	// Update publishes the edges of the difference: JOINs in the order of the wanted set, then LEFTs in the order of
	// the old set.
	step := slices.Clone(before)
	for _, n := range names {
		if !slices.Contains(step, n) {
			step = slices.DeleteFunc(step, func(m string) bool { return m[:2] == n[:2] })
			step = append(step, n)
			slices.Sort(step)
			s.were[strings.Join(step, " ")] = true
		}
	}
	for _, n := range before {
		if !slices.ContainsFunc(names, func(m string) bool { return m[:2] == n[:2] }) {
			step = slices.DeleteFunc(step, func(m string) bool { return m[:2] == n[:2] })
			s.were[strings.Join(step, " ")] = true
		}
	}
	s.now = strings.Join(names, " ")
	s.were[s.now] = true
}

// settle starts an agent and gives the follower time to reconnect to it.
func (s *schedule) settle() {
	s.agent.thaw()
	if s.hub == nil {
		s.hub = s.agent.start()
	}
	s.hub.Update(nodes("n1", "n2", "n5"), nil)
	s.note()
	time.Sleep(2*patience + longestPause + time.Second)
}

func (s *schedule) check(all []told, seed uint64) {
	set := map[string]string{} // name -> with address
	for i, u := range all {
		for _, e := range strings.Fields(u.edges) {
			name := strings.TrimLeft(e, "+-?")[:2]
			if _, there := set[name]; e[0] == '-' && !there {
				s.t.Errorf("seed %d: update %d: LEFT of %s, which the callback does not have", seed, i, name)
			}
			if delete(set, name); e[0] == '+' {
				set[name] = strings.TrimLeft(e, "+-?")
			}
		}
		var have []string
		for _, n := range set {
			have = append(have, n)
		}
		slices.Sort(have)
		if got := strings.Join(have, " "); got != u.available {
			s.t.Errorf("seed %d: update %d: the edges [%s] lead to [%s], told was [%s]", seed, i, u.edges, got, u.available)
		}
		if !s.were[u.available] {
			s.t.Errorf("seed %d: update %d: no agent ever had the set [%s]", seed, i, u.available)
		}
	}
	if last := all[len(all)-1]; !last.inForce || !last.connected || last.available != s.now {
		s.t.Errorf("seed %d: in the end told was %+v, the agent has [%s]", seed, last, s.now)
	}
}

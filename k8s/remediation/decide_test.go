package remediation

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// begun returns a remediation of a node that is silent, after its first write.
func begun() Facts {
	return Facts{
		Now: start, Name: "n4", Finalizer: true, Status: Status{Node: "n4", NodeUID: "u4", Boot: "b1"},
		Node: nodefence.Node{Exists: true, UID: "u4", Boot: "b1"},
	}
}

func condition(s Status, kind string) Condition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

func TestConditions(t *testing.T) {
	fence := func(more func(*Fence)) func(*Facts) {
		return func(f *Facts) {
			f.Fence = &Fence{UID: "f1", Mine: true, Boot: "b1", Message: "power_management is running"}
			more(f.Fence)
		}
	}
	for _, c := range []struct {
		name, processing, succeeded, reason string
		change                              func(f *Facts)
	}{
		{"silent", True, Unknown, "Waiting", func(*Facts) {}},
		{"not managed", True, Unknown, "Waiting", func(f *Facts) { f.Hindrance = "there is no configuration" }},
		{"Ready", True, Unknown, "Waiting", func(f *Facts) { f.Node.Ready = true }},
		{"being fenced", True, Unknown, "Fencing", fence(func(*Fence) {})},
		{"proven", False, True, "BootEnded", fence(func(f *Fence) { f.Proven = true })},
		{"proven for another boot", True, Unknown, "Waiting", fence(func(f *Fence) { f.Proven, f.Boot = true, "b0" })},
		{"proven by agents", False, True, "BootEnded", func(f *Facts) { f.Node.Fenced = "b1" }},
		{"proven by agents for another boot", True, Unknown, "Waiting", func(f *Facts) { f.Node.Fenced = "b0" }},
		{"in dispute", False, False, "Contradicted", func(f *Facts) { f.Node.Disputed = "b1" }},
		{"contradicted", False, False, "Contradicted", fence(func(f *Fence) { f.Contradicted, f.GivenUp = true, true })},
		{"given up", False, False, "GivenUp", fence(func(f *Fence) { f.GivenUp = true })},
		{"back in another boot", False, True, "BootEnded", func(f *Facts) { f.Node.Boot, f.Node.Ready = "b2", true }},
		{"another Node of that name", False, False, "NodeNotFound", func(f *Facts) {
			f.Node.UID, f.Node.Boot, f.Node.Ready = "u5", "b2", true
		}},
		{"no Node", False, False, "NodeNotFound", func(f *Facts) { f.Node = nodefence.Node{} }},
		{"timed out", False, False, "TimedOut", func(f *Facts) { f.TimedOut = true }},
		{"timed out after the proof", False, True, "BootEnded", func(f *Facts) {
			f.TimedOut, f.Fence = true, &Fence{UID: "f1", Boot: "b1", Proven: true}
		}},
		{"taken back", False, False, "TakenBack", func(f *Facts) {
			f.Deleting, f.Fence = true, &Fence{UID: "f1", Mine: true, Deleting: true, Boot: "b0"}
		}},
	} {
		f := begun()
		c.change(&f)
		a := Decide(f)
		p, s := condition(a.Status, Processing), condition(a.Status, Succeeded)
		if a.Kind != Update || p.Status != c.processing || s.Status != c.succeeded || s.Reason != c.reason || s.Message == "" {
			t.Errorf("%s: %+v", c.name, a)
		}
		f.Status, f.Now = a.Status, start.Add(time.Minute)
		if a := Decide(f); a.Kind != Wait {
			t.Errorf("%s: the same is written twice: %+v", c.name, a)
		}
	}
}

// A boot that has ended stays ended, until there is a sign of the opposite. A later failure of the node is another
// matter.
func TestSuccessStays(t *testing.T) {
	f := begun()
	f.Fence = &Fence{UID: "f1", Mine: true, Boot: "b1", Proven: true}
	f.Status = Decide(f).Status
	f.Fence, f.Now = nil, start.Add(time.Minute)
	if a := Decide(f); a.Kind != Wait {
		t.Errorf("%+v", a)
	}
	f.Node.Disputed = "b1"
	a := Decide(f)
	if s := condition(a.Status, Succeeded); s.Status != False || !s.Since.Equal(f.Now) {
		t.Errorf("%+v", a)
	}
	f.Node.Disputed, f.Node.Boot = "", "b2"
	if a := Decide(f); a.Kind != Update || a.Status.Boot != "b2" || condition(a.Status, Succeeded).Status != Unknown {
		t.Errorf("another boot has failed: %+v", a)
	}
	f.Deleting = true
	if a := Decide(f); a.Kind != RemoveFinalizer {
		t.Errorf("%+v", a)
	}
}

var (
	runs     = flag.Int("runs", 2000, "random schedules")
	firstOne = flag.Uint64("seed", 1, "the first of them")
)

// schedule is one node with random events. The rules that it knows are the sentences of the package's documentation.
type schedule struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	f      Facts
	gone   bool            // the remediation is gone
	ended  map[string]bool // boots
	proven map[string]bool // boots that were proven dead to those who read
	ready  map[string]bool // boots that were Ready
	next   int
}

func (s *schedule) boot() string {
	s.next++
	return string(rune('a' + s.next))
}

// happens lets one random event happen outside of the controller.
func (s *schedule) happens() {
	f, p := &s.f, s.rng.IntN(100)
	switch {
	case p < 8 && f.Node.Exists: // it starts again
		s.ended[f.Node.Boot] = true
		f.Node.Boot, f.Node.Ready, f.Node.Fenced, f.Node.Disputed = s.boot(), s.rng.IntN(2) == 0, "", ""
		s.ready[f.Node.Boot] = f.Node.Ready
	case p < 16 && !s.ended[f.Node.Boot]:
		f.Node.Ready = !f.Node.Ready
		s.ready[f.Node.Boot] = s.ready[f.Node.Boot] || f.Node.Ready
	case p < 20:
		s.ended[f.Node.Boot], f.Node.Ready = true, false
	case p < 26 && f.Fence != nil && s.ended[f.Fence.Boot] && !f.Fence.Contradicted:
		f.Fence.Proven, s.proven[f.Fence.Boot] = true, true
	case p < 30 && s.ended[f.Node.Boot] && !f.Node.Ready:
		f.Node.Fenced, s.proven[f.Node.Boot] = f.Node.Boot, true
	case p < 33 && f.Fence != nil:
		f.Fence.GivenUp = true
	case p < 40 && f.Fence != nil && f.Fence.Deleting:
		f.Fence = nil
	case p < 42:
		f.TimedOut = true
	case p < 44 && f.Finalizer:
		f.Deleting = true
	case p < 46:
		f.Node = nodefence.Node{}
	case p < 50 && !f.Node.Exists:
		f.Node = nodefence.Node{Exists: true, UID: s.boot(), Boot: s.boot()}
	// a NodeFence by somebody else
	case p < 60 && f.Fence == nil && f.Node.Exists && !f.Node.Ready && s.rng.IntN(3) == 0:
		f.Fence = &Fence{UID: s.boot(), Boot: f.Node.Boot}
	}
}

// works acts as the controller: it reads, and may write late, or be killed before.
func (s *schedule) works() {
	f := &s.f
	if f.Fence == nil && Wishes(*f) {
		if f.TimedOut || f.Deleting || f.Node.Ready || f.Node.Boot != f.Status.Boot || f.Node.UID != f.Status.NodeUID {
			s.t.Errorf("seed %d: a NodeFence begins for %+v", s.seed, *f)
		}
		if s.rng.IntN(2) == 0 {
			f.Fence = &Fence{UID: s.boot(), Mine: true, Boot: f.Node.Boot}
		}
	}
	a := Decide(*f)
	if s.rng.IntN(4) == 0 {
		return
	}
	switch a.Kind {
	case Update:
		if b := a.Status.Boot; condition(a.Status, Succeeded).Status == True && !s.ended[b] {
			s.t.Errorf("seed %d: it has succeeded, and boot %s runs: %+v", s.seed, b, a)
		} else if condition(a.Status, Succeeded).Status == True && !s.proven[b] && !s.ready[f.Node.Boot] {
			s.t.Errorf("seed %d: it has succeeded, and nothing was proven of boot %s", s.seed, b)
		}
		f.Status = a.Status
		if !f.Deleting {
			f.Finalizer = true
		}
	case DeleteFence:
		if f.Fence == nil || !f.Fence.Mine || f.Fence.UID != a.UID || !f.Deleting && !f.TimedOut || f.Node.Ready || f.Fence.GivenUp {
			s.t.Errorf("seed %d: the NodeFence of %+v is deleted", s.seed, *f)
		}
		f.Fence.Deleting = true
	case RemoveFinalizer:
		if f.Fence != nil && f.Fence.Mine && !f.Fence.GivenUp {
			s.t.Errorf("seed %d: it goes before its NodeFence", s.seed)
		}
		s.gone = true
	}
}

func TestSchedules(t *testing.T) {
	for i := range *runs {
		seed := *firstOne + uint64(i)
		s := &schedule{
			t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), ended: map[string]bool{}, proven: map[string]bool{}, ready: map[string]bool{},
			f: Facts{Now: start, Name: "n4", Node: nodefence.Node{Exists: true, UID: "u4", Boot: "a"}},
		}
		for range 300 {
			if s.happens(); s.gone {
				break
			}
			s.works()
			s.f.Now = s.f.Now.Add(time.Second)
		}
		// In the end the remediation is removed.
		s.f.Deleting, s.f.Finalizer = true, true
		for range 10 {
			if s.works(); s.f.Fence != nil && s.f.Fence.Deleting {
				s.f.Fence = nil
			}
			s.f.Node.Ready = false
		}
		for range 20 {
			s.works()
		}
		if !s.gone {
			t.Errorf("seed %d: it is still there: %+v", seed, s.f)
		}
		if t.Failed() {
			return
		}
	}
}

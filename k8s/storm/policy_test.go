package storm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var limits = Policy{MaxUnhealthy: 40, MaxSilent: 40, MaxConcurrent: 100, Cooldown: 5 * time.Minute, MaxDeadPercent: 100}

// ten returns managed Nodes of one group that have long been Ready.
func ten() []Member {
	var out []Member
	for i := range 10 {
		out = append(out, Member{Name: fmt.Sprint("n", i), Group: "worker", Managed: true, Ready: true, Since: noon.Add(-time.Hour), Created: noon.Add(-2 * time.Hour)})
	}
	return out
}

func ask(p Policy, m []Member, now time.Time) Verdict {
	return p.Look(m, now, &History{}).Allow("n0", "")
}

// 1 to 10 of 10 nodes stop being Ready, together.
func TestTooManyUnhealthy(t *testing.T) {
	for n := 1; n <= 10; n++ {
		m := ten()
		for i := range n {
			m[i].Ready, m[i].Since = false, noon
		}
		v := ask(limits, m, noon.Add(30*time.Second))
		if v.Allowed != (n <= 4) || !v.Allowed && (v.Reason != TooManyUnhealthy || v.Anyway == "") {
			t.Errorf("%d of 10: %+v", n, v)
		}
	}
}

// Between 1 and 10 of 10 nodes are cut off together, and their Nodes stop being Ready one after the other: their Leases
// show that earlier.
func TestBlind(t *testing.T) {
	for n := 1; n <= 10; n++ {
		m := ten()
		m[0].Ready, m[0].Since = false, noon
		for i := range n {
			m[i].Silent = true
		}
		if v := ask(limits, m, noon.Add(time.Second)); v.Allowed != (n <= 4) || !v.Allowed && v.Reason != Blind {
			t.Errorf("%d of 10: %+v", n, v)
		}
	}
}

// limitCases change ten Nodes of which one is not Ready.
var limitCases = map[string]struct {
	change func(m []Member, p *Policy) []Member
	want   string
}{
	"one":                         {func(m []Member, _ *Policy) []Member { return m }, ""},
	"one of three":                {func(m []Member, _ *Policy) []Member { return m[:3] }, ""},
	"one of two":                  {func(m []Member, _ *Policy) []Member { return m[:2] }, TooManyUnhealthy},
	"limits that nobody can read": {func(m []Member, p *Policy) []Member { p.Broken = "broken"; return m }, ConfigProblems},
	"two of a group of three": {func(m []Member, _ *Policy) []Member {
		m[1].Ready, m[1].Since = false, noon
		for i := range 3 {
			m[i].Group = "small"
		}
		return m
	}, TooManyUnhealthy},
	"two of another group": {func(m []Member, _ *Policy) []Member {
		for i := range 3 {
			m[i+1].Group, m[i+1].Ready = "small", i > 1
			m[i+1].Since = noon
		}
		return m
	}, ""},
	"all that are not managed": {func(m []Member, _ *Policy) []Member {
		for i := range 5 {
			m[i+1].Managed, m[i+1].Ready, m[i+1].Since = false, false, noon
		}
		return m
	}, TooManyUnhealthy},
	"by a clock that is ahead": {func(m []Member, _ *Policy) []Member {
		for i := range 5 {
			m[i].Ready, m[i].Since = false, noon.Add(time.Hour)
		}
		return m
	}, TooManyUnhealthy},
	"joining": {func(m []Member, _ *Policy) []Member {
		for i := range 5 {
			m[i+1].Since, m[i+1].Created = noon.Add(time.Minute), noon
		}
		return m
	}, ""},
	"after a storm": {func(m []Member, _ *Policy) []Member {
		for i := range 5 {
			m[i+1].Since = noon.Add(10*time.Second + time.Duration(i)*time.Second)
		}
		return m
	}, Cooldown},
	"after others failed one by one": {func(m []Member, _ *Policy) []Member {
		for i := range 5 { // and were Ready before this one was not
			m[i+1].Since = noon.Add(-time.Duration(i+1) * time.Minute)
		}
		m[0].Since = noon
		return m[:6]
	}, Cooldown}, // nobody knows since when each of them had not been
	"four others are dead": {func(m []Member, p *Policy) []Member {
		p.MaxDeadPercent, p.MaxUnhealthy = 40, 100
		for i := range 4 {
			m[i+1].Dead = true
		}
		return m
	}, TooManyDead},
	"three others are dead": {func(m []Member, p *Policy) []Member {
		p.MaxDeadPercent = 40
		for i := range 3 {
			m[i+1].Dead = true
		}
		return m
	}, ""},
	"three others are dead, and one is being fenced": {func(m []Member, p *Policy) []Member {
		p.MaxDeadPercent = 40
		for i := range 3 {
			m[i+1].Dead = true
		}
		m[4].Fencing = noon.Add(-time.Hour)
		return m
	}, TooManyDead},
	"it is dead itself": {func(m []Member, p *Policy) []Member {
		p.MaxDeadPercent, p.MaxUnhealthy = 40, 100
		for i := range 5 {
			m[i].Dead = true
		}
		return m
	}, ""},
	"two others are being fenced": {func(m []Member, p *Policy) []Member {
		p.MaxConcurrent = 2
		m[1].Fencing, m[2].Fencing = noon, noon
		return m
	}, TooManyAtOnce},
	"one other, and itself": {func(m []Member, p *Policy) []Member {
		p.MaxConcurrent = 2
		m[0].Fencing, m[2].Fencing = noon, noon
		return m
	}, ""},
	"two others for long": {func(m []Member, p *Policy) []Member {
		p.MaxConcurrent = 2
		m[1].Fencing, m[2].Fencing = noon.Add(-patience), noon.Add(-patience)
		return m
	}, ""},
}

func TestLimits(t *testing.T) {
	for what, c := range limitCases {
		m, p := ten(), limits
		m[0].Ready, m[0].Since = false, noon
		m = c.change(m, &p)
		if v := ask(p, m, noon.Add(90*time.Second)); v.Reason != c.want || v.Allowed != (c.want == "") {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

// A person overrules a limit for the Nodes that are not Ready now, and for no other set of them.
func TestAnyway(t *testing.T) {
	m := ten()
	for i := range 5 {
		m[i].Ready, m[i].Since = false, noon
	}
	now := noon.Add(time.Minute)
	word := ask(limits, m, now).Anyway
	if v := limits.Look(m, now, &History{}).Allow("n1", word); !v.Allowed {
		t.Errorf("%+v", v)
	}
	m[5].Ready = false
	if v := limits.Look(m, now, &History{}).Allow("n1", word); v.Allowed {
		t.Error("it holds for a sixth")
	}
	p := limits
	p.Broken = "broken"
	if v := p.Look(m, now, &History{}).Allow("n1", ask(limits, m, now).Anyway); v.Allowed || v.Anyway != "" {
		t.Errorf("limits that nobody can read: %+v", v)
	}
}

// In one look no more steps begin than may run at one time.
func TestBegun(t *testing.T) {
	p := limits
	p.MaxConcurrent = 2
	m := ten()
	for i := range 4 {
		m[i].Ready, m[i].Since = false, noon
	}
	s, begun := p.Look(m, noon, &History{}), 0
	for _, n := range m {
		if s.Allow(n.Name, "").Allowed {
			s.Begun(n.Name)
			begun++
		}
	}
	if begun != 2 || !s.Allow("n0", "").Allowed {
		t.Errorf("%d begin", begun)
	}
}

// Replicas that look at the same moment begin more nodes than are allowed. The nodes that began first continue:
// otherwise they would wait for each other, and no node would be fenced.
func TestTooManyHaveBegun(t *testing.T) {
	for what, set := range map[string]func(*Policy){
		"at one time": func(p *Policy) { p.MaxConcurrent = 2 },
		"of a group":  func(p *Policy) { p.MaxDeadPercent = 20 },
	} {
		m, p := ten(), limits
		set(&p)
		for i := range 4 {
			m[i].Ready, m[i].Since, m[i].Fencing = false, noon, noon.Add(time.Duration(i/2)*time.Second)
		}
		going := func() (on string) {
			s := p.Look(m, noon.Add(2*time.Second), &History{})
			for _, n := range m[:4] {
				if s.Allow(n.Name, "").Allowed {
					on += n.Name
				}
			}
			return on
		}
		if got := going(); got != "n0n1" {
			t.Errorf("%s: %q go on", what, got)
		}
		m[3].Switched = true // by a replica that had not seen the others
		if got := going(); got != "n0n3" && got != "n0" {
			t.Errorf("%s, and the last one is switched: %q go on", what, got)
		}
	}
}

// Nodes of three groups flap. The oracle records which nodes were not Ready, and when a look saw too many of them:
// nothing is allowed then, nor during the cooldown.
func TestWhatATryHasSwitchedOffCountsAsDead(t *testing.T) {
	p := limits
	p.MaxDeadPercent = 10
	m := ten()
	for i := range 2 {
		m[i].Ready, m[i].Since = false, noon
	}
	if v := ask(p, m, noon.Add(time.Minute)); !v.Allowed {
		t.Errorf("one that waits counts: %+v", v)
	}
	m[1].Off = true
	if v := ask(p, m, noon.Add(time.Minute)); v.Reason != TooManyDead {
		t.Errorf("two of ten would be off: %+v", v)
	}
}

func TestFlapping(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 56))
	verdicts := map[string]int{}
	for range 200 {
		n := 3 + rng.IntN(12)
		down, managed, group := make([]bool, n), make([]bool, n), make([]string, n)
		var m []Member
		for i := range n {
			managed[i], group[i] = rng.IntN(4) > 0, []string{"", "a", "b"}[rng.IntN(3)]
			m = append(m, Member{Name: fmt.Sprint("n", i), Group: group[i], Managed: managed[i], Ready: true, Since: noon.Add(-time.Hour), Created: noon.Add(-9 * time.Hour)})
		}
		p := Policy{MaxUnhealthy: 1 + rng.IntN(99), MaxSilent: 100, MaxConcurrent: 100, MaxDeadPercent: 100, Cooldown: time.Duration(rng.IntN(400)) * time.Second}
		much := func(in func(i int) bool) bool {
			all, bad := 0, 0
			for i := range n {
				if in(i) {
					all++
					if down[i] {
						bad++
					}
				}
			}
			return bad >= 2 && float64(bad)/float64(all) > float64(p.MaxUnhealthy)/100
		}
		h, lastOver := &History{}, map[string]time.Time{}
		for now := noon; now.Before(noon.Add(20 * time.Minute)); now = now.Add(2 * time.Second) {
			for range rng.IntN(2) {
				i := rng.IntN(n)
				if down[i] = !down[i] && rng.IntN(3) == 0; m[i].Ready == down[i] {
					m[i].Ready, m[i].Since = !down[i], now.Truncate(time.Second)
				}
			}
			s := p.Look(m, now, h)
			for _, g := range []string{"", "a", "b"} {
				if much(func(int) bool { return true }) || much(func(i int) bool { return managed[i] }) ||
					g != "" && much(func(i int) bool { return managed[i] && group[i] == g }) {
					lastOver[g] = now
				}
			}
			for i := range n {
				v := s.Allow(m[i].Name, "")
				verdicts[v.Reason]++
				over, ever := lastOver[group[i]]
				if v.Allowed && ever && (over.Equal(now) || now.Sub(over) < p.Cooldown) {
					t.Fatalf("%v: allowed %v after a storm, with a cooldown of %v and at most %d %%", now, now.Sub(over), p.Cooldown, p.MaxUnhealthy)
				}
				if v.Reason == TooManyUnhealthy && !over.Equal(now) {
					t.Fatalf("%v: there is no storm: %s", now, v.Text)
				}
			}
		}
	}
	if verdicts[""] == 0 || verdicts[TooManyUnhealthy] == 0 || verdicts[Cooldown] == 0 {
		t.Errorf("not all of it was tried: %v", verdicts)
	}
}

// A replica that has looked all the time knows that nodes failed one after the other; one that has not is careful.
func TestHistory(t *testing.T) {
	m := ten()
	for i := range 5 {
		m[i].Since = noon.Add(time.Duration(i) * time.Minute)
	}
	m[0].Ready, m[0].Since = false, noon.Add(5*time.Minute)
	h := &History{}
	for now := noon; now.Before(noon.Add(6 * time.Minute)); now = now.Add(10 * time.Second) {
		limits.Look(ten(), now, h)
	}
	if v := limits.Look(m, noon.Add(6*time.Minute), h).Allow("n0", ""); !v.Allowed {
		t.Errorf("it has looked: %+v", v)
	}
	for i := range 5 {
		m[i+1].Since = noon.Add(7 * time.Minute)
	}
	if v := limits.Look(m, noon.Add(8*time.Minute), h).Allow("n0", ""); v.Reason != Cooldown {
		t.Errorf("it has not looked for two minutes: %+v", v)
	}
}

func TestWords(t *testing.T) {
	m := ten()
	for i := range 5 {
		m[i].Ready, m[i].Since = false, noon
	}
	h := &History{}
	v := limits.Look(m, noon.Add(time.Second), h).Allow("n0", "")
	if v.Text != "5 of all 10 Nodes are not Ready, more than max_unhealthy_percent=40" {
		t.Error(v.Text)
	}
	for i := range 4 {
		m[i+1].Ready, m[i+1].Since = true, noon.Add(time.Minute)
	}
	if v = limits.Look(m, noon.Add(time.Minute), h).Allow("n0", ""); !strings.HasPrefix(v.Text, "until 12:00:01 UTC there was a storm (5 of all 10") {
		t.Error(v.Text)
	}
	if v = limits.Look(m, noon.Add(6*time.Minute+time.Second), h).Allow("n0", ""); !v.Allowed {
		t.Error(v.Text)
	}
	if got := limits.Look(m, noon, h).Unhealthy(); got["worker"] != 1 || len(got) != 1 {
		t.Error(got)
	}
}

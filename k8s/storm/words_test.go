package storm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// heeding is a policy that only uses agents' reports.
var heeding = Policy{MaxUnhealthy: 100, MaxSilent: 100, MaxConcurrent: 100, MaxDeadPercent: 100, SkipLeaseHeld: true, SkipDisconnected: true, OnlyWithQuorum: true}

// five returns Nodes of one group, of which n0 is not Ready and silent.
func five() []Member {
	m := ten()[:5]
	m[0].Ready, m[0].Since, m[0].Silent = false, noon, true
	return m
}

func moves(n string) *sightings.Sighting {
	return &sightings.Sighting{Number: 1, SlotMoves: []string{n}}
}

func starve(m []Member, which ...int) []Member {
	for _, i := range which {
		m[i].Sighting = &sightings.Sighting{Number: 1, QuorumLost: true}
	}
	return m
}

// wordCases change five Nodes, or the policy.
var wordCases = map[string]struct {
	change func(m []Member, p *Policy) []Member
	want   string
}{
	"nobody says anything": {func(m []Member, _ *Policy) []Member { return m }, ""},
	"its slot moves": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting = moves("n0"), moves("n0")
		return m
	}, LeaseHeld},
	"one says so": {func(m []Member, _ *Policy) []Member { m[1].Sighting = moves("n0"); return m }, LeaseHeld},
	"of another node": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting = moves("n3"), moves("n3")
		return m
	}, ""},
	"it says so itself": {func(m []Member, _ *Policy) []Member { m[0].Sighting, m[0].Silent = moves("n0"), false; return m }, ""},
	"the policy is off": {func(m []Member, p *Policy) []Member {
		m[1].Sighting, m[2].Sighting, p.SkipLeaseHeld = moves("n0"), moves("n0"), false
		return m
	}, ""},
	"it is proven dead": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting, m[0].Dead = moves("n0"), moves("n0"), true
		return m
	}, ""},
	"those who say so are silent": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting, m[1].Silent, m[2].Silent = moves("n0"), moves("n0"), true, true
		return m
	}, ""},
	"those who say so are dead": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting, m[1].Dead, m[2].Dead = moves("n0"), moves("n0"), true, true
		return m
	}, ""},
	"those who say so are of another group": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting, m[1].Group, m[2].Group = moves("n0"), moves("n0"), "b", "b"
		return m
	}, ""},
	"of no group": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[2].Sighting = moves("n0"), moves("n0")
		for i := range m {
			m[i].Group = ""
		}
		return m
	}, ""},
	"its slot stands still": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting = &sightings.Sighting{Number: 1, SlotStill: []string{"n0"}}
		return m
	}, Disconnected},
	"its slot stands still, and the policy is off": {func(m []Member, p *Policy) []Member {
		m[1].Sighting, p.SkipDisconnected = &sightings.Sighting{Number: 1, SlotStill: []string{"n0"}}, false
		return m
	}, ""},
	"its slot stands still, and it is proven dead": {func(m []Member, _ *Policy) []Member {
		m[1].Sighting, m[0].Dead = &sightings.Sighting{Number: 1, SlotStill: []string{"n0"}}, true
		return m
	}, ""},
	"all others have lost quorum": {func(m []Member, _ *Policy) []Member { return starve(m, 1, 2, 3, 4) }, QuorumLost},
	"all others but one":          {func(m []Member, _ *Policy) []Member { return starve(m, 1, 2, 3) }, ""},
	"all others but one that is silent": {func(m []Member, _ *Policy) []Member {
		m[4].Silent = true
		return starve(m, 1, 2, 3)
	}, QuorumLost},
	"all others but one that is dead": {func(m []Member, _ *Policy) []Member {
		m[4].Dead = true
		return starve(m, 1, 2, 3)
	}, QuorumLost},
	"all others but one of another group": {func(m []Member, _ *Policy) []Member {
		m[4].Group = "b"
		return starve(m, 1, 2, 3)
	}, QuorumLost},
	"all others are silent": {func(m []Member, _ *Policy) []Member {
		for i := range m {
			m[i].Silent = true
		}
		return starve(m, 1, 2, 3, 4)
	}, ""},
	"it alone has lost quorum": {func(m []Member, _ *Policy) []Member { m[0].Silent = false; return starve(m, 0) }, ""},
	"all others have lost quorum, and the policy is off": {func(m []Member, p *Policy) []Member {
		p.OnlyWithQuorum = false
		return starve(m, 1, 2, 3, 4)
	}, ""},
	"all others have lost quorum, and it is proven dead": {func(m []Member, _ *Policy) []Member {
		m[0].Dead = true
		return starve(m, 1, 2, 3, 4)
	}, ""},
}

func TestWordsOfAgents(t *testing.T) {
	for what, c := range wordCases {
		m, p := five(), heeding
		m = c.change(m, &p)
		v := ask(p, m, noon.Add(time.Minute))
		if v.Reason != c.want || v.Allowed != (c.want == "") || !v.Allowed && v.Anyway == "" {
			t.Errorf("%s: %+v", what, v)
		}
		if v.Anyway != "" && !p.Look(m, noon.Add(time.Minute), &History{}).Allow("n0", v.Anyway).Allowed {
			t.Errorf("%s: a person's word is nothing", what)
		}
	}
}

// play looks every ten seconds, and returns how long n0 was held up.
func play(p Policy, d time.Duration, h *History, from time.Time, now func(at time.Duration) []Member) (held time.Duration) {
	for at := time.Duration(0); at < d; at += 10 * time.Second {
		if !p.Look(now(at), from.Add(at), h).Allow("n0", "").Allowed {
			held += 10 * time.Second
		}
	}
	return held
}

// again makes an agent repeat its report each minute.
func again(w *sightings.Sighting, at time.Duration) *sightings.Sighting {
	out := *w
	out.Number = uint64(at.Minutes())
	return &out
}

// A report that is not repeated counts for two and a half minutes, whatever the agent's clock is. Two agents that keep
// repeating it count for as long as they do.
func TestStaleWords(t *testing.T) {
	stale := play(heeding, time.Hour, &History{}, noon, func(time.Duration) []Member {
		m := five()
		m[1].Sighting, m[2].Sighting = moves("n0"), moves("n0")
		return m
	})
	if stale != wordLasts+10*time.Second {
		t.Errorf("a word of old holds it up for %v", stale)
	}
	two := play(heeding, time.Hour, &History{}, noon, func(at time.Duration) []Member {
		m := five()
		m[1].Sighting, m[2].Sighting = again(moves("n0"), at), again(moves("n0"), at)
		return m
	})
	if two != time.Hour {
		t.Errorf("two who go on saying so are heard for %v", two)
	}
	one := play(heeding, 40*time.Minute, &History{}, noon, func(at time.Duration) []Member {
		m := five()
		if m[1].Sighting = again(moves("n0"), at); at < 20*time.Minute {
			m[2].Sighting = again(moves("n0"), at)
		}
		return m
	})
	if one != 30*time.Minute+10*time.Second {
		t.Errorf("two for twenty minutes, and then one of them: held up for %v", one)
	}
	h := &History{}
	play(heeding, time.Minute, h, noon.Add(time.Hour), func(time.Duration) []Member {
		m := five()
		m[1].Sighting, m[2].Sighting = moves("n0"), moves("n0")
		return m
	})
	if back := play(heeding, time.Hour, h, noon, func(time.Duration) []Member {
		m := five()
		m[1].Sighting, m[2].Sighting = moves("n0"), moves("n0")
		return m
	}); back > wordLasts+10*time.Second {
		t.Errorf("a clock that is set back has a word of old hold it up for %v", back)
	}
}

// One agent that lies holds nothing up for more than ten minutes of twenty, whatever it reports and however often.
func TestOneLiar(t *testing.T) {
	for what, lie := range map[string]func(at time.Duration) *sightings.Sighting{
		"its slot moves": func(at time.Duration) *sightings.Sighting { return again(moves("n0"), at) },
		"its slot is still": func(at time.Duration) *sightings.Sighting {
			return again(&sightings.Sighting{SlotStill: []string{"n0"}}, at)
		},
		"no quorum": func(at time.Duration) *sightings.Sighting { return again(&sightings.Sighting{QuorumLost: true}, at) },
		"all of it": func(at time.Duration) *sightings.Sighting {
			return again(&sightings.Sighting{QuorumLost: true, SlotMoves: []string{"n0"}, SlotStill: []string{"n0"}}, at)
		},
		"by turns": func(at time.Duration) *sightings.Sighting {
			if int(at.Minutes())%2 == 0 {
				return nil
			}
			return again(&sightings.Sighting{QuorumLost: true, SlotMoves: []string{"n0"}}, at)
		},
		"one thing after the other": func(at time.Duration) *sightings.Sighting {
			return again([]*sightings.Sighting{{QuorumLost: true}, moves("n0"), {SlotStill: []string{"n0"}}}[int(at.Minutes())/10%3], at)
		},
		"after pauses": func(at time.Duration) *sightings.Sighting {
			if int(at.Minutes())%22 >= 11 {
				return nil
			}
			return again(&sightings.Sighting{QuorumLost: true, SlotMoves: []string{"n0"}}, at)
		},
	} {
		// The other agents are unreachable, so none contradicts it. With two or three Nodes, there is only one agent.
		held := play(heeding, 4*time.Hour, &History{}, noon, func(at time.Duration) []Member {
			m := five()
			m[1].Sighting = lie(at)
			for i := 2; i < 5; i++ {
				m[i].Silent = true
			}
			return m
		})
		if held == 0 || held > 2*time.Hour+5*time.Minute {
			t.Errorf("%s: held up for %v of four hours", what, held)
		}
		if what != "after pauses" && held > trusted+10*time.Second {
			t.Errorf("%s: held up for %v", what, held)
		}
	}
}

// Agents of two groups report the truth, or not; some lie, fall silent, die, or stop at any time. The oracle records
// the reports and their times, and goes through all of them again at each look.
func TestRandomWords(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	seen := map[string]int{}
	for run := range uint64(150) {
		randomWords(t, rand.New(rand.NewPCG(seed, run)), seen)
	}
	for _, reason := range []string{"", LeaseHeld, Disconnected, QuorumLost} {
		if seen[reason] == 0 {
			t.Errorf("never %q: %v", reason, seen)
		}
	}
}

// said is one report, as the oracle keeps it.
type said struct {
	by, about, what string
	group           string
	from            time.Time // when it was first made with this text
}

func randomWords(t *testing.T, r *rand.Rand, seen map[string]int) {
	var m []Member
	for i := range 3 + r.IntN(4) {
		m = append(m, Member{Name: fmt.Sprint("n", i), Group: []string{"a", "a", "b"}[r.IntN(3)], Ready: true, Since: noon.Add(-time.Hour), Created: noon.Add(-time.Hour)})
	}
	p, h := heeding, &History{}
	p.SkipDisconnected, p.OnlyWithQuorum = r.IntN(2) == 0, r.IntN(4) > 0
	since := map[string]time.Time{} // by speaker and text
	alone := map[string][2]time.Time{}
	number := 0
	for now := noon; now.Before(noon.Add(40 * time.Minute)); now = now.Add(time.Duration(2+r.IntN(20)) * time.Second) {
		for i := range m {
			shake(r, m, i, &number)
			if w := m[i].Sighting; w == nil {
				for key := range since {
					if strings.HasPrefix(key, m[i].Name+"/") {
						delete(since, key)
					}
				}
			} else if key := m[i].Name + "/" + fmt.Sprint(w.Number); since[key].IsZero() {
				since[key] = now
			}
		}
		s := p.Look(m, now, h)
		var all []said
		for _, o := range m {
			if o.Sighting == nil || o.Silent || o.Dead {
				continue
			}
			from := since[o.Name+"/"+fmt.Sprint(o.Sighting.Number)]
			if now.Sub(from) > 150*time.Second {
				continue
			}
			for _, n := range o.Sighting.SlotMoves {
				all = append(all, said{o.Name, n, LeaseHeld, o.Group, from})
			}
			for _, n := range o.Sighting.SlotStill {
				all = append(all, said{o.Name, n, Disconnected, o.Group, from})
			}
			if o.Sighting.QuorumLost {
				all = append(all, said{o.Name, "", QuorumLost, o.Group, from})
			}
		}
		oracle(t, p, s, m, all, alone, now, seen)
	}
}

// shake changes one node.
func shake(r *rand.Rand, m []Member, i int, number *int) {
	switch r.IntN(40) {
	case 0:
		m[i].Silent = !m[i].Silent
	case 1:
		m[i].Ready = !m[i].Ready
	case 2:
		m[i].Dead = r.IntN(2) == 0
	case 3:
		m[i].Sighting = nil
	case 4, 5, 6:
		w := &sightings.Sighting{QuorumLost: r.IntN(2) == 0}
		for j := range m {
			if r.IntN(3) == 0 {
				w.SlotMoves = append(w.SlotMoves, m[j].Name)
			}
			if r.IntN(3) == 0 {
				w.SlotStill = append(w.SlotStill, m[j].Name)
			}
		}
		m[i].Sighting = w
		fallthrough
	case 7, 8, 9:
		if *number++; m[i].Sighting != nil {
			w := *m[i].Sighting
			w.Number = uint64(*number)
			m[i].Sighting = &w
		}
	}
}

// oracle compares the verdict on each node with the reports.
func oracle(t *testing.T, p Policy, s *Survey, m []Member, all []said, alone map[string][2]time.Time, now time.Time, seen map[string]int) {
	t.Helper()
	for key, span := range alone { // claims that nobody has made for ten minutes are forgotten
		if now.Sub(span[1]) > 10*time.Minute {
			delete(alone, key)
		}
	}
	stand := func(key string) {
		span, there := alone[key]
		if !there {
			span[0] = now
		}
		span[1] = now
		alone[key] = span
	}
	starving := map[string]bool{}
	for _, w := range all {
		if w.what == QuorumLost && p.OnlyWithQuorum {
			stand(w.by)
		}
	}
	count := func(what string, n Member) (by []string) {
		for _, w := range all {
			if w.what == what && w.about == n.Name && w.by != n.Name && w.group == n.Group {
				by = append(by, w.by)
			}
		}
		return by
	}
	for _, n := range m {
		for what, on := range map[string]bool{LeaseHeld: p.SkipLeaseHeld, Disconnected: p.SkipDisconnected} {
			if by := count(what, n); on && len(by) == 1 && !n.Ready {
				stand(by[0])
			}
		}
	}
	for _, w := range all {
		if w.what == QuorumLost && now.Sub(alone[w.by][0]) <= 10*time.Minute {
			starving[w.by] = true
		}
	}
	for _, n := range m {
		want := map[string]bool{}
		for what, on := range map[string]bool{LeaseHeld: p.SkipLeaseHeld, Disconnected: p.SkipDisconnected} {
			by := count(what, n)
			want[what] = on && !n.Dead && (len(by) > 1 || len(by) == 1 && now.Sub(alone[by[0]][0]) <= 10*time.Minute)
		}
		others, lost := 0, 0
		for _, o := range m {
			if o.Name != n.Name && o.Group == n.Group && !o.Silent && !o.Dead {
				if others++; starving[o.Name] {
					lost++
				}
			}
		}
		want[QuorumLost] = p.OnlyWithQuorum && !n.Dead && others > 0 && lost == others
		if n.Ready {
			continue // nobody asks about this node
		}
		v := s.Allow(n.Name, "")
		seen[v.Reason]++
		if v.Allowed == (want[LeaseHeld] || want[Disconnected] || want[QuorumLost]) || !v.Allowed && !want[v.Reason] {
			t.Fatalf("%v, %s: %+v, and it should be %v; said: %v", now.Sub(noon), n.Name, v, want, all)
		}
	}
}

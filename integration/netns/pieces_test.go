package netns

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var (
	heals    = flag.Duration("heals", 20*time.Second, "how long each cluster begins new outages that heal in random pieces")
	healSeed = flag.Uint64("heal-seed", 0, "seed of the pieces; 0: a different one each time")
)

// TestHealsInPieces cuts all networks and heals them in random pieces at random moments, while a node loses the LUN or
// an agent is killed. Exactly the nodes that must give way do so; no node is called dead while it is fed; after the
// last piece all nodes are back.
func TestHealsInPieces(t *testing.T) {
	need(t)
	seed := *healSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (replay: -heal-seed %d)", seed, seed)
	for _, size := range []int{3, 4, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(size)))
			c := newCluster(t, size, []int{512, 4096}[size%2], nil)
			c.startAll()
			c.always = fencedOnlyUnfed
			for end := time.Now().Add(*heals); ; {
				p := drawPieces(rng, c.nodes)
				t.Log(p)
				c.healInPieces(p)
				if !time.Now().Before(end) {
					return
				}
			}
		})
	}
}

// pieces is an outage of all networks and its heal. Everything is drawn before it begins.
type pieces struct {
	dark   time.Duration // from the cut to the first heal
	stages []stage
	lun    string // the node that loses the LUN at the first heal; "": none
	dead   string // the node whose agent is killed then; "": none
}

// stage is a network that is divided into parts.
type stage struct {
	parts [][]string
	lasts time.Duration
}

func (p pieces) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dark for %v; without LUN %q, killed %q", p.dark.Round(time.Millisecond), p.lun, p.dead)
	for _, s := range p.stages {
		fmt.Fprintf(&b, "; %v for %v", s.parts, s.lasts.Round(time.Millisecond))
	}
	return b.String()
}

// drawPieces draws a heal: a majority first, halves first, or one node after the other.
func drawPieces(rng *rand.Rand, nodes []string) pieces {
	n := len(nodes)
	order := make([]string, n)
	for i, k := range rng.Perm(n) {
		order[i] = nodes[k]
	}
	p := pieces{dark: time.Second + time.Duration(rng.Int64N(int64(9*time.Second)))}
	add := func(sizes ...int) {
		s := stage{lasts: time.Second + time.Duration(rng.Int64N(int64(4*time.Second)))}
		rest := order
		for _, k := range sizes {
			s.parts, rest = append(s.parts, rest[:k]), rest[k:]
		}
		for i := range rest {
			s.parts = append(s.parts, rest[i:i+1])
		}
		p.stages = append(p.stages, s)
	}
	switch rng.IntN(3) {
	case 0:
		add(n/2 + 1)
	case 1:
		add(n/2, n/2)
	case 2:
		for k := 2; k < n; k++ {
			add(k)
		}
	}
	switch rng.IntN(3) {
	case 0:
		p.lun = nodes[rng.IntN(n)]
	case 1:
		p.dead = nodes[rng.IntN(n)]
	}
	return p
}

// fate is the fate of the nodes in a network that stays divided into parts.
type fate struct {
	live, hold, starve []string
	halves             [2][]string // one of them lives, and the other one does not
}

// fateOf returns what the rules promise, both with and without the statements of a node that has lost the LUN. If these
// differ, nothing is promised to the nodes that would hold.
func (p *pieces) fateOf(nodes []string, parts [][]string) (f fate) {
	n := len(nodes)
	alive := without(nodes, p.dead)
	var half [][]string
	for _, part := range parts {
		up := without(part, p.dead)
		switch {
		case 2*len(up) > n:
			f.live = up
		case 2*len(up) == n && !slices.Contains(up, p.lun):
			half = append(half, up)
		}
	}
	switch {
	case f.live != nil:
		f.starve = slices.DeleteFunc(slices.Clone(alive), func(x string) bool { return slices.Contains(f.live, x) })
	case len(half) == 1:
		f.live = half[0]
		f.starve = slices.DeleteFunc(slices.Clone(alive), func(x string) bool { return slices.Contains(f.live, x) })
	case len(half) == 2:
		f.halves = [2][]string{half[0], half[1]}
	default:
		with, also := without(alive, p.lun), alive
		if vacant(nodes, parts, with) && vacant(nodes, parts, also) {
			f.hold = with
		}
		if p.lun != "" {
			f.starve = []string{p.lun}
		}
	}
	return f
}

// vacant reports whether these nodes, none of which lives, are most of the nodes, and whether those of them that do not
// see one of the others are most of the nodes, too (docs/lease.md H1, H2).
func vacant(nodes []string, parts [][]string, words []string) bool {
	n := len(nodes)
	if 2*len(words) <= n {
		return false
	}
	for _, z := range nodes {
		missing := 0
		for _, s := range words {
			together := slices.ContainsFunc(parts, func(part []string) bool { return slices.Contains(part, s) && slices.Contains(part, z) })
			if !together {
				missing++
			}
		}
		if !slices.Contains(words, z) && 2*missing <= n {
			return false
		}
	}
	return true
}

// met returns the condition for a fate that has come about. The nodes that live count each other and nobody else by
// then. Before that, they may live by what they saw before the cut, and evidence of that age may expire in the next
// moment.
func (f *fate) met() observe.Condition {
	came := f.is(observe.Starving(f.starve...))
	if f.live == nil {
		return came
	}
	return observe.All(came, observe.Counting(f.live...))
}

// stays returns the condition for a fate that lasts. A node that starved may return to asking for a while: the decision
// that named others has ended, or one of the nodes that lived without it has made no statement since they missed it, or
// no longer lives. Their present statements are written within a heartbeat, and read within another (diskquorum,
// Testify).
func (f *fate) stays() observe.Condition { return f.is(unfed(f.starve, 2*heartbeat+lapse)) }

func (f *fate) is(starved observe.Condition) observe.Condition {
	all := []observe.Condition{starved}
	switch {
	case f.halves[0] != nil:
		all = append(all, observe.Decided(f.halves[0], f.halves[1]))
	case f.live != nil:
		all = append(all, living(f.live))
	}
	if f.hold != nil {
		all = append(all, held(f.hold...))
	}
	return observe.All(all...)
}

// heartbeat is the interval at which these agents write on the LUN whether they live.
const heartbeat = time.Second

// unfed holds while none of the nodes has had permission to feed for longer than longest.
func unfed(nodes []string, longest time.Duration) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			if v.Status[node].GetVerdict().GetPermission() == fencingv1.Permission_PERMISSION_STARVE {
				continue
			}
			for i := len(v.Verdicts) - 1; i >= 0; i-- {
				if c := v.Verdicts[i]; c.Node == node {
					if fed := v.Now.Sub(c.At); fed > longest {
						return fmt.Sprintf("%s is at %s for %v", node, observe.Verdict(v.Status[node]), fed)
					}
					break
				}
			}
		}
		return ""
	}
}

// living holds when these nodes are fed and have quorum.
func living(nodes []string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			p := v.Status[node].GetVerdict()
			if p.GetPermission() != fencingv1.Permission_PERMISSION_FEED || !p.GetQuorum() {
				return node + " is at " + observe.Verdict(v.Status[node])
			}
		}
		return ""
	}
}

// outageByLUN: lun.mode is or, so nothing happens to nodes that have the LUN, whatever the networks do. A node that has
// neither gives way.
func outageByLUN(t *testing.T) {
	c := newClusterOn(t, 4, 512, lab.AgentConfig{OwnLUN: func(string) map[string]any { return map[string]any{"mode": "or"} }})
	c.startAll()
	began := c.silence()
	always := observe.All(quorate(began, c.nodes), notItself(began, c.nodes...), nobodyFenced)
	c.await(c.lost(), "everybody calls all others LEFT", c.othersLeft(began, c.nodes...))
	c.await(startLimit, "all live by the LUN", observe.Feeding(fencingv1.Reason_REASON_LUN_QUORUM, c.nodes...), always)
	c.hold(*outage/3, "nothing else happens", observe.Feeding(fencingv1.Reason_REASON_LUN_QUORUM, c.nodes...), always)
	c.must(c.Lab().Cut(c.nodes[:2], c.nodes[2:]))
	c.hold(*outage/3, "nothing is decided between halves", living(c.nodes), always)
	c.must(c.Lab().Heal())
	c.await(backWithin, "all are back", observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...), always)

	last, rest := c.nodes[3], c.nodes[:3]
	c.silence()
	c.must(c.loops.Lose(3))
	c.await(c.gaveWay(), "who has neither network nor LUN is not fed any more", observe.Starving(last))
	c.hold(*outage/3, "the others go on", observe.Feeding(fencingv1.Reason_REASON_LUN_QUORUM, rest...), quorate(began, rest), nobodyFenced)
	c.must(c.loops.Restore(3))
	c.must(c.Lab().Heal())
	c.await(startLimit, "all is as before", c.everybody(), observe.LUNReady(c.nodes...))
}

// quorate holds while none of the nodes has had a verdict without quorum, since a moment, for longer than a lapse.
func quorate(since time.Time, nodes []string) observe.Condition {
	return func(v *observe.View) string {
		for i, c := range v.Verdicts {
			if c.At.After(since) && slices.Contains(nodes, c.Node) && c.Permission != fencingv1.Permission_PERMISSION_FEED && lasted(v, i) > lapse {
				return fmt.Sprintf("%s went to %v %v", c.Node, c.Permission, c.Reason)
			}
		}
		return ""
	}
}

// spared holds while none of the nodes starves for longer than a hiccup.
func spared(since time.Time, nodes []string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			if at, starves := observe.Starved(v, since, node); starves && v.Now.Sub(at) > hiccup {
				return fmt.Sprintf("%s has starved for %v", node, v.Now.Sub(at))
			}
		}
		return ""
	}
}

// gaveWay returns the longest time for nodes that must give way. Echo blocks on the LUN count for D_max + A, and a half
// holds for A more.
func (c *cluster) gaveWay() time.Duration {
	b := c.budget()
	return b.GetDMax().AsDuration() + 2*b.GetArbitration().AsDuration() + patience
}

func (c *cluster) healInPieces(p pieces) {
	c.t.Helper()
	limit := c.gaveWay()
	began := c.silence()
	c.hold(p.dark, "nobody dies in the dark", spared(began, c.nodes), c.always)
	if p.lun != "" {
		c.must(c.loops.Lose(slices.Index(c.nodes, p.lun)))
	}
	if p.dead != "" {
		c.must(c.Kill(p.dead))
	}
	safe := without(without(c.nodes, p.dead), p.lun) // the nodes that had to live in all stages so far
	for k, s := range p.stages {
		c.must(c.Lab().Cut(s.parts...))
		f := p.fateOf(c.nodes, s.parts)
		safe = slices.DeleteFunc(safe, func(x string) bool { return !slices.Contains(f.live, x) && !slices.Contains(f.hold, x) })
		always := observe.All(spared(began, safe), c.always)
		if k == len(p.stages)-1 {
			c.await(limit, fmt.Sprintf("what must be of %v", s.parts), f.met())
			c.hold(s.lasts, "it stays so", f.stays(), always)
			continue
		}
		c.hold(s.lasts, fmt.Sprintf("who lives goes on in %v", s.parts), always)
	}
	alive := without(c.nodes, p.dead)
	healed := time.Now()
	c.must(c.Lab().Heal())
	_, took := c.await(backWithin, "everybody is back", observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, alive...))
	c.t.Logf("all are back %v after the heal, %v after the cut", took.Round(10*time.Millisecond), healed.Sub(began).Round(time.Second))
	if p.lun != "" {
		c.must(c.loops.Restore(slices.Index(c.nodes, p.lun)))
	}
	if p.dead != "" {
		c.must(c.Start(p.dead))
	}
	c.await(startLimit, "all is as before", c.everybody(), observe.LUNReady(c.nodes...), observe.LeaseFree(c.nodes...))
	c.hold(time.Second, "nobody is called dead", nobodyFenced)
}

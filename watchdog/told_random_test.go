package watchdog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// gossips is a few machines with a core each, links that fail and heal, people who report true and false deaths, and
// perhaps one lying member.
type gossips struct {
	rng   *rand.Rand
	list  []roster.Member
	cores []*Core // nil: the machine is off
	boots []uint64
	offAt []boottime.Instant
	link  [][]bool             // [from][to]
	since [][]boottime.Instant // since when there is contact in both directions; zero: there is none
	liar  int                  // -1: no liar
	old   []bool               // of an earlier version, which neither passes facts on nor accepts them
	now   boottime.Instant

	// State of the oracle: boots that have answered a node which called them dead.
	caught map[[3]uint64]bool

	told, believed, learnt, defied int

	drill drill
}

// drill is a scenario that is tried once in each run, because random events hardly ever lead to a false report that is
// believed and then contradicted. A member is cut off for so long that no other sees it, its death is reported to half
// of the others, and then it is back. In half of the runs the random events go on; in the other half all members are
// healthy and in contact before, and nothing else happens.
type drill struct {
	victim        int
	quiet         bool
	cut, say, end boottime.Instant
}

// alone reports whether no other event may happen now.
func (d *drill) alone(now boottime.Instant) bool { return d.quiet && now >= d.cut && now <= d.end }

const tick = sec / 4

func newGossips(t *testing.T, seed uint64) *gossips {
	t.Helper()
	g := &gossips{rng: rand.New(rand.NewPCG(seed, 31)), now: 10 * sec, liar: -1, caught: map[[3]uint64]bool{}}
	n := 3 + g.rng.IntN(4)
	if g.rng.IntN(2) == 0 {
		g.liar = g.rng.IntN(n)
	}
	for i := range n {
		g.list = append(g.list, roster.Member{Name: fmt.Sprintf("n%04d", i)})
		g.boots, g.offAt = append(g.boots, uint64(1000+i)), append(g.offAt, 0)
		g.cores, g.old = append(g.cores, nil), append(g.old, g.rng.IntN(4) == 0)
	}
	for i := range n {
		g.link, g.since = append(g.link, make([]bool, n)), append(g.since, make([]boottime.Instant, n))
		for j := range n {
			g.link[i][j] = i != j
		}
		g.boot(t, i)
	}
	g.drill = drill{victim: g.rng.IntN(n), quiet: g.rng.IntN(2) == 0, cut: g.now.Add(time.Duration(15+g.rng.IntN(150)) * time.Second)}
	g.drill.say = g.drill.cut.Add(time.Duration(10+g.rng.IntN(5)) * time.Second)
	g.drill.end = g.drill.say.Add(time.Duration(1+g.rng.IntN(10)) * time.Second)
	return g
}

// follow keeps the drill's victim cut off, and reports its death to half of the others.
func (d *drill) follow(t *testing.T, g *gossips) {
	t.Helper()
	v := d.victim
	if g.now < d.cut || g.now > d.end {
		return
	}
	if d.quiet && g.now == d.cut {
		for p, c := range g.cores {
			if c == nil && g.now > g.offAt[p]+10*sec {
				g.boots[p] += 100
				g.boot(t, p)
			}
			for q := range g.cores {
				g.link[p][q] = p != q
			}
		}
	}
	for p := range g.cores {
		on := p != v && g.now == d.end
		g.link[v][p], g.link[p][v] = on, on
	}
	if g.now != d.say {
		return
	}
	for p, c := range g.cores {
		if p != v && c != nil && !g.old[p] && g.rng.IntN(2) == 0 { // the others hear of it from these nodes
			g.tell(p, v, g.boots[v])
		}
	}
}

// tell reports to a node that a boot of another is dead.
func (g *gossips) tell(at, victim int, boot uint64) {
	g.told++
	g.cores[at].proof.Tell(uint64(g.told), Word{Node: g.list[victim].Name, Death: Death{Boot: boot, Proof: ProofPower + Proof(g.rng.IntN(3))}})
}

func (g *gossips) boot(t *testing.T, i int) {
	t.Helper()
	r, err := roster.New(1, g.list, g.list[i].Name)
	if err != nil {
		t.Fatal(err)
	}
	g.cores[i] = NewCore(Config{
		Roster: r, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, Arbitrate: 10 * time.Second, OnLoss: LossFence, Boot: g.boots[i], Hold: true, Outside: true,
	})
	g.cores[i].SetGuard(true, 30*time.Second)
}

func (g *gossips) twoWay(i, j int) bool {
	return g.cores[i] != nil && g.cores[j] != nil && g.link[i][j] && g.link[j][i]
}

// event changes something, or makes a report.
func (g *gossips) event(t *testing.T) {
	t.Helper()
	n := len(g.cores)
	i, j := g.rng.IntN(n), g.rng.IntN(n)
	switch k := g.rng.IntN(20); {
	case k < 3 && i != j: // one direction
		g.link[i][j] = !g.link[i][j]
	case k < 6 && i != j:
		on := !g.link[i][j]
		g.link[i][j], g.link[j][i] = on, on
	case k < 7: // a node is cut off, or back
		on := g.rng.IntN(2) == 0
		for p := range n {
			if p != i {
				g.link[i][p], g.link[p][i] = on, on
			}
		}
	case k < 8 && g.cores[i] != nil:
		g.cores[i], g.offAt[i] = nil, g.now
	case k < 10 && g.cores[i] == nil && g.now > g.offAt[i]+10*sec:
		g.boots[i] += 100
		g.boot(t, i)
	case k < 14 && g.cores[i] != nil && !g.old[i]:
		boot := g.boots[j]
		if g.rng.IntN(8) == 0 {
			boot -= 100
		}
		g.tell(i, j, boot)
	}
}

// lie replaces the facts that the liar passes on.
func (g *gossips) lie(st *netgossip.Statement) *netgossip.Statement {
	lied := *st
	for k := range lied.Facts {
		v := g.rng.IntN(len(g.cores))
		lied.Facts[k] = netgossip.Fact{
			Kind: netgossip.FactSentence + netgossip.FactKind(g.rng.IntN(5)), Name: netgossip.NameDigest(g.list[v].Name), Boot: g.boots[v],
			Timeout: time.Second, Teller: g.rng.Uint32(),
		}
	}
	return &lied
}

// step advances the clock by a tick.
func (g *gossips) step() {
	g.now += tick
	for x, c := range g.cores {
		for y, other := range g.cores {
			switch {
			case x == y:
			case !g.twoWay(x, y):
				g.since[x][y] = 0
				if c != nil && other != nil && g.link[y][x] {
					c.Merger().Heard(0, y, g.now)
				}
			default:
				if g.since[x][y] == 0 {
					g.since[x][y] = g.now
				}
				if st := other.fx.Statement; st != nil {
					if y == g.liar {
						st = g.lie(st)
					}
					if g.old[x] || g.old[y] {
						bare := *st
						bare.Facts = [netgossip.MaxFacts]netgossip.Fact{}
						st = &bare
					}
					c.Merger().Answered(netgossip.Answer{Peer: y, SentAt: g.now, Statement: st})
				}
			}
		}
	}
	for _, c := range g.cores {
		if c == nil {
			continue
		}
		for _, a := range c.Step(g.now).Told {
			if a.Err == nil {
				g.believed++
			}
		}
	}
}

// settledFor is how long contact must last before it counts for the oracle: a packet in each direction, and the
// statement about it.
const settledFor = 3 * tick

// judge checks the published deaths. It knows which nodes run and which links are up, and only asks the cores which
// nodes they call dead.
func (g *gossips) judge() string {
	touch := func(a, b int) bool { return g.twoWay(a, b) && g.since[a][b] != 0 && g.now-g.since[a][b] >= settledFor }
	for x, c := range g.cores {
		if c == nil || x == g.liar {
			continue
		}
		for v := range g.cores {
			d := c.proof.Of(v)
			outside := d.Proof == ProofPower || d.Proof == ProofKdump || d.Proof == ProofOperator
			key := [3]uint64{uint64(x), uint64(v), d.Boot}
			if d.Proof == ProofSentence {
				return fmt.Sprintf("n%d calls n%d dead by a sentence, and nobody has condemned itself", x, v)
			}
			if outside && c.proof.Fenced().Has(v) {
				if d.Teller != "" && d.Teller != g.list[x].Name {
					g.learnt++
				}
				if g.caught[key] {
					return fmt.Sprintf("n%d calls boot %d of n%d dead again, which has answered it", x, d.Boot, v)
				}
				if g.cores[v] != nil && g.boots[v] == d.Boot {
					for m := range g.cores {
						if m != v && (m == x || touch(x, m)) && touch(m, v) {
							return fmt.Sprintf("n%d says FENCED of n%d by %v, which runs and is in contact with n%d", x, v, d.Proof, m)
						}
					}
				}
			}
		}
	}
	return ""
}

// catch records nodes that were called dead and are by now in contact with the node that called them dead.
func (g *gossips) catch(shown map[[3]uint64]bool) {
	for key := range shown {
		x, v := int(key[0]), int(key[1])
		if g.twoWay(x, v) && g.boots[v] == key[2] && g.since[x][v] != 0 && g.now-g.since[x][v] >= settledFor && !g.caught[key] {
			g.caught[key] = true
			g.defied++
		}
		if g.cores[x] == nil {
			delete(shown, key) // its agent forgets
			delete(g.caught, key)
		}
	}
	for key := range g.caught {
		if g.cores[key[0]] == nil {
			delete(g.caught, key)
		}
	}
}

// Guards: a node that runs, and is in contact with a node in contact with the observer, is never FENCED by a report
// from outside, even if a member lies. A boot that has answered after it was called dead is not called dead again. And
// sentences that one lying member invents never cause a node to be called dead.
func TestRandomWords(t *testing.T) {
	runs, first := 300, rand.Uint64()
	if testing.Short() {
		runs = 60
	}
	if s, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		runs, first = 1, s
	}
	if n, err := strconv.Atoi(os.Getenv("RUNS")); err == nil {
		runs = n
	}
	t.Logf("seeds from %d", first)
	told, believed, learnt, defied := 0, 0, 0, 0
	for seed := first; seed < first+uint64(runs); seed++ {
		g := newGossips(t, seed)
		for range 40 {
			g.step()
		}
		shown := map[[3]uint64]bool{}
		for range 800 {
			if g.rng.IntN(6) == 0 && !g.drill.alone(g.now) {
				g.event(t)
			}
			g.drill.follow(t, g)
			g.step()
			if what := g.judge(); what != "" {
				t.Fatalf("SEED=%d at %v, liar %d: %s", seed, time.Duration(g.now), g.liar, what)
			}
			for x, c := range g.cores {
				for v := range g.cores {
					if c != nil && x != g.liar && c.proof.Fenced().Has(v) && c.proof.Of(v).Proof.told() {
						shown[[3]uint64{uint64(x), uint64(v), c.proof.Of(v).Boot}] = true
					}
				}
			}
			g.catch(shown)
		}
		told, believed, learnt, defied = told+g.told, believed+g.believed, learnt+g.learnt, defied+g.defied
	}
	t.Logf("%d runs: %d words told, %d believed, heard of from others %d times, %d contradicted", runs, told, believed, learnt, defied)
	if runs >= 50 && (believed == 0 || learnt == 0 || defied == 0) {
		t.Error("nothing has happened")
	}
}

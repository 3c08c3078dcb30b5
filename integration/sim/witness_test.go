package sim

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

var table = flag.Bool("inquiry.table", false, "print the table of docs/measurements/performance.md")

// witnessed is one real core with its schedulers in a large group, whose other members only answer: a simulation of
// all of them would take hours. They claim the victims when they have missed them for long enough, each from another
// moment on.
type witnessed struct {
	core     *watchdog.Core
	roster   *roster.Roster
	params   netgossip.Params
	networks []*probing.Schedule
	rng      *rand.Rand
	now      boottime.Instant
	died     boottime.Instant // of the victims; zero: not yet
	victims  roster.Set
	missed   []boottime.Instant       // by member: when it has lost them
	blind    boottime.Instant         // when the witness has lost them; zero: not yet
	says     []*netgossip.Statement   // by member: before that
	said     []*netgossip.Statement   // by member: from statedAfter on
	unlisted []map[int]bool           // by network
	replies  []awaited                // by time
	probes   map[boottime.Instant]int // by second
	asked    int
	loss     float64 // share of the probes that are lost
}

type awaited struct {
	at      boottime.Instant
	network int
	peer    *probing.Peer
	id      uint64
	brief   bool // it asks for no statement
}

func newWitness(t *testing.T, n int, seed uint64, loss float64) *witnessed {
	t.Helper()
	cfg := DefaultConfig(n, seed)
	cfg.LUN = false
	var ms []roster.Member
	for i := range n {
		ms = append(ms, roster.Member{Name: "n" + string(rune('0'+i/1000)) + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))})
	}
	r, err := roster.New(1, ms, ms[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	w := &witnessed{roster: r, rng: rand.New(rand.NewPCG(seed, 1)), now: boottime.Instant(time.Hour), loss: loss, probes: map[boottime.Instant]int{},
		missed: make([]boottime.Instant, n), says: make([]*netgossip.Statement, n), said: make([]*netgossip.Statement, n)}
	w.params = netgossip.Tune(n)
	w.core = watchdog.NewCore(watchdog.Config{
		Roster: r, Networks: 2, Policy: netgossip.Any(), MaxAge: w.params.EvidenceMaxAge, OnLoss: watchdog.LossFence, Boot: 1, Booted: 1,
		Budget: cfg.Budget(),
	})
	guard := netgossip.Guard{Armed: true, Fences: true, Timeout: cfg.Watchdog, Horizon: cfg.Budget().Horizon()}
	var peers []int
	for p := range n {
		st := netgossip.Statement{Boot: uint64(p + 100), RosterEpoch: r.Epoch, RosterDigest: r.Digest, Seen: roster.FullSet(n), View: roster.FullSet(n), Guard: guard}
		if w.says[p] = &st; p != r.Self {
			peers = append(peers, p)
		}
	}
	for k := range 2 {
		listed := map[int]bool{}
		w.unlisted = append(w.unlisted, listed)
		w.networks = append(w.networks, probing.New(probing.Config{
			Params: w.params, Network: k, Peers: peers, Listed: func(p int) bool { return !listed[p] },
			Heard: func() boottime.Instant { return w.now }, Rand: rand.New(rand.NewPCG(seed, uint64(k)+7)),
		}, w.now))
		for _, p := range peers {
			w.core.Merger().MemberChanged(k, p, true, w.now)
		}
	}
	return w
}

// kill ends the last members. The others, and memberlist here, find out within some seconds.
func (w *witnessed) kill(victims int) {
	n := w.roster.Size()
	w.died = w.now
	for p := n - victims; p < n; p++ {
		w.victims.Add(p)
	}
	for p := range n - victims {
		st := *w.says[p]
		st.Seen = st.Seen.Minus(w.victims)
		st.View = st.Seen
		w.said[p] = &st
		w.missed[p] = w.died.Add(2*time.Second + time.Duration(w.rng.Int64N(int64(6*time.Second)))) // as memberlist takes in a large group
		for x := range w.victims.All() {
			st.Dues.Add(w.missed[p], st.Guard.Horizon, x)
		}
	}
}

// statedAfter is how long after it has lost the victims a member states when they will be dead.
const statedAfter = 2 * time.Second

// due is when a majority claims the deaths: a horizon after the last of its members has lost the victims.
func (w *witnessed) due() boottime.Instant {
	n := w.roster.Size()
	all := slices.Clone(w.missed[:n-w.victims.Len()])
	all[w.roster.Self] = w.blind
	slices.Sort(all)
	return all[n/2].Add(w.says[0].Guard.Horizon)
}

// bury is memberlist's word on the victims, some seconds after their death.
func (w *witnessed) bury(network int) {
	for p := range w.victims.All() {
		if w.unlisted[network][p] || w.now < w.died.Add(4*time.Second) {
			continue
		}
		at := w.now.Add(-w.params.AccusedSince())
		w.unlisted[network][p] = true
		w.core.Merger().MemberChanged(network, p, false, at)
		peer := w.networks[network].Peer(p)
		peer.Die(at)
		w.networks[network].Verify(peer, false, w.now)
	}
}

// statement is what a member says now; nil: it is dead.
func (w *witnessed) statement(p int) *netgossip.Statement {
	switch {
	case w.victims.Has(p):
		return nil
	case w.missed[p] != 0 && w.now >= w.missed[p].Add(statedAfter):
		return w.said[p]
	default:
		return w.says[p]
	}
}

// run lets time pass until an instant or until done, and returns whether it is.
func (w *witnessed) run(d time.Duration, done func() bool) bool {
	end, ids := w.now.Add(d), uint64(w.now)
	wake := w.now
	for w.now < end {
		changed := w.now >= wake
		for len(w.replies) > 0 && w.replies[0].at <= w.now {
			changed = true
			w.answer(w.replies[0])
			w.replies = w.replies[1:]
		}
		next := end
		for k, s := range w.networks {
			w.bury(k)
			for {
				s.Tick(w.now)
				p, brief, wait := s.Next(w.now)
				if p == nil {
					next = min(next, w.now.Add(max(wait, time.Millisecond)))
					break
				}
				ids++
				s.Probed(p, ids, w.now)
				w.probes[w.now/boottime.Instant(time.Second)]++
				if w.statement(p.Index) != nil && w.rng.Float64() >= w.loss {
					w.replies = append(w.replies, awaited{w.now.Add(time.Millisecond), k, p, ids, brief})
				}
			}
			for _, miss := range s.TakeMisses() {
				w.core.Merger().Missed(k, miss.Peer, miss.Since, miss.Void)
				w.networks[1-k].Verify(w.networks[1-k].Peer(miss.Peer), true, w.now)
				changed = true
			}
			if s.TakeDoubt() {
				w.networks[1-k].Doubt(w.now)
			}
			w.core.Merger().Vouched(k, s.Vouched())
		}
		if changed {
			fx := w.core.Step(w.now)
			if fx.Arm {
				w.core.SetGuard(true, 30*time.Second)
			}
			v := w.core.NetworkView()
			if w.blind == 0 && w.died != 0 && !v.Seen.Intersects(w.victims) {
				w.blind = w.now
			}
			demand := w.core.Merger().Demand(&v, w.core.Rosters().Quorum())
			for k, s := range w.networks {
				s.SetDemand(demand, w.now)
				if fx.Ask != nil {
					w.asked += fx.Ask[k].Len()
					s.Ask(fx.Ask[k].Has, w.now)
				}
			}
			if done() {
				return true
			}
			wake = min(fx.Wake, w.now.Add(250*time.Millisecond))
		}
		if next = min(next, wake); len(w.replies) > 0 {
			next = min(next, w.replies[0].at)
		}
		w.now = max(next, w.now+1)
	}
	return false
}

func (w *witnessed) answer(r awaited) {
	st, s := w.statement(r.peer.Index), w.networks[r.network]
	o, ok := s.Replied(r.peer, r.id, w.now)
	if st == nil || !ok {
		return
	}
	s.Answered(r.peer, o, true, w.now)
	if r.brief && r.peer.Known != nil {
		w.core.Merger().Answered(netgossip.Answer{Network: r.network, Peer: r.peer.Index, SentAt: o.At, Sight: netgossip.SightSeen})
		return
	}
	r.peer.Tell(o.At)
	r.peer.Known = st
	w.core.Merger().Answered(netgossip.Answer{Network: r.network, Peer: r.peer.Index, SentAt: o.At, Statement: st, Clock: w.now})
}

// prove kills members of a group at rest and returns how long after a majority claims their deaths the witness has proven
// them, how many peers it asked for that, and its most probes in a second since the death and
// before it.
func prove(t *testing.T, n, victims int, seed uint64, loss float64) (late time.Duration, asked, busiest, idle int) {
	t.Helper()
	w := newWitness(t, n, seed, loss)
	if w.run(60*time.Second, func() bool { return false }); w.core.Decision().Action != watchdog.Feed {
		t.Fatalf("%d nodes: %+v", n, w.core.Decision())
	}
	most := func(from, to boottime.Instant) (most int) {
		for at := from / boottime.Instant(time.Second); at <= to/boottime.Instant(time.Second); at++ {
			most = max(most, w.probes[at])
		}
		return most
	}
	idle = most(w.now.Add(-30*time.Second), w.now)
	w.kill(victims)
	first := w.died.Add(w.says[0].Guard.Horizon)
	if asked := w.asked; asked > 0 {
		t.Errorf("%d nodes: %d asked at rest", n, asked)
	}
	if !w.run(10*time.Minute, func() bool { return w.core.Deaths().Fenced().And(w.victims) == w.victims }) {
		t.Errorf("%d nodes, %d dead, seed %d: not proven", n, victims, seed)
	}
	return w.now.Sub(w.due()), w.asked, most(first.Add(-time.Second), w.now), idle
}

// Guard: at 1000 nodes it is as in a small group. What is asked for a proof is bounded, and nothing is asked at rest.
func TestWitnessOfALargeGroupHasItsProofSoon(t *testing.T) {
	seeds := uint64(1)
	if *table {
		seeds = 3
	}
	for _, tc := range []struct {
		nodes, victims int
		loss           float64
		always         bool
	}{
		{10, 1, 0, true}, {100, 1, 0, false}, {300, 1, 0, true}, {300, 149, 0, false},
		{1000, 1, 0, true}, {1000, 1, 0.05, false}, {1000, 499, 0, false},
	} {
		if !tc.always && !*table {
			continue
		}
		var late time.Duration
		var asked, busiest, idle int
		for seed := range seeds {
			l, a, b, i := prove(t, tc.nodes, tc.victims, seed, tc.loss)
			late, asked, busiest, idle = max(late, l), max(asked, a), max(busiest, b), max(idle, i)
		}
		if *table {
			t.Logf("| %d | %d | %.0f %% | %.1f s | %d | %d | %d |", tc.nodes, tc.victims, 100*tc.loss, late.Seconds(), asked, busiest, idle)
		}
		if late > lateness(tc.nodes) {
			t.Errorf("%d nodes, %d dead: proven %v after a majority claims it", tc.nodes, tc.victims, late)
		}
		if asked > 3*tc.nodes || busiest > max(400, tc.nodes) {
			t.Errorf("%d nodes, %d dead: %d peers asked, up to %d probes a second", tc.nodes, tc.victims, asked, busiest)
		}
	}
}

package doubt

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// world is a group in virtual time: cores, a network that loses packets, and nodes that crash, stall or lie. It knows
// the true state, and shares no rule with the cores.
type world struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	now    boottime.Instant
	events events
	serial int

	size, networks int
	loss           []float64 // by network
	dead           []boottime.Instant
	until          []boottime.Instant // end of a node's stall
	held           [][]func()         // packets that arrive during the stall
	deaf           map[[2]int]bool    // no packet gets from the first node to the second
	cores          []*Core
	ticks          []boottime.Instant // by node, time of the next planned tick

	left  map[[2]int]boottime.Instant // by observer and subject
	words int                         // packets with words
	said  map[Kind]int                // words, no matter how many receivers they have
	looks int
	mute  func(from int, w Outgoing) bool // reports whether a word is suppressed
}

type event struct {
	at     boottime.Instant
	serial int
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].serial < e[j].serial
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

const never = boottime.Never

func newWorld(t *testing.T, seed uint64, size, networks int, loss float64, policy netgossip.Policy) *world {
	w := &world{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: boottime.Instant(time.Hour), size: size, networks: networks,
		deaf: map[[2]int]bool{}, left: map[[2]int]boottime.Instant{}, said: map[Kind]int{},
	}
	var members []roster.Member
	for i := range size {
		members = append(members, roster.Member{Name: fmt.Sprintf("n%04d", i)})
	}
	for range networks {
		w.loss = append(w.loss, loss)
	}
	for i := range size {
		r, err := roster.New(1, members, members[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		w.dead, w.until, w.ticks, w.held = append(w.dead, never), append(w.until, 0), append(w.ticks, never), append(w.held, nil)
		w.cores = append(w.cores, New(Config{
			Roster: r, Networks: networks, Policy: policy, Params: netgossip.Tune(size), Rand: rand.New(rand.NewPCG(seed, uint64(i)+2)),
		}, w.now))
	}
	for i := range size {
		for range measured {
			w.cores[i].Closed(w.rand.Float64() < 1-(1-loss)*(1-loss))
		}
		w.in(time.Duration(w.rand.Int64N(int64(133*time.Millisecond))), func() { w.samples(i, 0) })
	}
	return w
}

// in schedules an event; an event on a node waits for the end of its stall.
func (w *world) in(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.now.Add(d), w.serial, do})
}

func (w *world) on(i int, d time.Duration, do func()) {
	w.in(d, func() {
		switch {
		case w.now >= w.dead[i]:
		case w.now < w.until[i]:
			w.held[i] = append(w.held[i], do)
		default:
			do()
		}
	})
}

// stall lets a node stall: its timers and all arriving packets wait; afterwards the timers come first.
func (w *world) stall(i int, d time.Duration) {
	w.until[i] = w.now.Add(d)
	w.in(d, func() {
		do := w.held[i]
		w.held[i] = nil
		w.do(i, func(c *Core) { c.Tick(w.now) })
		for _, f := range do {
			f()
		}
	})
}

func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// do lets a core act and carries out its effects.
func (w *world) do(i int, act func(*Core)) {
	c := w.cores[i]
	act(c)
	fx := c.Take()
	looks, words := append([]Look(nil), fx.Looks...), append([]Outgoing(nil), fx.Words...)
	for p := range w.size {
		_, left := c.Left()[p]
		if key := [2]int{i, p}; left && w.left[key] == 0 {
			w.left[key] = w.now
		} else if !left {
			delete(w.left, key)
		}
	}
	for _, l := range looks {
		w.looks++
		w.probe(l.Network, i, l.Peer, nil)
	}
	for _, o := range words {
		if w.mute != nil && w.mute(i, o) {
			continue
		}
		w.said[o.Word.Kind]++
		w.say(i, o)
	}
	if next := c.Next(); next < w.ticks[i] || w.ticks[i] <= w.now {
		w.ticks[i] = next
		if next != never {
			w.on(i, max(time.Millisecond, next.Sub(w.now)), func() { w.do(i, func(c *Core) { c.Tick(w.now) }) })
		}
	}
}

func (w *world) say(from int, o Outgoing) {
	made := w.now
	for to := range w.size {
		if to == from || to == o.Word.Peer || !o.Everyone && !o.To.Has(to) {
			continue
		}
		for c := range w.networks * o.Copies {
			k := c % w.networks
			if way := w.cores[from].Way(to, w.now); o.Copies == 1 && way >= 0 && k != way {
				continue
			}
			w.words++
			if w.passes(k, from, to) {
				w.on(to, 300*time.Microsecond, func() { w.do(to, func(c *Core) { c.Said(o.Word, from, made, w.now) }) })
			}
		}
	}
}

func (w *world) passes(k, from, to int) bool {
	return !w.deaf[[2]int{from, to}] && w.rand.Float64() >= w.loss[k]
}

// probe sends a probe, which is answered if no packet is lost.
func (w *world) probe(k, i, p int, answered func()) {
	sent := w.now
	w.do(i, func(c *Core) { c.Probed(k, p, w.now) })
	if !w.passes(k, i, p) {
		return
	}
	w.on(p, 200*time.Microsecond, func() {
		if !w.passes(k, p, i) {
			return
		}
		w.on(i, 200*time.Microsecond, func() {
			if answered != nil {
				answered()
			}
			w.do(i, func(c *Core) { c.Answered(k, p, sent, 7, w.now) })
		})
	})
}

// samples probes a random peer on the networks in turns, like package probing: four times, and it reports when the
// first probe is late.
func (w *world) samples(i, n int) {
	if w.now >= w.dead[i] {
		return
	}
	w.on(i, 133*time.Millisecond, func() { w.samples(i, n+1) })
	p := w.rand.IntN(w.size)
	if p == i {
		return
	}
	k, since, done := n%w.networks, w.now, false
	for try := range 4 {
		w.on(i, time.Duration(try)*150*time.Millisecond, func() {
			if done {
				return
			}
			if try == 1 {
				w.do(i, func(c *Core) { c.Late(k, p, since, false, w.now) })
			}
			w.probe(k, i, p, func() {
				if !done {
					done = true
					w.cores[i].Closed(try > 0)
				}
			})
		})
	}
}

// known returns how long it took until the peer was LEFT on all survivors; false: not on all.
func (w *world) known(p int) (longest time.Duration, all bool) {
	for i := range w.size {
		if w.dead[i] != never {
			continue
		}
		at := w.left[[2]int{i, p}]
		if at == 0 {
			return 0, false
		}
		longest = max(longest, at.Sub(w.dead[p]))
	}
	return longest, true
}

// falsely lists peers that are LEFT on some node but alive.
func (w *world) falsely() (all []string) {
	for k := range w.left {
		if w.dead[k[1]] == never && w.dead[k[0]] == never {
			all = append(all, fmt.Sprintf("%d at %d", k[1], k[0]))
		}
	}
	return all
}

package gossipsim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

const (
	lieEvery   = 100 * time.Millisecond
	liesOfOne  = 20 // the number of consecutive lies about one member: for two seconds, longer than any window
	otherNames = 3  // the number of other members in whose names it also lies
)

// liar is a member that has the key and its place in the list, and whose node otherwise behaves well. It asks all
// members for the cookie that its messages must contain. It then sends every possible false report about each member in
// turn.
type liar struct {
	w    *world
	node int
	tag  uint32
	rand *rand.Rand

	mu      sync.Mutex
	cookies map[int]uint64 // by member: the cookie that it gave
}

// lie makes a node lie until the end.
func (w *world) lie(node int) {
	l := &liar{
		w: w, node: node, tag: wire.RosterTag(w.roster), rand: rand.New(rand.NewPCG(w.cfg.Seed, 0x11a2)), cookies: map[int]uint64{},
	}
	w.liar = l
	w.fab.change(func() { w.fab.tapped = l.overhear })
	w.lives.Go(func() {
		ticker := time.NewTicker(lieEvery)
		defer ticker.Stop()
		for round := 0; ; round++ {
			select {
			case <-w.over:
				return
			case <-ticker.C:
				l.speak((round / liesOfOne) % w.cfg.Nodes)
			}
		}
	})
}

// overhear reads the cookies in the answers to the liar. It does not see the traffic between others.
func (l *liar) overhear(_, from, to int, packet []byte) {
	if to != l.node || kindOf(packet) != wireUserMsg {
		return
	}
	for skip := range len(packet) { // skips the label and the checksum, if any
		if packet[skip] != wireUserMsg {
			continue
		}
		if m, err := wire.Decode(packet[skip+1:], l.w.roster, l.tag); err == nil {
			if m.Kind == wire.Answer && m.Cookie != 0 {
				l.mu.Lock()
				l.cookies[from] = m.Cookie
				l.mu.Unlock()
			}
			return
		}
	}
}

// speak sends all reports about one member to all others.
func (l *liar) speak(of int) {
	for k := range l.w.cfg.Networks {
		list, err := l.w.nodes[l.node].engine.list(k)
		if err != nil {
			return
		}
		for to := range l.w.cfg.Nodes {
			if to == l.node {
				continue
			}
			send := func(m wire.Message) {
				m.Roster, m.Clock = l.tag, wire.ClockOf(l.w.nodes[l.node].boot, clock())
				if b, err := wire.Append(nil, m); err == nil {
					_ = list.SendToAddress(memberlist.Address{Addr: l.w.at(k, to).String(), Name: l.w.roster.Name(to)}, b)
				}
			}
			l.mu.Lock()
			cookie := l.cookies[to]
			l.mu.Unlock()
			if cookie == 0 {
				send(wire.Message{Kind: wire.Probe, ID: max(1, l.rand.Uint64()), Member: l.node, Brief: true, Bare: true})
				continue
			}
			for word := doubt.Ask; word.Valid(); word++ {
				for i := range 1 + otherNames {
					if name := (l.node + i*7) % l.w.cfg.Nodes; of != to && of != name && name != to {
						send(wire.Message{Kind: wire.Doubt, Member: name, Cookie: cookie, Word: doubt.Word{Kind: word, Peer: of}})
					}
				}
			}
		}
	}
}

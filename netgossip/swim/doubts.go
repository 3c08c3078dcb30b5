package swim

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/doubt"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// DoubtsConfig holds the settings of Doubts.
type DoubtsConfig struct {
	Networks int
	Policy   netgossip.Policy
	Clock    boottime.Clock
	// Left receives, after each change, the peers that this node may publish as LEFT although there is evidence of
	// them: by their index in a roster, with the start of their silence. It is called like a Sink.
	Left func(r *roster.Roster, silent []netgossip.Silence)
}

// Doubts holds a node's doubts about its peers (package doubt). The instances of all its networks share it: a peer that
// is late on one network is looked at on all. The doubts pause while an instance is missing, or uses another roster
// than the others: no time passes for them, and when the instance is there, all silences begin again. With a new
// roster, only the peers that are LEFT are kept.
//
// A word counts only with the cookie that this process gave to its sender, in an answer to the sender's probe. No other
// member got that cookie, so a member with the key cannot send words in the name of others. And a word is dated like
// any packet, so a replayed word is as old as its first copy (clock.go).
type Doubts struct {
	cfg    DoubtsConfig
	secret [sha256.Size]byte
	wake   boottime.Wake

	mu        sync.Mutex // locked before the instances' locks
	roster    *roster.Roster
	core      *doubt.Core
	instances []*evidence // by network; nil: there is none that uses roster
	known     []acquaintance
	armed     boottime.Instant // when Run wakes
}

// acquaintance holds what a node needs to exchange words with a peer.
type acquaintance struct {
	cookie uint64 // the cookie that this node's words to the peer must contain; 0: the peer gave none
	clock  peerClock
}

// NewDoubts returns the doubts of a process. The owner must call Run.
func NewDoubts(cfg DoubtsConfig) *Doubts {
	d := &Doubts{cfg: cfg, wake: boottime.NewWake(), instances: make([]*evidence, cfg.Networks), armed: boottime.Never}
	_, _ = rand.Read(d.secret[:]) // never fails
	return d
}

// Run does everything that is due, until ctx ends.
func (d *Doubts) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		timer.Reset(min(time.Hour, d.tick()))
	}
}

// tick does everything that is due, and returns the time after which it must be called again.
func (d *Doubts) tick() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock()
	if d.armed = boottime.Never; d.core != nil && !d.rests() {
		d.core.Tick(now)
		d.act(now)
		d.armed = d.core.Next()
	}
	return max(grain, d.armed.Sub(now))
}

// rests reports whether an instance is missing. Invariant: while it rests no silence grows, because the answers on the
// other networks are not recorded either.
func (d *Doubts) rests() bool { return slices.Contains(d.instances, nil) }

// join adds the instance of a network. An instance that uses another roster than the earlier ones starts everything
// again.
func (d *Doubts) join(e *evidence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.cfg.Clock(); d.core == nil || d.roster.Digest != e.cfg.Roster.Digest || d.roster.Epoch != e.cfg.Roster.Epoch {
		core := doubt.New(doubt.Config{
			Roster: e.cfg.Roster, Networks: d.cfg.Networks, Policy: d.cfg.Policy, Params: e.cfg.Params,
			Rand: mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64())),
		}, now)
		if d.core != nil {
			for p, since := range d.core.Left() {
				if i, ok := e.cfg.Roster.Index(d.roster.Name(p)); ok {
					core.Recall(i, since, now)
				}
			}
			clear(d.instances)
		}
		d.core, d.roster, d.known = core, e.cfg.Roster, make([]acquaintance, e.cfg.Roster.Size())
	}
	if d.instances[e.cfg.Network] = e; !d.rests() {
		d.core.Restart(d.cfg.Clock())
		d.arm()
	}
}

// arm makes Run wake when the core needs it; mu is held.
func (d *Doubts) arm() {
	if next := d.core.Next(); next < d.armed {
		d.armed = next
		d.wake.Signal()
	}
}

// part removes an instance that ends.
func (d *Doubts) part(e *evidence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.instances[e.cfg.Network] == e {
		d.instances[e.cfg.Network] = nil
	}
}

// with runs call and carries out the result, if the instance uses the roster and all networks have such an instance.
func (d *Doubts) with(e *evidence, call func(now boottime.Instant)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.instances[e.cfg.Network] != e || d.rests() {
		return
	}
	now := d.cfg.Clock()
	call(now)
	d.act(now)
	d.arm()
}

// act carries out the core's effects; mu is held.
func (d *Doubts) act(now boottime.Instant) {
	fx := d.core.Take()
	for _, l := range fx.Looks {
		if e := d.instances[l.Network]; e != nil {
			e.post(arrival{peer: l.Peer, look: true})
		}
	}
	if len(fx.Words) > 0 {
		d.send(fx.Words, now)
	}
	if fx.Changed && d.cfg.Left != nil {
		silent := make([]netgossip.Silence, 0, len(d.core.Left()))
		for p, since := range d.core.Left() {
			silent = append(silent, netgossip.Silence{Peer: p, Since: since})
		}
		slices.SortFunc(silent, func(a, b netgossip.Silence) int { return a.Peer - b.Peer })
		d.cfg.Left(d.roster, silent)
	}
}

// send passes words to the instances, for the peers that have given a cookie: other peers do not understand words. A
// word that is sent once goes to the network on which its receiver answered last. If packets are lost, each word goes
// to all networks, several times. The watchers get a broadcast word first, so they know that it has been sent.
func (d *Doubts) send(words []doubt.Outgoing, now boottime.Instant) {
	out := make([][]spokenWord, len(d.instances))
	for _, w := range words {
		n := len(d.known)
		first := mathrand.IntN(n) // so that not all nodes use the same order
		for round := range 2 {
			for i := range n * w.Copies {
				p := (first + i) % n
				cookie := d.known[p].cookie
				if cookie == 0 || p == w.Word.Peer || w.To.Has(p) != (round == 0) || round > 0 && !w.Everyone {
					continue
				}
				way := -1
				if w.Copies == 1 {
					way = d.core.Way(p, now)
				}
				for k := range out {
					if way < 0 || k == way {
						out[k] = append(out[k], spokenWord{p, cookie, w.Word})
					}
				}
			}
		}
	}
	for k, e := range d.instances {
		if e != nil && len(out[k]) > 0 {
			e.ask(func(r *request) { r.words = append(r.words, out[k]...) })
		}
	}
}

// cookieFor returns the cookie that a member's words to this node must contain. It is never 0.
func (d *Doubts) cookieFor(name string) uint64 {
	h := hmac.New(sha256.New, d.secret[:])
	h.Write([]byte(name))
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}

// Met makes this process know the peer's cookie from other, and the peer's boot, as if the peer had just answered a
// probe. It is for simulations that start with a running group. Call it after the instances have started.
func (d *Doubts) Met(peer int, other *Doubts, boot uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock()
	k := &d.known[peer]
	k.cookie = other.cookieFor(d.roster.Name(d.roster.Self))
	k.clock.read(wire.ClockOf(boot, now), now)
}

// bare reports whether a peer has not given a cookie.
func (d *Doubts) bare(peer int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return peer < len(d.known) && d.known[peer].cookie == 0
}

// late, closed, probed and answered record the results of an instance.
func (d *Doubts) late(e *evidence, l probing.Late) {
	d.with(e, func(now boottime.Instant) { d.core.Late(e.cfg.Network, l.Peer, l.Since, l.Swept, now) })
}

func (d *Doubts) closed(e *evidence, samples, late uint64) {
	d.with(e, func(boottime.Instant) {
		for i := range samples {
			d.core.Closed(i < late)
		}
	})
}

func (d *Doubts) probed(e *evidence, peer int) {
	d.with(e, func(now boottime.Instant) { d.core.Probed(e.cfg.Network, peer, now) })
}

func (d *Doubts) answered(e *evidence, peer int, sentAt boottime.Instant, boot uint64, m *wire.Message, came boottime.Instant) {
	d.with(e, func(now boottime.Instant) {
		k := &d.known[peer]
		if k.clock.read(m.Clock, came); m.Cookie != 0 || m.Statement != nil {
			k.cookie = m.Cookie // a peer that understands words gives a cookie with each statement; 0: it does not, or no longer does
		}
		d.core.Answered(e.cfg.Network, peer, sentAt, boot, now)
	})
}

// heed handles a word, and reports whether it counts: the cookie must prove its sender, and its date must be known.
func (d *Doubts) heed(e *evidence, p *peer, m *wire.Message, came boottime.Instant) (counts bool) {
	if !hmac.Equal(binary.LittleEndian.AppendUint64(nil, m.Cookie), binary.LittleEndian.AppendUint64(nil, d.cookieFor(p.addr.Name))) {
		return false
	}
	counts = true // a word that comes while the doubts rest is not the sender's fault
	d.with(e, func(now boottime.Instant) {
		made := d.known[p.Index].clock.dates(m.Clock, came)
		if counts = made > 0; counts {
			d.core.Said(m.Word, p.Index, made, now)
		}
	})
	return counts
}

// spokenWord is a word on its way to a peer.
type spokenWord struct {
	to     int
	cookie uint64
	word   doubt.Word
}

// wordsAtOnce is the number of words that a network sends within one grain of time: 1000 peers hear one within an
// eighth of a second, and no socket's buffer is filled.
const wordsAtOnce = 8

// speak sends some of the words that wait, and reports whether there are more.
func (e *evidence) speak() (more bool) {
	for range min(wordsAtOnce, len(e.words)) {
		w := e.words[0]
		e.words = e.words[1:]
		if p := e.peers[w.to]; p != nil {
			e.transmit(p, wire.Message{Kind: wire.Doubt, Member: e.cfg.Roster.Self, Roster: e.tag, Cookie: w.cookie, Word: w.word})
		}
	}
	return len(e.words) > 0
}

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// voices returns how long a dated echo block on the LUN counts for quorum; 0 if it does not count.
func (c *Config) voices(t *Times) time.Duration {
	if c.Mode != watchdog.LUNOr || !c.LUN {
		return 0
	}
	return t.Timing.MaxAge + c.sampling(t) + t.Timing.Arbitrate
}

// mode returns lun.mode of a node. An agent from before holds existed does not count by the LUN either.
func (c *Cluster) mode(i int) watchdog.LUNMode {
	if i < c.cfg.Others || c.cfg.Mode == watchdog.LUNOr && i < c.cfg.Before {
		return watchdog.LUNTieBreaker
	}
	return c.cfg.Mode
}

// ledger records the echo blocks on the LUN: which node wrote which block and when, and which node has read it. It does
// not parse them.
type ledger struct {
	begun map[*diskquorum.Op]word     // writes of echo blocks that have not landed
	stand map[path]word               // by device and slot
	read  map[[2]int]boottime.Instant // by reader and writer: when the youngest block that was read was handed out
}

type word struct {
	writer int
	at     boottime.Instant
}

func newLedger() ledger {
	return ledger{map[*diskquorum.Op]word{}, map[path]word{}, map[[2]int]boottime.Instant{}}
}

// slotOf returns the slot whose echo block is written; ok is false for any other write.
func (l *lun) slotOf(o *diskquorum.Op) (slot int, ok bool) {
	first := diskquorum.EchoOffset(l.sbs[o.Device].Slots, 0)
	return int((o.Offset - first) / diskquorum.BlockSize), o.Offset >= first
}

func (l *lun) noteBegun(n *Node, o *diskquorum.Op) {
	if _, ok := l.slotOf(o); ok && o.Kind == diskquorum.OpWrite {
		l.ledger.begun[o] = word{n.Index, l.c.now}
	}
}

func (l *lun) noteLanded(o *diskquorum.Op, whole bool) {
	if w, ok := l.ledger.begun[o]; ok {
		slot, _ := l.slotOf(o)
		l.ledger.stand[path{slot, o.Device}] = w
		if whole {
			delete(l.ledger.begun, o)
		}
	}
}

func (l *lun) noteRead(n *Node, o *diskquorum.Op) {
	if o.Offset+int64(o.Length) <= diskquorum.EchoOffset(l.sbs[o.Device].Slots, 0) {
		return
	}
	for at, w := range l.ledger.stand {
		if at.device == o.Device {
			pair := [2]int{n.Index, w.writer}
			l.ledger.read[pair] = max(l.ledger.read[pair], w.at)
		}
	}
}

// countedUntil returns the latest moment until which a node may count another one, given what it can last have heard of
// it on the network and on the LUN.
func (c *Cluster) countedUntil(n, p *Node, heard boottime.Instant) boottime.Instant {
	t := c.times(n)
	until := heard.Add(t.Timing.MaxAge + c.cfg.sampling(t))
	if v := c.cfg.voices(t); v > 0 && c.mode(n.Index) == watchdog.LUNOr {
		until = max(until, c.lun.ledger.read[[2]int{n.Index, p.Index}].Add(v))
	}
	return until
}

// RandomVoiceSchedule is RandomSchedule for a group with lun.mode: or, all of whose networks are silent half of the
// time, so that faults of the LUN matter then. Some nodes may count only by the networks.
func RandomVoiceSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x0f1ce))
	cfg := DefaultConfig([]int{2, 3, 3, 4, 4, 5, 6}[rng.IntN(7)], seed)
	cfg.Mode, cfg.Devices, cfg.NoHold, cfg.often = watchdog.LUNOr, 1+2*rng.IntN(2), rng.IntN(2) == 0, true
	if rng.IntN(4) == 0 {
		cfg.Others = rng.IntN(cfg.Nodes)
	}
	cfg.drawTimes(rng)
	return play(cfg.withOutages(seed), rng, trace, logf)
}

// noteVoices counts how often a node begins to stay up by the LUN.
func (c *Cluster) noteVoices(fx *watchdog.Effects) {
	if fx.Changed && fx.Decision.Reason == watchdog.ReasonLUNQuorum {
		c.check.ByLUN++
	}
}

package swim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// maxRejoinInterval is the longest interval of the loop while attempts to join fail.
	maxRejoinInterval = 15 * time.Second
	// rejoinFanout bounds the attempts of one round. One success is enough to merge two
	// partitions, and each failure may take a TCPTimeout.
	rejoinFanout = 3
	// reachedInterval is the minimum time between two attempts to join a peer because it has answered a probe.
	reachedInterval = time.Second
)

// rejoiner joins roster members that memberlist does not list: at the start, and after a partition. memberlist does not
// heal a partition by itself after it has removed its dead members.
type rejoiner struct {
	cfg     *Config
	targets []target
	journal *journal

	changed boottime.Wake // memberlist's table has changed
	reached chan int      // a peer that is not listed has answered a probe
	listed  []atomic.Bool // by roster index, according to memberlist's events
	leaving []atomic.Bool // by roster index, according to the peers' statements

	// Owned by run:
	list    *memberlist.Memberlist
	last    map[int]time.Time // time of the latest attempt to join each peer
	missing []target
}

func newRejoiner(cfg *Config, targets []target, j *journal) *rejoiner {
	return &rejoiner{
		cfg:     cfg,
		targets: targets,
		journal: j,
		changed: boottime.NewWake(),
		reached: make(chan int, 16),
		listed:  make([]atomic.Bool, cfg.Roster.Size()),
		leaving: make([]atomic.Bool, cfg.Roster.Size()),
		last:    make(map[int]time.Time),
	}
}

// noteChange records an event of memberlist. It never blocks.
func (r *rejoiner) noteChange(peer int, alive bool) {
	r.listed[peer].Store(alive)
	r.changed.Signal()
}

// noteReached records that a peer has answered. It is called for every answer, so it never blocks, and is cheap for
// peers that memberlist lists.
func (r *rejoiner) noteReached(peer int) {
	if r.listed[peer].Load() {
		return
	}
	select {
	case r.reached <- peer:
	default:
	}
}

func (r *rejoiner) run(ctx context.Context, list *memberlist.Memberlist) {
	r.list = list
	interval := r.cfg.Params.RejoinInterval
	delay := interval
	timer := time.NewTimer(0) // the first round is the join of a new node
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			if delay > interval {
				delay = interval
				timer.Reset(jittered(delay))
			}
		case peer := <-r.reached:
			r.joinReached(ctx, peer)
		case <-timer.C:
			r.refresh()
			r.round(ctx)
			timer.Reset(jittered(delay))
			delay = min(2*delay, max(interval, maxRejoinInterval))
		}
	}
}

// refresh computes which members are missing. Only names are read: the rest of a member aliases
// memberlist's live state.
func (r *rejoiner) refresh() {
	listed := make(map[string]bool, len(r.targets))
	for _, m := range r.list.Members() {
		listed[m.Name] = true
	}
	r.missing = r.missing[:0]
	for _, t := range r.targets {
		if !listed[t.addr.Name] {
			r.missing = append(r.missing, t)
		}
	}
}

// round tries to join a few of the missing members and stops at the first success: that member's table may name all the
// others.
func (r *rejoiner) round(ctx context.Context) {
	rand.Shuffle(len(r.missing), func(i, j int) { r.missing[i], r.missing[j] = r.missing[j], r.missing[i] })
	for _, t := range r.missing[:min(len(r.missing), rejoinFanout)] {
		if ctx.Err() != nil || r.join(t) {
			return
		}
	}
}

// joinReached joins a peer that is certainly there. It may still not be joinable: its
// streams may be blocked, or its name taken.
func (r *rejoiner) joinReached(ctx context.Context, peer int) {
	if time.Since(r.last[peer]) < reachedInterval {
		return
	}
	r.refresh()
	for _, t := range r.missing {
		if t.index == peer && ctx.Err() == nil {
			r.join(t)
		}
	}
}

// join blocks for up to TCPTimeout, or less if the transport is closed.
func (r *rejoiner) join(t target) bool {
	r.last[t.index] = time.Now()
	_, err := r.list.Join([]string{t.addr.Name + "/" + t.addr.Addr})
	if err != nil {
		r.journal.post(entry{level: slog.LevelDebug, msg: "an attempt to join failed",
			attrs: []slog.Attr{slog.String("peer", t.addr.Name), slog.Any("error", err)}})
		return false
	}
	return true
}

// jittered spreads d by a fourth, so that nodes started together do not join in step.
func jittered(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4+1)
}

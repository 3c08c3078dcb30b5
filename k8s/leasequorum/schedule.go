package leasequorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// schedule picks the next operation. There is at most one.
func (a *Arbiter) schedule(now boottime.Instant, in *tie.Input, out *tie.Output, want *Grant) *Op {
	retryAt := a.retryAt(in)
	switch {
	case a.op != nil || in.Released:
		return nil
	case now < retryAt:
		out.Wake = min(out.Wake, retryAt)
		return nil
	case a.absent:
		return a.begin(now, Op{Kind: Create, Record: Record{Horizon: a.longestHeard()}})
	case a.needRead || !a.known:
		return a.begin(now, Op{Kind: Read})
	case !in.Tie:
		due := a.readAt.Add(a.cfg.Timing.Refresh)
		if a.hadTie {
			due = now // the record that the tie left has to be old when the next tie begins
		}
		if now >= due {
			return a.begin(now, Op{Kind: Read})
		}
		out.Wake = min(out.Wake, due)
		return nil
	}
	if out.Split == tie.Won || out.Split != tie.Lost && out.Why == "" {
		if op := a.write(now, in, out, want); op != nil {
			return op
		}
	}
	if out.Split != tie.Won && now >= a.readAt.Add(a.pollInterval(now, in)) {
		return a.begin(now, Op{Kind: Read})
	}
	return nil
}

// retryAt returns when the next operation may begin after a failure. In a tie the pause does not grow. Otherwise it
// does, so that an API server in trouble is asked less and less often.
func (a *Arbiter) retryAt(in *tie.Input) boottime.Instant {
	t := &a.cfg.Timing
	if a.failures == 0 {
		return 0
	}
	if in.Tie {
		return a.failedAt.Add(t.Retry)
	}
	return a.failedAt.Add(min(t.Refresh, t.Retry<<min(a.failures-1, maxDoublings)))
}

// maxDoublings keeps the pause from overflowing after many failures.
const maxDoublings = 16

// pollInterval is longer in a tie that lasts: a node that lives without a grant, because of onQuorumLoss, need not
// hurry.
func (a *Arbiter) pollInterval(now boottime.Instant, in *tie.Input) time.Duration {
	if now.Sub(in.TieSince) > a.cfg.Timing.Term/2 {
		return 10 * a.cfg.Timing.Poll
	}
	return a.cfg.Timing.Poll
}

// write writes the grant, or renews it, when it is this node's turn.
func (a *Arbiter) write(now boottime.Instant, in *tie.Input, out *tie.Output, want *Grant) *Op {
	due := in.TieSince
	if out.Split == tie.Won {
		// The evidence may limit Until; only the write has to be renewed.
		due = max(a.heldAt, a.anchor(want)).Add(a.cfg.Timing.Term / 4)
	}
	if due = due.Add(a.turn()); now < due {
		out.Wake = min(out.Wake, due)
		return nil
	}
	if why := a.mayReplace(now, want); why != "" {
		out.Why = why
		return nil
	}
	instance := a.record.Instance
	if want.Digest() != a.digest {
		instance++
	}
	return a.begin(now, Op{Kind: Write, Base: a.version, Record: Record{Instance: instance, Grant: *want}})
}

// anchor returns the start of the latest write of the grant that this node knows of. All nodes in the view use this
// Lease; see half.
func (a *Arbiter) anchor(want *Grant) (at boottime.Instant) {
	digest := want.Digest()
	if a.landed == digest {
		at = a.landedAt
	}
	for i := range a.view.All() {
		if i == a.cfg.Roster.Self {
			continue
		}
		if r := a.cfg.Evidence.Relay(i); r.Log == a.cfg.Log && r.Instance == digest {
			at = max(at, r.Anchor)
		}
	}
	return at
}

// turn returns how long the node leaves writing to the members before it that reach the API server.
func (a *Arbiter) turn() time.Duration {
	rank := time.Duration(0)
	for i := range a.view.All() {
		if i >= a.cfg.Roster.Self {
			break
		}
		if st, _ := a.cfg.Evidence.Statement(i); st != nil && st.APIReachable {
			rank++
		}
	}
	return rank * a.cfg.Timing.Stagger
}

func (a *Arbiter) begin(now boottime.Instant, op Op) *Op {
	a.nextID++
	op.ID = a.nextID
	if op.Kind != Read {
		a.sequence++
		op.Record.Tag = Tag{a.cfg.Boot, a.cfg.Process, a.sequence}
	}
	if op.Kind == Write {
		a.sent, a.sentAt, a.sentDigest = op.Record.Tag, now, op.Record.Grant.Digest()
	}
	a.op = &op
	return &op
}

// Complete records the end of the operation that was handed out.
func (a *Arbiter) Complete(c *Completion) {
	if a.op == nil || c.ID != a.op.ID {
		return
	}
	op := a.op
	a.op, a.err = nil, c.Err
	switch c.Outcome {
	case Done:
		a.absent, a.needRead, a.failures = false, false, 0
		a.show(c)
	case Absent:
		a.known, a.absent = false, true
		if op.Kind == Create {
			a.absent, a.needRead = false, true
			a.failed(c)
		}
	case Conflict:
		a.absent, a.needRead, a.failures = false, true, 0
	default:
		// The write may have landed, or may land later: only a read can tell. A following write replaces the version
		// that was read, so the earlier write cannot land over it (K1).
		a.needRead = true
		a.failed(c)
	}
}

func (a *Arbiter) failed(c *Completion) { a.failures, a.failedAt = a.failures+1, c.Ended }

// show records the content of the Lease that an operation has shown.
func (a *Arbiter) show(c *Completion) {
	digest := c.Record.Grant.Digest()
	if !a.known || digest != a.digest || c.Version.UID != a.version.UID {
		a.learnt = c.Ended
		a.done = make([]bool, len(c.Record.Grant.Holders))
	}
	if !a.known || c.Version != a.version {
		a.since = c.Ended
	}
	a.known, a.record, a.digest, a.version, a.readAt = true, c.Record, digest, c.Version, c.Started
	// The write is recognized by its tag, both in its own reply and in a read after the reply was lost. It is valid for
	// Term from when it was sent.
	if a.sent == c.Record.Tag && a.sent != (Tag{}) {
		a.landed, a.landedAt = a.sentDigest, a.sentAt
	}
}

// Trouble returns why the latest operation has shown nothing, or nil.
func (a *Arbiter) Trouble() error { return a.err }

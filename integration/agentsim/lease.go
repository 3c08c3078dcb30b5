package agentsim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

// kubeLease is the Lease behind the API server: a register with compare-and-swap. The
// world's mu guards it.
type kubeLease struct {
	uid      int // 0: there is none, and never was
	resource int
	absent   bool
	record   leasequorum.Record
	writes   int
}

var (
	errNoAnswer = errors.New("no answer within the request's timeout")
	errRefused  = errors.New("the API server refuses")
)

// apply performs an operation as the API server does.
func (l *kubeLease) apply(op *leasequorum.Op) leasequorum.Completion {
	present := l.uid > 0 && !l.absent
	switch {
	case op.Kind == leasequorum.Read && !present, op.Kind == leasequorum.Write && !present:
		return leasequorum.Completion{Outcome: leasequorum.Absent}
	case op.Kind == leasequorum.Create && present, op.Kind == leasequorum.Write && op.Base != l.version():
		return leasequorum.Completion{Outcome: leasequorum.Conflict}
	case op.Kind == leasequorum.Create:
		l.uid, l.absent = l.uid+1, false
	}
	if op.Kind != leasequorum.Read {
		l.resource++
		l.record = op.Record
		l.writes++
	}
	return leasequorum.Completion{Outcome: leasequorum.Done, Record: l.record, Version: l.version()}
}

func (l *kubeLease) version() leasequorum.Version {
	return leasequorum.Version{UID: fmt.Sprint(l.uid), Resource: fmt.Sprint(l.resource)}
}

// leaseClient is a process's way to the Lease.
type leaseClient struct {
	p       *process
	ops     chan leasequorum.Op
	timeout time.Duration
	report  func(leasequorum.Completion)
	lease   *kubeLease
}

var _ agent.LeaseRegister = (*leaseClient)(nil)

func (p *process) openLease(timeout time.Duration) agent.OpenLease {
	return func(report func(leasequorum.Completion)) agent.LeaseRegister {
		return &leaseClient{p: p, ops: make(chan leasequorum.Op, 1), timeout: timeout, report: report, lease: p.m.leaseOf()}
	}
}

func (c *leaseClient) Log() uint64 {
	if c.lease == &c.p.m.w.other {
		return 1 << 41
	}
	return 1 << 40
}

// leaseOf is the Lease that a machine's configuration names.
func (m *machine) leaseOf() *kubeLease {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.breaks == otherLease {
		return &m.w.other
	}
	return &m.w.lease
}

func (c *leaseClient) Submit(op leasequorum.Op) bool {
	select {
	case c.ops <- op:
		return true
	default:
		return false
	}
}

func (c *leaseClient) Run(ctx context.Context) {
	for {
		select {
		case op := <-c.ops:
			c.p.stop.pass()
			done := c.do(&op)
			c.p.stop.pass()
			if ctx.Err() != nil {
				return
			}
			c.report(done)
		case <-ctx.Done():
			return
		}
	}
}

// do sends one request. An API server that is slow answers after the timeout; half of what it
// is sent then takes effect nevertheless, up to half a minute later.
func (c *leaseClient) do(op *leasequorum.Op) leasequorum.Completion {
	m, w := c.p.m, c.p.m.w
	started := m.now()
	w.mu.Lock()
	state, dead := m.api, c.p.ended
	there, back := time.Duration(1+w.rng.IntN(20))*time.Millisecond, time.Duration(1+w.rng.IntN(20))*time.Millisecond
	late := time.Duration(w.rng.Int64N(int64(30 * time.Second)))
	lands := w.rng.IntN(2) == 0
	w.mu.Unlock()
	var done leasequorum.Completion
	switch {
	case dead || state == apiError:
		time.Sleep(there)
		done = leasequorum.Completion{Outcome: leasequorum.Unknown, Err: errRefused}
	case state == apiSlow:
		if lands {
			w.after(late, func() { c.apply(op) })
		}
		time.Sleep(c.timeout)
		done = leasequorum.Completion{Outcome: leasequorum.Unknown, Err: errNoAnswer}
	default:
		time.Sleep(there)
		done = c.apply(op)
		time.Sleep(back)
	}
	done.ID, done.Started, done.Ended = op.ID, started, m.now()
	return done
}

func (c *leaseClient) apply(op *leasequorum.Op) leasequorum.Completion {
	w := c.p.m.w
	w.mu.Lock()
	before := c.lease.writes
	done := c.lease.apply(op)
	wrote := c.lease.writes > before
	w.mu.Unlock()
	if wrote {
		var names []string
		for _, h := range op.Record.Grant.Holders {
			names = append(names, h.Node)
		}
		w.note(c.p.m.name, fmt.Sprintf("writes the Lease: grant %d to %v", op.Record.Instance, names))
	}
	return done
}

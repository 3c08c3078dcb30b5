package agentsim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum/leasequorumtest"
)

var (
	errNoAnswer = errors.New("no answer within the request's timeout")
	errRefused  = errors.New("the API server refuses")
)

type leaseClient struct {
	p       *process
	ops     chan leasequorum.Op
	timeout time.Duration
	report  func(leasequorum.Completion)
	lease   *leasequorumtest.Lease // the world's mu guards it
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

func (m *machine) leaseOf() *leasequorumtest.Lease {
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

// do sends one request. A slow API server answers after the timeout. Half of the requests that reach it during this
// time still take effect, up to half a minute later.
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
	done := c.lease.Apply(op)
	w.mu.Unlock()
	if done.Outcome == leasequorum.Done && op.Kind != leasequorum.Read {
		var names []string
		for _, h := range op.Record.Grant.Holders {
			names = append(names, h.Node)
		}
		w.note(c.p.m.name, fmt.Sprintf("writes the Lease: grants %d to %v", op.Record.Instance, names))
	}
	return done
}

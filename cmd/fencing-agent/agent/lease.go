package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// leaseRefresh is the time between two reads of the Lease while there is no tie. At the next tie the last read is old
// enough for the first write to decide the tie.
const leaseRefresh = 5 * time.Minute

// errBusy is the outcome of an operation for which the register has no room.
var errBusy = errors.New("the previous operation is still under way")

// LeaseRegister performs operations on the Lease that breaks ties, as leaseregister.Register does: a goroutine of Run
// reports the end of each operation that Submit accepts, once.
type LeaseRegister interface {
	Submit(leasequorum.Op) bool
	Run(context.Context)
	// Log identifies the Lease among all that agents may use.
	Log() uint64
}

// kubeLease is the Lease that breaks ties.
type kubeLease struct {
	arbiter  *leasequorum.Arbiter
	register LeaseRegister
	trouble  string // of the latest operation
	answers  bool   // the latest operation ended with a usable answer
}

// startLease creates the arbiter of the Lease and starts its connection to the API server. Nothing here waits for an
// answer: an outcome that is not known in time is [leasequorum.Unknown]. A node without answers only loses ties.
func (a *Agent) startLease(background spawn) (tie.Breaker, error) {
	report := func(c leasequorum.Completion) {
		a.box.put(func(b *batch) { b.leases = append(b.leases, c) })
	}
	register, err := a.openLease(report)
	if err != nil {
		return nil, fmt.Errorf("quorum.tieBreak: lease: %w", err)
	}
	arbiter, err := leasequorum.New(leasequorum.Config{
		Roster: a.roster, Evidence: a.core.Merger(), Boot: a.self.boot, Process: a.self.process, Log: register.Log(), Timing: a.leaseTiming(),
	}, a.clock()) // after the socket was taken: no earlier agent draws a token any more
	if err != nil {
		return nil, fmt.Errorf("quorum.tieBreak: lease: %w", err)
	}
	a.kube.lease = &kubeLease{arbiter: arbiter, register: register}
	background(register.Run)
	return arbiter, nil
}

func (a *Agent) openLease(report func(leasequorum.Completion)) (LeaseRegister, error) {
	if a.opts.OpenLease != nil {
		return a.opts.OpenLease(report), nil
	}
	// Both halves must use the same Lease: its namespace is that of the kubeconfig's context.
	if err := a.kube.client.Ready(); err != nil {
		return nil, err
	}
	// A connection shared with a watch would stay in use when it is dead.
	api, err := a.kube.client.Apart()
	if err != nil {
		return nil, err
	}
	return leaseregister.New(leaseregister.Config{
		Client: api, Namespace: a.kube.client.Namespace(), Name: leaseregister.Name(a.cfg.Cluster, a.cfg.NodeGroup),
		Timeout: a.cfg.LeaseRequestTimeout(), Clock: a.clock, OnCompletion: report,
	})
}

// leaseTiming is the time constants as the configuration gives them. The reads of many nodes are spread.
func (a *Agent) leaseTiming() leasequorum.Timing {
	c := a.cfg
	return leasequorum.Timing{
		MaxAge: c.EvidenceMaxAge(), Term: config.LeaseTerm, Expire: c.LeaseExpiry(a.members.Largest()), Longest: c.LongestHorizon(a.members.Largest()), Stagger: config.LeaseStagger,
		Retry: c.LeaseRetry(), Poll: c.LeaseRetry(), Refresh: leaseRefresh*3/4 + rand.N(leaseRefresh/2),
	}
}

// performLease passes the operations of the latest step to the register. An operation for which it has no room has had
// no effect, and is reported like any other.
func (a *Agent) performLease(now boottime.Instant) {
	if a.kube.lease == nil {
		return
	}
	a.submitLease(now, a.kube.lease.arbiter.Op())
}

func (a *Agent) submitLease(now boottime.Instant, op *leasequorum.Op) {
	if op == nil || a.kube.lease.register.Submit(*op) {
		return
	}
	done := leasequorum.Completion{ID: op.ID, Started: now, Ended: now, Outcome: leasequorum.Unknown, Err: errBusy}
	a.box.put(func(b *batch) { b.leases = append(b.leases, done) })
}

// leaseCompleted passes the outcomes of operations to the arbiter, and logs when the Lease begins or ceases to answer.
func (a *Agent) leaseCompleted(ended []leasequorum.Completion) {
	for i := range ended {
		c := &ended[i]
		if c.Outcome == leasequorum.Unknown && a.kube.lease.trouble == "" {
			trouble.LeaseUnusable.Log(a.log, "error", c.Err)
		}
		if c.Outcome != leasequorum.Unknown && a.kube.lease.trouble != "" {
			trouble.LeaseUnusable.Ended(a.log)
		}
		a.kube.lease.trouble = ""
		if c.Outcome == leasequorum.Unknown {
			a.kube.lease.trouble = fmt.Sprint(c.Err)
		}
		a.kube.lease.answers = a.kube.lease.trouble == ""
		a.kube.lease.arbiter.Complete(c)
	}
}

// warnCrowded says that a group is too large for all nodes of a half to take their turns.
func (a *Agent) warnCrowded() {
	if n := a.core.Rosters().Size(); a.cfg.UsesLease() && a.cfg.LeaseBudget(n) > a.cfg.ArbitrationBudget() {
		a.log.Warn("the arbitration budget is too short for each node of a half to take its turn at the Lease; raise lun.ioTimeout, or set timing: careful",
			"members", n, "needed", a.cfg.LeaseBudget(n), "budget", a.cfg.ArbitrationBudget())
	}
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

const (
	// startLimit limits the time in which agents start and return: a claim on the LUN takes a few heartbeats, and the
	// machine may be busy.
	startLimit = 40 * time.Second
	// standstill is the shortest stall of the machine that excuses what agents do.
	standstill = time.Second
	// callLimit limits a single call to an agent.
	callLimit = 5 * time.Second
)

type run struct {
	c     Cluster
	o     *observe.Observer
	p     *printer
	began time.Time
	limit time.Duration // for waits without a bound in the time budget

	cause  time.Time // the times of the present step count from here
	budget *fencingv1.TimeBudget

	winners, losers []string          // of the latest split
	granted         map[string]string // tokens of the winners at that time; nil if no lease was needed
}

// expect waits for a condition and prints the outcome. The limit counts from the cause.
func (r *run) expect(ctx context.Context, what string, limit time.Duration, c observe.Condition) (*observe.View, error) {
	v, err := r.o.Await(ctx, time.Until(r.cause.Add(limit)), c)
	return v, r.outcome(what, "", err)
}

func (r *run) stays(ctx context.Context, what string, during time.Duration, c observe.Condition) error {
	_, err := r.o.Hold(ctx, during, c)
	return r.outcome(what, "watched for "+seconds(during), err)
}

func (r *run) outcome(what, remark string, err error) error {
	if err != nil {
		r.p.broken(what, err)
		return fmt.Errorf("%s: %w", what, err)
	}
	r.p.kept(what, time.Since(r.cause), remark)
	return nil
}

func (r *run) allUp(ctx context.Context) error {
	nodes := r.c.Nodes()
	r.p.heading("All up")
	r.p.picture(nodes, nil)
	r.cause = time.Now()
	for _, node := range nodes {
		if err := r.c.Start(node); err != nil {
			return err
		}
	}
	v, err := r.expect(ctx, fmt.Sprintf("%d of %d agents have quorum and count all others", len(nodes), len(nodes)), r.limit,
		r.everybody())
	if err != nil {
		return err
	}
	r.budget = v.Status[nodes[0]].GetTimeBudget()
	if _, err := r.expect(ctx, "every agent has a slot of its own on the LUN", r.limit, observe.LUNReady(nodes...)); err != nil {
		return err
	}
	if _, err := r.expect(ctx, "every agent has accepted a subscriber of its events", r.limit, observe.Subscribed(nodes...)); err != nil {
		return err
	}
	return r.expectGetAll(ctx, nodes, nodes)
}

// everybody holds when all agents feed with a majority, all reach all, and no effect of an earlier step remains.
func (r *run) everybody() observe.Condition {
	nodes := r.c.Nodes()
	return observe.All(
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, nodes...),
		observe.Counting(nodes...),
		observe.Networks(true, r.c.Networks(), nodes),
		observe.Heard(nodes...),
	)
}

// expectGetAll asks each agent as a subscriber does.
func (r *run) expectGetAll(ctx context.Context, askedNodes, want []string) error {
	what := "GetAll lists " + list(want) + " with the addresses of every network"
	for _, node := range askedNodes {
		if err := r.checkGetAll(ctx, node, want); err != nil {
			return r.outcome(what, "", fmt.Errorf("%s: %w", node, err))
		}
	}
	return r.outcome(what, "", nil)
}

func (r *run) checkGetAll(ctx context.Context, node string, want []string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	all, err := fencingv1.NewFencingClient(r.o.Conn(node)).GetAll(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	var got []string
	for _, n := range all.GetNodes() {
		got = append(got, n.GetName())
		for _, network := range r.c.Networks() {
			if n.GetAddresses()[network] == "" {
				return fmt.Errorf("node %s has no address on network %s: %v", n.GetName(), network, n.GetAddresses())
			}
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		return fmt.Errorf("lists %v", got)
	}
	return nil
}

func (r *run) networkLost(ctx context.Context) error {
	nodes, lost := r.c.Nodes(), r.c.Networks()[1:2]
	r.p.heading("Network %s is lost", lost[0])
	var alone [][]string
	for _, node := range nodes {
		alone = append(alone, []string{node})
	}
	r.p.picture(nodes, lost, alone...)
	began := time.Now()
	if err := r.cut(lost, alone...); err != nil {
		return err
	}
	if _, err := r.expect(ctx, "every agent has noticed", r.budget.GetDMax().AsDuration()+r.limit,
		observe.Networks(false, lost, nodes)); err != nil {
		return err
	}
	calm := observe.All(observe.Quiet(began, nodes...), observe.Steady(began, nodes...), observe.Counting(nodes...))
	if err := r.stays(ctx, "nobody has moved: no LEFT, all keep quorum", r.settle(), calm); err != nil {
		return err
	}
	r.cause = time.Now()
	if err := r.c.Heal(); err != nil {
		return err
	}
	if _, err := r.expect(ctx, "network "+lost[0]+" is back", r.limit, r.everybody()); err != nil {
		return err
	}
	return r.holds("nobody has moved for that either", calm)
}

// settle is how long a state must last to count as stable: evidence that was young at the beginning has expired by
// then.
func (r *run) settle() time.Duration { return r.budget.GetDMax().AsDuration() * 5 / 4 }

func (r *run) holds(what string, c observe.Condition) error {
	v, _ := r.o.View()
	if missing := c(v); missing != "" {
		return r.outcome(what, "", errors.New(missing))
	}
	return r.outcome(what, "", nil)
}

func (r *run) cut(networks []string, groups ...[]string) error {
	if err := r.c.CutNetworks(networks, groups...); err != nil {
		return err
	}
	r.cause = time.Now()
	return nil
}

func (r *run) split(ctx context.Context) error {
	nodes := r.c.Nodes()
	a, b := nodes[:len(nodes)/2], nodes[len(nodes)/2:]
	r.p.heading("Both networks split %d | %d", len(a), len(b))
	r.p.picture(nodes, r.c.Networks(), a, b)
	before, err := r.c.Dropped()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.cut(r.c.Networks(), a, b); err != nil {
		return err
	}
	if len(a) == len(b) {
		err = r.tie(ctx, began, a, b)
	} else {
		err = r.majority(ctx, a, b)
	}
	if err != nil {
		return err
	}
	if err := r.expectReports(ctx, began, fencingv1.EventType_LEFT, r.losers, r.winners, r.lastFeed(), ""); err != nil {
		return err
	}
	if err := r.expectGetAll(ctx, r.winners, r.winners); err != nil {
		return err
	}
	after, err := r.c.Dropped()
	if err == nil && after <= before {
		err = errors.New("no packet was dropped: the networks were not cut at all")
	}
	if err := r.outcome(fmt.Sprintf("the cut was real: %d packets dropped", after-before), "", err); err != nil {
		return err
	}
	r.p.line("     survivors: %s", r.p.paint("1", list(r.winners)))
	return nil
}

// expectReports waits until every observer has sent the event about every node since the step began, and prints when
// the last event came. The limit counts from the cause.
func (r *run) expectReports(ctx context.Context, began time.Time, kind fencingv1.EventType, nodes, observers []string, limit time.Duration, remark string) error {
	what := fmt.Sprintf("%v %s sent by %s", kind, list(nodes), list(observers))
	v, err := r.o.Await(ctx, time.Until(r.cause.Add(limit)), observe.Reported(began, kind, nodes, observers))
	if err != nil {
		return r.outcome(what, remark, err)
	}
	last := r.cause
	for _, observer := range observers {
		for _, node := range nodes {
			if at := observe.FirstReport(v, began, kind, node, observer).At; at.After(last) {
				last = at
			}
		}
	}
	r.p.kept(what, last.Sub(r.cause), remark)
	return nil
}

// lastFeed is the latest time after an equal split at which the losing half may be fed.
func (r *run) lastFeed() time.Duration {
	return r.budget.GetHorizonTie().AsDuration() - r.budget.GetWatchdogTimeout().AsDuration() - r.budget.GetRelease().AsDuration()
}

// tie expects exactly one half to stay up, by the lease.
func (r *run) tie(ctx context.Context, began time.Time, a, b []string) error {
	oneSide := observe.OneSideGranted(began, a, b)
	v, err := r.o.Await(ctx, r.lastFeed(), observe.Decided(a, b))
	if err != nil {
		return r.outcome("exactly one half lives, by the lease on the LUN", "", err)
	}
	r.winners, r.losers = a, b
	if observe.Feeding(fencingv1.Reason_REASON_SPLIT_WON, a...)(v) != "" {
		r.winners, r.losers = b, a
	}
	r.granted = observe.Tokens(v, r.winners)
	r.told(v, began)
	return r.stays(ctx, "it stays so: never both halves, never none", r.settle(), observe.All(oneSide, observe.Decided(a, b)))
}

// told prints when the winners received the grant and when the losers were no longer fed.
func (r *run) told(v *observe.View, began time.Time) {
	var granted, starved time.Time
	for _, c := range v.Verdicts {
		if c.At.After(began) && c.Reason == fencingv1.Reason_REASON_SPLIT_WON && slices.Contains(r.winners, c.Node) {
			granted = c.At
		}
	}
	for _, node := range r.losers {
		if at, ok := observe.Starved(v, began, node); ok && at.After(starved) {
			starved = at
		}
	}
	r.p.kept(fmt.Sprintf("%s: granted by decision %d of the lease on the LUN", list(r.winners),
		v.Status[r.winners[0]].GetLunLease().GetInstance()), granted.Sub(r.cause), "")
	r.p.kept(list(r.losers)+": no watchdog is fed any more", starved.Sub(r.cause), "allowed "+seconds(r.lastFeed()))
}

// majority expects the larger part of an odd number of nodes to stay up, without the LUN.
func (r *run) majority(ctx context.Context, small, large []string) error {
	r.winners, r.losers, r.granted = large, small, nil
	_, err := r.expect(ctx, fmt.Sprintf("%s: majority of the roster, %s: not fed any more", list(large), list(small)), r.lastFeed(), observe.All(
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, large...),
		observe.Counting(large...),
		observe.Starving(small...),
	))
	return err
}

func (r *run) heal(ctx context.Context) error {
	nodes := r.c.Nodes()
	r.p.heading("Heal")
	r.p.picture(nodes, nil)
	if err := r.allBack(ctx, r.c.Heal, r.losers, r.winners); err != nil {
		return err
	}
	if r.granted != nil {
		if _, err := r.expect(ctx, "the grant is renounced by "+list(r.winners), r.limit,
			observe.All(observe.LeaseFree(nodes...), observe.Renounced(r.granted))); err != nil {
			return err
		}
	}
	return r.expectGetAll(ctx, nodes, nodes)
}

// allBack brings nodes back. It expects that all return, and that observers report this.
func (r *run) allBack(ctx context.Context, do func() error, nodes, observers []string) error {
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	r.cause = time.Now()
	if _, err := r.expect(ctx, "everyone is back: all count all and feed by majority", r.limit, r.everybody()); err != nil {
		return err
	}
	return r.expectReports(ctx, began, fencingv1.EventType_JOIN, nodes, observers, r.limit, "")
}

func (r *run) kill(ctx context.Context) error {
	nodes := r.c.Nodes()
	victim, rest := nodes[len(nodes)-1], nodes[:len(nodes)-1]
	r.p.heading("Node %s is killed", victim)
	r.p.picture(rest, nil)
	began := time.Now()
	if err := r.c.Kill(victim); err != nil {
		return err
	}
	r.cause = time.Now()
	reason, horizon := fencingv1.Reason_REASON_NETWORK_QUORUM, r.budget.GetHorizonMajority().AsDuration()
	if len(nodes) == 2 { // one of two is a tie, which the LUN decides
		reason, horizon = fencingv1.Reason_REASON_SPLIT_WON, r.budget.GetHorizonTie().AsDuration()
	}
	if err := r.expectReports(ctx, began, fencingv1.EventType_LEFT, []string{victim}, rest, horizon, "horizon "+seconds(horizon)); err != nil {
		return err
	}
	if _, err := r.expect(ctx, "the others go on", horizon, observe.All(observe.Feeding(reason, rest...), observe.Counting(rest...))); err != nil {
		return err
	}
	return r.stays(ctx, "nobody calls it FENCED: no watchdog stood behind it", r.settle()/4, notFenced(victim, rest))
}

// notFenced holds while no observer reports that the node cannot be running.
func notFenced(victim string, observers []string) observe.Condition {
	return func(v *observe.View) string {
		var wrong []string
		for _, observer := range observers {
			for _, n := range v.Status[observer].GetNodes() {
				if n.GetName() == victim && n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
					wrong = append(wrong, observer+" calls it fenced")
				}
			}
		}
		return strings.Join(wrong, ", ")
	}
}

func (r *run) comeBack(ctx context.Context) error {
	nodes := r.c.Nodes()
	victim, rest := nodes[len(nodes)-1], nodes[:len(nodes)-1]
	r.p.heading("Node %s comes back", victim)
	r.p.picture(nodes, nil)
	if err := r.allBack(ctx, func() error { return r.c.Start(victim) }, []string{victim}, rest); err != nil {
		return err
	}
	_, err := r.expect(ctx, "every agent has a slot of its own on the LUN", r.limit, observe.LUNReady(nodes...))
	return err
}

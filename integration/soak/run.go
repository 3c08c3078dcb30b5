package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// warmRounds is how many rounds pass before the agents' memory is measured: buffers and heap have their size then.
const warmRounds = 5

type soak struct {
	Options
	c        *cluster
	w        *watcher
	plan     Plan
	began    time.Time
	measured measurements
	base     map[string]Usage // of the steady nodes
	replayer *replayer        // nil: there is no attacker
}

// run is Run after the environment has been prepared.
func run(ctx context.Context, dir string, o Options) error {
	key := o.Seed%2 == 1
	c, err := newCluster(ctx, dir, o, key)
	if err != nil {
		return err
	}
	defer c.close()
	observer, err := observe.New(c.Agents)
	if err != nil {
		return err
	}
	defer observer.Close()
	k := &soak{
		Options: o, c: c, w: &watcher{Observer: observer, nodes: c.Nodes(), blinks: o.Blink}, began: time.Now(), measured: newMeasurements(),
		plan: Plan{Seed: o.Seed, Nodes: o.Nodes, Steady: max(1, o.Nodes/3), LUN: c.lun.canFreeze() && !o.Blink},
	}
	c.resets.setVerdict(k.w.lastReason)
	if !o.Replay {
		return k.run(ctx)
	}
	k.replayer, err = newReplayer(c.Lab(), o.Seed, key)
	if err != nil {
		return err
	}
	attacking, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- k.replayer.run(attacking) }()
	err = k.run(ctx)
	stop()
	return errors.Join(err, <-failed)
}

func (k *soak) run(ctx context.Context) error {
	v, err := k.w.Await(ctx, recoverLimit, k.w.everybody())
	if err != nil {
		return fmt.Errorf("the agents do not find each other: %w", err)
	}
	b := v.Status[nodeName(0)].GetTimeBudget()
	// The bound is how long the loser of a tie may be permitted to feed, without the time that its watchdog adds.
	k.w.disjoint.Bound = max(b.GetDMax().AsDuration()+b.GetArbitration().AsDuration(), b.GetGrant().AsDuration()) + b.GetMargin().AsDuration()
	fmt.Fprintf(k.Out, "%d agents are up; D_max %v, two sides may both feed for %v at most\n", k.Nodes, b.GetDMax().AsDuration(), k.w.disjoint.Bound)

	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { k.w.watch(watching) })
	end, err := k.surround(ctx)
	if err != nil {
		stop()
		wg.Wait()
		return err
	}
	rounds, err := k.rounds(ctx)
	end()
	stop()
	wg.Wait()
	if err == nil {
		err = k.leaks(ctx)
	}
	k.report(rounds)
	if err != nil {
		k.w.violated("%v", err)
		fmt.Fprintln(k.Out, err)
	}
	if v := k.w.Violations(); len(v) > 0 {
		return fmt.Errorf("%d violations; the schedule is that of --seed %d --nodes %d", len(v), k.Seed, k.Nodes)
	}
	return nil
}

// rounds runs rounds until the time is over, and returns an error when the cluster does not recover: later rounds would
// show nothing.
func (k *soak) rounds(ctx context.Context) (int, error) {
	for i := 0; ; i++ {
		if time.Since(k.began) >= k.Duration || ctx.Err() != nil || k.Rounds > 0 && i == k.Rounds {
			return i, nil
		}
		if i == warmRounds {
			k.base = k.usages(ctx)
		}
		if err := k.round(ctx, k.plan.Round(i)); err != nil && ctx.Err() == nil {
			return i, err
		}
	}
}

func (k *soak) round(ctx context.Context, r Round) error {
	calm := time.Now()
	boottime.Wait(ctx, r.Calm)
	before := len(k.w.Violations())
	v, _ := k.w.View()
	k.w.judge(v, Round{Number: r.Number}, calm, k.c.resets.since(calm))

	began := time.Now()
	k.w.setStopped(r, true)
	err := k.c.disturb(ctx, r)
	k.w.setStopped(r, false)
	ended := time.Now()
	if err != nil {
		return fmt.Errorf("round %d (%v): %w", r.Number, r, err)
	}
	v, err = k.w.Await(ctx, recoverLimit, k.w.everybody())
	if err != nil {
		return fmt.Errorf("round %d (%v): the cluster is not as it was before: %w", r.Number, r, err)
	}
	reset := k.c.resets.since(began)
	k.w.judge(v, r, began, reset)
	k.measure(v, r, began, time.Since(ended))
	for _, x := range reset {
		fmt.Fprintf(k.Out, "         %s was reset %.1f s after the faults began, %v\n", x.Node, x.At.Sub(began).Seconds(), slices.Collect(maps.Keys(countResets([]Reset{x}))))
	}
	bad := ""
	if n := len(k.w.Violations()) - before; n > 0 {
		bad = fmt.Sprintf("  %d VIOLATIONS", n)
	}
	fmt.Fprintf(k.Out, "%6.0fs  round %d: %v; as before after %.1fs%s\n", time.Since(k.began).Seconds(), r.Number, r, time.Since(ended).Seconds(), bad)
	return nil
}

// noticed is how long a fault has to last to be noticed for certain, on a busy machine.
const noticed = 9 * time.Second

// measure records how fast each event was noticed, and which were not.
func (k *soak) measure(v *observe.View, r Round, began time.Time, recovered time.Duration) {
	for _, f := range r.Faults {
		k.measured.count(f.Kind)
	}
	k.measured.recovered = append(k.measured.recovered, recovered)
	reset := k.c.resets.since(began)
	for o, observer := range k.w.nodes {
		if wasReset(reset, observer) {
			continue
		}
		// How fast a process notices events after it was stopped and continued does not show how fast it normally
		// notices them.
		frozen := slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Kind == Freeze && f.Nodes[0] == o })
		for n, node := range k.w.nodes {
			e := observe.FirstReport(v, began, fencingv1.EventType_LEFT, node, observer)
			switch {
			case e != nil && o != n && !frozen:
				k.measured.left = append(k.measured.left, e.At.Sub(began))
			case e == nil && r.MustLeave(o, n, noticed):
				k.w.violated("round %d (%v): %s did not call %s LEFT", r.Number, r, observer, node)
			}
		}
		if at, ok := firstStarved(v, began, observer); ok && !frozen {
			k.measured.starved = append(k.measured.starved, at.Sub(began))
		}
	}
}

// firstStarved returns when the node first lost its permission.
func firstStarved(v *observe.View, since time.Time, node string) (time.Time, bool) {
	for _, c := range v.Verdicts {
		if c.Node == node && c.At.After(since) && c.Permission == fencingv1.Permission_PERMISSION_STARVE && c.Reason != fencingv1.Reason_REASON_STARTING {
			return c.At, true
		}
	}
	return time.Time{}, false
}

func (k *soak) usages(ctx context.Context) map[string]Usage {
	out := map[string]Usage{}
	for _, node := range k.w.nodes[:k.plan.Steady] {
		u, err := usage(ctx, k.c.Lab().HTTPClient(node))
		if err != nil {
			k.w.violated("metrics of %s: %v", node, err)
			continue
		}
		out[node] = u
	}
	return out
}

// leaks compares the steady agents with the earlier measurement, after a calm time in which the memory that recovery
// needed is given back.
func (k *soak) leaks(ctx context.Context) error {
	if k.base == nil || ctx.Err() != nil {
		return nil
	}
	boottime.Wait(ctx, 10*time.Second)
	for _, x := range k.c.resets.since(k.began) {
		delete(k.base, x.Node) // it is a different process
	}
	k.measured.base, k.measured.end = k.base, k.usages(ctx)
	maps.DeleteFunc(k.measured.end, func(node string, _ Usage) bool { _, ok := k.base[node]; return !ok })
	var errs []error
	for node, u := range k.measured.end {
		for _, leak := range u.grown(k.base[node]) {
			errs = append(errs, fmt.Errorf("%s, never restarted: %s", node, leak))
		}
	}
	return errors.Join(errs...)
}

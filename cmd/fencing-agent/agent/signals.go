package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
)

const (
	apiSeldom   = time.Minute     // while no tie is near
	apiInterval = 2 * time.Second // while a tie is near
	apiTimeout  = time.Second
	apiMaxAge   = 2*apiInterval + apiTimeout // one lost answer does not make the API unreachable
)

// startSignals starts what may ask to disarm, and the probe of the Kubernetes API.
func (a *Agent) startSignals(background spawn) error {
	a.startDisableFile(background)
	a.startKubernetes(background)
	if err := a.startOwnNode(background); err != nil {
		return err
	}
	if !a.prefersAPI() {
		return nil
	}
	report := func(reachable bool, at boottime.Instant) {
		a.box.put(func(b *batch) { b.api = &apiReport{reachable, at} })
	}
	if probe := a.opts.ProbeAPI; probe != nil {
		background(func(ctx context.Context) { probe(ctx, a.kube.pace, report) })
		return nil
	}
	check, err := apicheck.New(apicheck.Config{
		Kubeconfig: a.cfg.Kubernetes.Kubeconfig, Client: a.kube.client, Pace: a.kube.pace, Timeout: apiTimeout, Logger: a.log, Clock: a.clock,
		OnResult: report,
	})
	if err != nil {
		return fmt.Errorf("kubernetes tie-breaker: %w", err)
	}
	background(check.Run)
	return nil
}

// signalled gives the core the disarm signals, the API server's answers and the watchdog's state.
func (a *Agent) signalled(b *batch) {
	for source, why := range b.disarm {
		a.core.SetDisarm(source, why)
	}
	if b.api != nil {
		a.core.APIChecked(b.api.reachable, b.api.at)
	}
	if b.alone {
		a.core.PredecessorGone(a.clock())
	}
	if b.feeder != nil {
		a.sentenced(b.feeder)
	}
	if b.feeder != nil && b.feeder.Unfired {
		a.core.GuardFailed()
	}
	if b.feeder != nil && a.guard.answers(b.feeder) {
		a.core.SetDriver(b.feeder.Info.Driver)
		a.core.SetGuard(b.feeder.Armed, b.feeder.Info.Timeout)
	}
}

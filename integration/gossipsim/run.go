package gossipsim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Run runs a simulation to its end. Call it inside a bubble of testing/synctest; programs that are not tests use
// [RunProcess].
func Run(cfg Config) (*Report, error) {
	w, r, err := simulate(cfg)
	if w != nil {
		err = errors.Join(err, w.close())
	}
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	return r, nil
}

// simulate runs a simulation and leaves its nodes running.
func simulate(cfg Config) (*world, *Report, error) {
	w, err := newWorld(cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := w.run()
	return w, r, err
}

func (w *world) run() (*Report, error) {
	cfg, begin := w.cfg, time.Now()
	if err := w.boot(); err != nil {
		return nil, err
	}
	until := func(t time.Time) { time.Sleep(time.Until(t)) }
	until(begin.Add(bootSpread + cfg.Warmup))

	r := newReport(w)
	r.Complete = w.obs.begin()
	start, sent := time.Now(), w.fab.sent()
	scenario, err := FindScenario(cfg.Scenario)
	if err != nil {
		return nil, err
	}
	moments := w.moments()
	measured := -1
	if scenario.Measured && len(moments) > 0 {
		if measured = 0; scenario.AtEnd {
			measured = slices.IndexFunc(moments, func(m moment) bool { return !m.begin })
		}
	}
	next := 0
	for second := 1; ; second++ {
		end := min(time.Duration(second)*time.Second, cfg.Duration)
		for ; next < len(moments) && moments[next].at < end; next++ {
			until(start.Add(moments[next].at))
			m := moments[next]
			another := m.begin && scenario.Each != "" && w.faults[m.fault].Kind == scenario.Each
			if another {
				r.detected(w) // adds what the nodes saw after the previous fault
			}
			if w.apply(m); next == measured || another {
				w.obs.measure()
			}
		}
		until(start.Add(end))
		now := w.fab.sent()
		r.Seconds = append(r.Seconds, now.minus(sent))
		sent = now
		if end == cfg.Duration || cfg.Settle > 0 && next == len(moments) && w.obs.settled(cfg.Settle) {
			r.finish(w, end)
			return r, errors.Join(w.errors()...)
		}
	}
}

func (w *world) errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

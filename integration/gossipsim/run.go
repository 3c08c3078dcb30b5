package gossipsim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Progress says how far a simulation is, in virtual time.
type Progress struct {
	Done  Duration `json:"done"`
	Total Duration `json:"total"`
}

// progressStep is the virtual time between two reports of progress.
const progressStep = 100 * time.Millisecond

// Run runs a simulation to its end. It must be called inside a testing/synctest bubble;
// programs that are no tests use [RunProcess]. progress may be nil.
func Run(cfg Config, progress func(Progress)) (*Report, error) {
	w, r, err := simulate(cfg, progress)
	if w != nil {
		err = errors.Join(err, w.close())
	}
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	return r, nil
}

// simulate runs a simulation and leaves its nodes running.
func simulate(cfg Config, progress func(Progress)) (*world, *Report, error) {
	w, err := newWorld(cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := w.run(progress)
	return w, r, err
}

// run lets the faults of the world happen.
func (w *world) run(progress func(Progress)) (*Report, error) {
	cfg, begin := w.cfg, time.Now()
	if err := w.boot(); err != nil {
		return nil, err
	}
	p := pace{total: bootSpread + time.Duration(cfg.Warmup+cfg.Duration), begin: begin, tell: progress}
	p.until(begin.Add(bootSpread + time.Duration(cfg.Warmup)))

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
		end := min(time.Duration(second)*time.Second, time.Duration(cfg.Duration))
		for ; next < len(moments) && moments[next].at < end; next++ {
			p.until(start.Add(moments[next].at))
			m := moments[next]
			another := m.begin && scenario.Each != "" && w.faults[m.fault].Kind == scenario.Each
			if another {
				r.detected(w) // what the one before made them find out
			}
			if w.apply(m); next == measured || another {
				w.obs.measure()
			}
		}
		p.until(start.Add(end))
		now := w.fab.sent()
		r.Seconds = append(r.Seconds, now.minus(sent))
		sent = now
		if end == time.Duration(cfg.Duration) || cfg.Settle > 0 && next == len(moments) && w.obs.settled(time.Duration(cfg.Settle)) {
			r.finish(w, end)
			if p.tell != nil {
				p.tell(Progress{Duration(p.total), Duration(p.total)})
			}
			return r, errors.Join(w.errors()...)
		}
	}
}

func (w *world) errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

// pace lets virtual time pass and tells how far it is.
type pace struct {
	begin time.Time
	total time.Duration
	tell  func(Progress)
}

func (p *pace) until(t time.Time) {
	for {
		left := time.Until(t)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, progressStep))
		if p.tell != nil {
			p.tell(Progress{Duration(time.Since(p.begin)), Duration(p.total)})
		}
	}
}

package agent

import (
	"context"
	"time"
)

// storeLook is the time between two looks at what systemd keeps.
const storeLook = 10 * time.Second

// followStore reports whether systemd keeps the watchdog's descriptor while the watchdog is armed. No decision depends
// on that: the sums that peers use are the same either way (adr/0032).
func (g *guard) followStore(ctx context.Context) {
	if g.real == nil || g.store == nil {
		return
	}
	t := time.NewTicker(storeLook)
	defer t.Stop()
	for now := (keptLog{}); ; {
		armed := g.feeder.State().Armed
		kept := armed && g.real.Kept()
		g.metrics.SetKept(kept)
		switch now.note(armed, kept) {
		case keptYes:
			g.log.Info("systemd keeps the watchdog's descriptor: if this agent is killed, no other program can open the watchdog before the next agent has it")
		case keptNo:
			g.log.Warn("systemd does not keep the watchdog's descriptor: the unit needs FileDescriptorStoreMax=1 and NotifyAccess=main, see docs/troubleshooting.md; " +
				"if this agent is killed, the kernel closes the watchdog, as without systemd")
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

type keptNews uint8

const (
	keptSame keptNews = iota
	keptYes
	keptNo
)

// keptLog decides what to log. systemd may not have read its messages yet, so a missing descriptor is logged only when
// it is missing twice.
type keptLog struct {
	told  keptNews
	lacks int
}

func (l *keptLog) note(armed, kept bool) keptNews {
	now := keptNo
	switch {
	case !armed:
		l.lacks = 0
		return keptSame
	case kept:
		now, l.lacks = keptYes, 0
	default:
		if l.lacks++; l.lacks < 2 {
			return keptSame
		}
	}
	if now == l.told {
		return keptSame
	}
	l.told = now
	return now
}

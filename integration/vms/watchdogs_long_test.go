package vms

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// stays makes a kernel that has panicked stay in that state, as it does by default.
const stays = "panic=0"

// panics: a watchdog that was fed until the kernel panicked resets the machine, unless its driver needs a running
// kernel (softdog) or allows more time after a panic (ipmi_watchdog: 255 s).
func (b *bench) panics() {
	b.boot()
	b.arms()
	at := time.Now()
	go func() {
		_, _ = b.machines[lone].Run(b.t.Context(), "echo c > /proc/sysrq-trigger") // nobody answers
	}()
	b.eventually(at.Add(patience), "the kernel panics", func() string {
		if _, ok := b.first(lone, at, func(e machine.Event) bool {
			return e.Kind == machine.Console && strings.Contains(e.Text, "Kernel panic - not syncing")
		}); !ok {
			return "it runs"
		}
		return ""
	})
	if b.p.needsKernel {
		b.until(at.Add(2*b.p.fires + 5*time.Second))
		if _, ended := b.ended(); ended {
			b.t.Error("the machine was reset soon after the panic")
		}
		b.logf("%s: no reset in %v after the panic", b.p.name, time.Since(at).Round(time.Second))
		return
	}
	reset, _ := b.resetBy(b.p.fires)
	after := reset.Sub(at) // the last feed was less than a second earlier
	b.logf("%s: reset %v after the panic", b.p.name, after)
	if after < b.p.fires-time.Second-tolerance || after > b.p.fires+tolerance {
		b.fatal("reset %v after the panic, not %v", after, b.p.fires)
	}
}

// isCondemned: a condemned boot has ended when peers report FENCED. If the driver cannot be relied on, the peers are
// told nothing.
func (b *bench) isCondemned() {
	b.boot()
	began := time.Now()
	go func() {
		_, _ = b.machines[lone].Run(b.t.Context(), fmt.Sprintf("%s/bin/condemned %s %v > /dev/console 2>&1", control.DiskMount, b.spec(), b.p.timeout))
	}()
	var c control.Condemned
	var at time.Time
	b.eventually(began.Add(armLimit), "the boot is condemned", func() string {
		events, _ := b.machines[lone].Events()
		for _, e := range events {
			_, text, ok := strings.Cut(e.Text, control.CondemnedWord)
			if e.Kind == machine.Console && ok && json.Unmarshal([]byte(text), &c) == nil {
				at = e.At
				return ""
			}
		}
		return "it is not"
	})
	b.surely(at.Add(b.p.fires+patience), "reset of a condemned boot", func() string {
		if _, ok := b.ended(); !ok {
			return "the machine runs"
		}
		return ""
	})
	reset, _ := b.ended()
	b.logf("%s: condemned, told %v (%s), reset after %v, FENCED after %v", b.p.name, c.Told, c.Why, reset.Sub(at), c.Bound)
	if c.Told > 0 && reset.Sub(at) > c.Bound {
		b.t.Errorf("reset %v after the boot was condemned, and peers report FENCED after %v", reset.Sub(at), c.Bound)
	}
}

package vms

import (
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// crashes are deaths of one node that it cannot tell of. The node stays off until the others may act: the next boot of
// an emulated machine would prove its death sooner than that of a server whose firmware takes minutes.
var crashes = []fault{
	{name: "node crashed (kernel panic)", dies: (*story).panics},
	{name: "power lost", dies: (*story).losesPower},
}

// panics has the kernel of a node panic, without a crash kernel. The kernel restarts the machine a second later.
func (s *story) panics(node string) (at time.Time) {
	s.t.Helper()
	s.must(s.machines[node].StayOff())
	asked := s.trigger(node, "c")
	s.eventually(asked.Add(time.Minute), node+" panics", func() string {
		var ok bool
		if at, ok = s.said(node, asked, "Kernel panic - not syncing"); !ok {
			return "it runs"
		}
		return ""
	})
	return at
}

// losesPower ends all that a node does between two of its instructions.
func (s *story) losesPower(node string) time.Time {
	s.t.Helper()
	at := time.Now()
	s.must(s.machines[node].PowerOff())
	return at
}

// crash is the death of one node until the others may act, whereupon it boots. A node that died is idle at once.
func (c *contender) crash(s *story, f fault, victim string) outcome {
	s.t.Helper()
	at := f.dies(s, victim)
	s.logf("%s: %s", f.name, victim)
	o := outcome{active: c.told(s, victim, at)}
	if moment, ok := s.first(victim, at, stoodStill); ok {
		o.reset = moment.Sub(at)
	}
	s.spared(without(nodes, victim), at)
	s.must(s.machines[victim].PowerOn(s.t.Context()))
	return o
}

// stoodStill is the reset of a machine that stays off after it.
func stoodStill(e machine.Event) bool {
	return e.Kind == machine.QMP && e.Source == "SHUTDOWN" && strings.Contains(e.Text, "guest-reset")
}

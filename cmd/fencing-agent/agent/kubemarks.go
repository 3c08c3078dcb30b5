package agent

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// nodeMarks shows on this node's Node, and by Events about it, what the agent does. The loop passes its decisions to
// it, and gets nothing back. A nil *nodeMarks does nothing.
type nodeMarks struct {
	cfg    *config.Config
	writer *marks.Writer

	addresses *members.Addresses // nil: the list of members does not come from Nodes

	// The loop owns the rest.
	guard  netgossip.Guard
	state  wdt.Status
	reason watchdog.Reason
	quorum bool
	begun  bool // quorum was seen once
}

// startReports starts the writers of deaths and of sightings.
func (a *Agent) startReports(background spawn) error {
	if !a.cfg.Kubernetes.Reports() {
		return nil
	}
	node, boot := a.cfg.NodeName, hex64(a.self.boot)
	if a.cfg.Members.Source == config.SourceController {
		d := newKubeDeaths(nil)
		d.told = true
		w := members.NewDeathTeller(a.cfg, boot, a.clock, a.log, d.begin)
		d.annotation = w
		s := members.NewSightingTeller(a.cfg, boot, a.clock, a.log)
		a.kube.deaths, a.kube.sightings = d, newKubeSightings(s, node, boot)
		background(w.Run)
		background(s.Run)
		return nil
	}
	if a.kube.client == nil {
		return nil
	}
	core, err := a.kube.client.For(client.Core)
	if err != nil {
		return err
	}
	c := marks.Config{Client: core, Node: node, Logger: a.log}
	d, err := marks.NewAnnotation(c, deathlist.Annotation)
	if err != nil {
		return err
	}
	s, err := marks.NewAnnotation(c, sightings.Annotation)
	if err != nil {
		return err
	}
	a.kube.deaths, a.kube.sightings = newKubeDeaths(d), newKubeSightings(s, node, boot)
	background(d.Run)
	background(s.Run)
	return nil
}

// startMarks starts the writer, if anything may be written. It must run before anything calls the marks.
func (a *Agent) startMarks(background spawn) error {
	k := &a.cfg.Kubernetes
	if a.kube.client == nil || !k.Follows() || !k.Reports() && !a.members.FromNodes() {
		return nil
	}
	core, err := a.kube.client.For(client.Core)
	if err != nil {
		return err
	}
	w, err := marks.New(marks.Config{Client: core, Node: a.cfg.NodeName, Logger: a.log, Registry: a.opts.Registry})
	if err != nil {
		return err
	}
	a.kube.marks = &nodeMarks{cfg: a.cfg, writer: w}
	a.kube.marks.addresses = a.members.Addresses(w)
	a.kube.marks.label(false)
	background(w.Run)
	return nil
}

// label says whether the watchdog is armed.
func (m *nodeMarks) label(armed bool) {
	if !m.cfg.Kubernetes.Labels() {
		return
	}
	mode := marks.ModeWatchdog
	if m.cfg.Watchdog.Driver == config.DriverNone {
		mode = marks.ModeNotify
	}
	l := marks.Wish{marks.LabelMode: &mode, marks.LabelEnabled: nil}
	if armed {
		present := ""
		l[marks.LabelEnabled] = &present
	}
	m.writer.Want(l, nil)
}

func (m *nodeMarks) event(reason marks.Reason, format string, args ...any) {
	if m.cfg.Kubernetes.Reports() {
		m.writer.Event(reason, fmt.Sprintf(format, args...))
	}
}

// seen handles this node's Node, from the watcher's goroutine.
func (m *nodeMarks) seen(s ownnode.State) {
	if m == nil {
		return
	}
	m.writer.Seen(s)
	m.addresses.Seen(s)
}

// moved handles a changed own address, from the link watcher's goroutine.
func (m *nodeMarks) moved(network string, to netip.Addr) {
	if m != nil {
		m.addresses.Moved(network, to)
	}
}

// note handles the outcome of a step.
func (m *nodeMarks) note(a *Agent, fx *watchdog.Effects) {
	if m == nil {
		return
	}
	// As in the statement to peers, the label is removed as soon as a disarm is wanted, before it is carried out.
	if st := fx.Statement; st != nil && st.Guard.Armed != m.guard.Armed {
		g := st.Guard
		m.guard = g
		m.label(g.Armed)
	}
	why := func() string { v := a.verdict(fx.Decision); return v.Text() }
	m.noteWatchdog(a.guard.feeder.State(), why)
	if fx.Changed {
		m.noteDecision(fx.Decision, why)
	}
}

func (m *nodeMarks) noteWatchdog(s wdt.State, why func() string) {
	if s.Status == m.state {
		return
	}
	was := m.state
	m.state = s.Status
	switch {
	case s.DryRun && s.Status == wdt.Armed && was != wdt.Starved:
		m.event(marks.DryRun, "%s", trouble.DryRun.Here())
	case s.DryRun && s.Status == wdt.Starved:
		m.event(marks.DryRun, "a watchdog would reset this node: %s", why())
	case s.DryRun && s.Status == wdt.Disarmed && (was == wdt.Armed || was == wdt.Starved):
		m.event(marks.DryRun, "a watchdog would be disarmed: %s", why())
	case s.DryRun:
	case s.Status == wdt.Armed && was != wdt.Starved:
		m.event(marks.WatchdogArmed, "watchdog %q is armed with a timeout of %v", s.Info.Identity, s.Info.Timeout)
	case s.Status == wdt.Disarmed && (was == wdt.Armed || was == wdt.Starved):
		m.event(marks.WatchdogDisarmed, "watchdog is disarmed: %s", why())
	case s.Status == wdt.Starved:
		m.event(marks.WatchdogStarvation, "watchdog is not fed any more and resets this node within %v: %s", s.Info.Timeout.Round(time.Second), why())
	}
}

func (m *nodeMarks) noteDecision(d watchdog.Decision, why func() string) {
	if d.Reason != m.reason {
		m.reason = d.Reason
		switch d.Reason {
		case watchdog.ReasonSplitWon, watchdog.ReasonAPIReachable:
			m.event(marks.TieBreakWon, "%s", why())
		case watchdog.ReasonSplitLost, watchdog.ReasonAPIUnreachable, watchdog.ReasonSplitUndecided, watchdog.ReasonSplitLUN, watchdog.ReasonSplitNoTieBreaker:
			m.event(marks.TieBreakLost, "%s", why())
		}
	}
	if d.Quorum == m.quorum || d.Action == watchdog.Hold {
		return
	}
	m.quorum = d.Quorum
	switch {
	case d.Action == watchdog.Disarm: // a removed node loses quorum as planned
	case !d.Quorum:
		m.event(marks.QuorumLost, "%s", why())
	case m.begun:
		m.event(marks.QuorumRegained, "%s", why())
	}
	m.begun = true
}

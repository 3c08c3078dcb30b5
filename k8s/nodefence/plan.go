package nodefence

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// item is a Job that a step wants, with its place in the order.
type item struct {
	name    string
	method  fenceconfig.Method
	methods []fenceconfig.Method // of the role plan
	role    Role
	timeout time.Duration
}

// plan lists what the step wants, in order. It is derived from the present configuration. The resulting method is part
// of each Job's name, so that a changed method becomes another Job.
func (d *decision) plan() []item {
	s, n := &d.status, d.Config
	var items []item
	add := func(role Role, methods []fenceconfig.Method) {
		for _, m := range methods {
			timeout := d.Cluster.JobTimeout
			if asks(role) {
				timeout = d.Cluster.CheckTimeout
			}
			items = append(items, item{jobName(d.Object.UID, s.Step, s.Retries, role, m.Name, m.Digest()), m, nil, role, timeout})
		}
	}
	power, firstOn := fenceconfig.Steps(n.Power)
	// A method that is impossible has to be found before the first of several steps: otherwise the node would lose its
	// storage, but neither its power nor its pods.
	if s.Step != Recovery && !s.Isolated && !s.Switched {
		all := n.Methods()
		name := jobName(d.Object.UID, s.Step, s.Retries, Plan, string(Plan), fenceconfig.DigestOf(all))
		items = append(items, item{name, fenceconfig.Method{Name: string(Plan)}, all, Plan, d.Cluster.JobTimeout})
	}
	switch s.Step {
	case Isolation:
		if confirmed(power[:firstOn]) {
			add(Check, power[:firstOn])
			if firstOn > 1 { // each was off before this check and after it: so all were off at one moment
				add(Again, power[:firstOn])
			}
		}
		add(Main, n.Isolation)
	case Power:
		add(Main, power[:firstOn])
		// If they are switched off one after the other, the first may be on again before the last is off.
		if firstOn > 1 && confirmed(power[:firstOn]) {
			add(Again, power[:firstOn])
		}
		// Before the node boots, its storage has to be there. Without a confirmed off the old boot might get the
		// storage. A method that registers the machine on which it runs comes when the node is back. A boot that was
		// heard after it was called dead gets its storage then as well.
		if s.Isolated && firstOn < len(power) && confirmed(power[:firstOn]) && !d.withdrawn() {
			add(Unfence, slices.DeleteFunc(slices.Clone(n.Recovery), func(m fenceconfig.Method) bool { return m.HostDevices }))
		}
		add(Main, power[firstOn:])
	case Recovery:
		if s.Switched {
			add(Restore, power[firstOn:])
		}
		add(Main, n.Recovery)
	}
	return items
}

// asks reports whether a Job only asks for the status.
func asks(role Role) bool { return role == Check || role == Again }

// onlyAsks reports whether it is not a failure if this Job finds a supply on: before anything is switched, supplies are
// on.
func (e *Entry) onlyAsks() bool { return e.Role == Check || e.Role == Again && e.Step == Isolation }

// confirmed reports whether these methods together prove that the node is off.
func confirmed(offs []fenceconfig.Method) bool {
	return len(offs) > 0 && !slices.ContainsFunc(offs, func(m fenceconfig.Method) bool { return !m.Confirm })
}

// jobName returns the same name for all controllers: there is one Job for each NodeFence, step, try, role and method.
func jobName(uid string, step Step, try int, role Role, name, digest string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d %s %s %s", uid, step, try, role, name, digest)
	if len(name) > 40 {
		name = name[:40]
	}
	return fmt.Sprintf("%s-%016x", strings.Trim(name, "-."), h.Sum64())
}

// progress is the progress of a step's items.
type progress struct {
	next     []item // the items whose turn it is
	failed   bool
	complete bool
	off      bool // each check has reported that its plug is off
	cut      bool // each off of power_management has been confirmed
}

// asked is the state of the items of one role, all of which run at the same time.
type asked struct {
	next     []item // the items whose Jobs do not exist yet
	runs     bool   // one of their Jobs has to be created, or runs
	off, all int
}

func (d *decision) asked(items []item, role Role) asked {
	var a asked
	for _, it := range items {
		if it.role != role {
			continue
		}
		a.all++
		switch e := d.status.entry(it.name); {
		case e == nil:
			a.next, a.runs = append(a.next, it), true
		case e.State == Recorded:
			a.runs = true
		case e.State == Succeeded:
			a.off++
		}
	}
	return a
}

// look goes through the plan.
func (d *decision) look(items []item) progress {
	var p progress
	plan, checks, again := d.asked(items, Plan), d.asked(items, Check), d.asked(items, Again)
	p.next, p.off = checks.next, checks.all > 0 && checks.off == checks.all
	if p.off && again.all > 0 {
		p.next, p.off = again.next, again.off == again.all
		checks.runs = again.runs
	}
	p.next = append(plan.next, p.next...)
	switch {
	case p.off, plan.runs, checks.runs:
		p.complete = p.off
		return p
	case plan.off < plan.all: // nothing is cut off
		p.failed = true
		return p
	}
	p.cut = d.status.Step == Power
	onlyOne := d.status.Step == Isolation && d.Config.IsolationPolicy == fenceconfig.OnlyOne ||
		d.status.Step == Recovery && d.Config.RecoveryPolicy == fenceconfig.OnlyOne
	tried, worked := 0, 0
	for _, it := range items {
		e := d.status.entry(it.name)
		off := it.role == Main && it.method.Action == fenceconfig.Off
		switch {
		case it.role == Check, it.role == Plan, it.role == Again && d.status.Step == Isolation:
			continue
		case it.role == Again && again.runs:
			p.next, p.cut = again.next, false
			return p
		case it.role == Again && again.off < again.all:
			p.failed, p.cut = true, false
			return p
		case it.role == Again:
			continue
		case e == nil || e.State == Recorded:
			if off {
				p.cut = false
			}
			if e == nil {
				p.next = []item{it}
			}
			return p
		case e.State == Succeeded:
			worked++
			if off && !it.method.Confirm {
				p.cut = false
			}
			if onlyOne && it.role == Main {
				p.complete = true
				return p
			}
		case onlyOne && it.role == Main:
		case it.method.MustSuccess || off && d.status.Step == Power:
			p.failed, p.cut = true, false
			return p
		}
		tried++
	}
	p.failed = onlyOne && tried > 0 && worked == 0
	p.complete = !p.failed
	return p
}

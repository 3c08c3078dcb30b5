package nodefence

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// AnywayAnnotation of a NodeFence is set by a person who has looked at the Nodes that are not Ready, and wants the
// NodeFence to continue in spite of them.
const AnywayAnnotation = "fencing-agent.io/fence-anyway"

// gate is asked before each step that isolates the node or cuts its power, before each try of such a step, and before
// each of its methods. A step that has begun is not held up: a supply that is off would stay off, and half an isolation
// is useless. A step that a person has ordered, because the NodeFence was created for it, is not held up either.
//
// Invariant: for a node of the control plane, the gate is asked before each off, even if it was ordered or has begun,
// until all its supplies have been off: with half of its supplies off the node still runs. Before such a fencing
// continues, it writes that it is no longer held up, since others read that ([storm.ControlPlane]). Nothing begins
// against another boot that runs ([decision.restarted]).
func (d *decision) gate(step Step) (Action, bool) {
	s := &d.status
	switch {
	case step == Recovery, d.Object.Deleting:
	case d.restarted():
		return d.rest(time.Time{}, "%s waits: the Node shows another boot than the one that failed. The new boot runs and is not Ready: look at its kubelet", step), true
	case d.atRisk() && !(step == Power && d.wasOff()):
		return d.hold(step), true
	case step == Power && s.Switched, step == Isolation && s.Isolated, d.ordered(step):
	case !d.Policy.Allowed:
		return d.hold(step), true
	}
	was := s.Held()
	if d.free(); was == storm.ControlPlane {
		s.Message = ""
		return d.update("the rest of the control plane is Ready again: checks once more"), true
	}
	return Action{}, false
}

// restarted reports whether the boot that is fenced has ended, and another one runs, as its kubelet or its agents show.
// Another try would cut a machine that has already been reset. When that boot is not heard either, fencing continues.
func (d *decision) restarted() bool {
	return d.same() && d.Node.Boot != "" && d.Node.Boot != d.status.Boot && (!d.Node.Silent || len(d.Node.Seen) > 0)
}

// atRisk reports whether the control plane cannot lose this node now.
func (d *decision) atRisk() bool {
	return !d.Policy.Allowed && d.Policy.Reason == storm.ControlPlane
}

// wasOff reports whether each supply of the node was switched off, and none was switched on after that.
func (d *decision) wasOff() bool {
	if d.Config == nil || !d.status.Switched {
		return false
	}
	off := map[string]bool{}
	for _, e := range d.status.Jobs {
		switch {
		case e.Action == fenceconfig.On && (e.Role == Main || e.Role == Restore) && e.Step != Isolation:
			clear(off)
		case e.Step == Power && e.Role == Main && e.State == Succeeded:
			off[e.Method] = true
		}
	}
	power, firstOn := fenceconfig.Steps(d.Config.Power)
	return firstOn > 0 && !slices.ContainsFunc(power[:firstOn], func(m fenceconfig.Method) bool { return !off[m.Name] })
}

// ordered reports whether a person has created the NodeFence for this step. If the node has no method of isolation, the
// order is for its power.
func (d *decision) ordered(step Step) bool {
	by := d.status.Ordered
	return by != "" && (step == by || by == Isolation && step == Power && len(d.Config.Isolation) == 0)
}

// hold records in the NodeFence which limit holds it up.
func (d *decision) hold(step Step) Action {
	s := &d.status
	text := d.Policy.Text
	if d.Policy.Anyway != "" {
		text += fmt.Sprintf("; once you know better: kubectl annotate nodefence NAME --overwrite %s=%s", AnywayAnnotation, d.Policy.Anyway)
	}
	c := Condition{Type: PolicyAllows, Status: "False", Reason: d.Policy.Reason, Message: text, LastTransitionTime: d.Now}
	if i := d.condition(); i < 0 {
		s.Conditions = append(s.Conditions, c)
	} else {
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = c
	}
	return d.rest(time.Time{}, "%s waits: %s", step, d.Policy.Text)
}

// free records, with the next write, that nothing holds the NodeFence up any more.
func (d *decision) free() {
	if i := d.condition(); i >= 0 && d.status.Conditions[i].Status != "True" {
		d.status.Conditions[i] = Condition{Type: PolicyAllows, Status: "True", Reason: "Allowed", LastTransitionTime: d.Now}
	}
}

func (d *decision) condition() int {
	for i, c := range d.status.Conditions {
		if c.Type == PolicyAllows {
			return i
		}
	}
	return -1
}

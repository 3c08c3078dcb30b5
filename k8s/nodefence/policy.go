package nodefence

import (
	"fmt"
	"time"
)

// AnywayAnnotation of a NodeFence is the word of a person who has looked at the Nodes that are not Ready, and wants it to go
// on all the same.
const AnywayAnnotation = "fencing-agent.io/fence-anyway"

// gate is asked before each step that isolates the node or cuts its power, before each try of one, and before the first
// method of it. What has begun goes on: a supply that is off would stay so, and half an isolation is of use to nobody.
// What a person has ordered is not held up either: the step that the NodeFence was made for.
func (d *decision) gate(step Step) (Action, bool) {
	s := &d.status
	switch {
	case step == Recovery, step == Power && s.Switched, step == Isolation && s.Isolated, d.ordered(step), d.Object.Deleting:
	case !d.Policy.Allowed:
		return d.hold(step), true
	}
	d.free()
	return Action{}, false
}

// ordered reports whether a person has made the NodeFence for this step. Where nothing isolates the node, its power is
// what was meant.
func (d *decision) ordered(step Step) bool {
	by := d.status.Ordered
	return by != "" && (step == by || by == Isolation && step == Power && len(d.Config.Isolation) == 0)
}

// hold says in the NodeFence by which limit it is held up.
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

// free says that nothing is held up any more, with the write that comes next.
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

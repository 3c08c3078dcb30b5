package nodefence

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

const (
	// slack is the time after its deadline for which a Job is still waited for: as much as the clocks of nodes may
	// differ.
	slack = 15 * time.Second
	// mostAvoided is the greatest number of nodes that a Job avoids because another one has failed there.
	mostAvoided = 8
)

// decision is one call of Decide.
type decision struct {
	Facts

	status  Status // the status to be written
	changed bool
}

// Decide returns the next write, or how long to wait.
func Decide(f Facts) Action {
	if f.Object == nil {
		return begin(f)
	}
	d := &decision{Facts: f, status: f.Object.Status.Clone()}
	if a, ok := d.adopt(); ok {
		return a
	}
	d.observe()
	if d.changed {
		return d.update("records the state of its Jobs")
	}
	if a, ok := d.job(); ok {
		return a
	}
	return d.step()
}

// begin creates a NodeFence for a node that has stopped answering (row 0).
func begin(f Facts) Action {
	switch {
	case f.Config == nil, f.Config.Broken, !f.Node.Exists, f.Node.Ready, f.Node.Kept, f.Node.Boot == "":
		return Action{Kind: Wait}
	case f.Wish == "" && f.Cluster.ByRemediation:
		return Action{Kind: Wait}
	case f.Wish == "" && !f.Crashed() && f.Now.Before(f.Node.NotReadySince.Add(f.Cluster.Trigger)):
		return Action{Kind: Wait, Until: f.Node.NotReadySince.Add(f.Cluster.Trigger)}
	case !f.Policy.Allowed:
		return Action{Kind: Wait, Until: f.Now.Add(f.Cluster.Poll), Why: f.Policy.Text, Held: f.Policy.Reason}
	}
	a := Action{
		Kind: Create, Why: "the Node is not Ready",
		Spec:   Spec{NodeName: f.Config.Name, NodeUID: f.Node.UID, Boot: f.Node.Boot, Step: Isolation},
		Status: Status{NodeUID: f.Node.UID, Boot: f.Node.Boot, Step: Isolation, Phase: New, StartedAt: f.Now, NotReady: true},
	}
	if f.Wish != "" {
		a.Wish, a.Why = f.Wish, "a remediation asks for it"
		if f.First == Power {
			a.Spec.Step, a.Status.Step = Power, Power
		}
	}
	return a
}

// adopt fills in the fields that a person who created the NodeFence by hand has left out.
func (d *decision) adopt() (Action, bool) {
	s, spec := &d.status, d.Object.Spec
	if s.Step != "" {
		return Action{}, false
	}
	s.Boot, s.NodeUID, s.Step, s.Phase, s.StartedAt = spec.Boot, spec.NodeUID, spec.Step, New, d.Now
	if s.Step == "" {
		s.Step = Isolation
	}
	if s.Boot == "" {
		s.Boot = d.Node.Boot
	}
	if s.NodeUID == "" {
		s.NodeUID = d.Node.UID
	}
	s.NotReady, s.Ordered = d.Node.Exists && !d.Node.Ready, s.Step
	return d.update("begins"), true
}

// observe records the state of the Jobs, and of the Node.
func (d *decision) observe() {
	s := &d.status
	for i := range s.Jobs {
		e := &s.Jobs[i]
		if e.State != Recorded {
			continue
		}
		j := d.find(e.Name)
		switch {
		case j == nil || j.UID != e.UID:
			d.end(e, Failed, "its Job has vanished", true)
			continue
		// Record it while the Job runs: if its node dies, Kubernetes keeps no pod, and the next try should use another
		// node.
		case j.Node != "" && j.Node != e.Node:
			e.Node, d.changed = j.Node, true
		}
		switch {
		// If the image is older, a method that is not possible fails when its turn comes.
		case j.Finished && e.Role == Plan && j.Unknown:
			d.end(e, Succeeded, "nodeFence.image is older than the controller, so the controller does not know which methods are possible", false)
		case j.Finished && j.Succeeded && e.Confirm && !j.Off:
			d.end(e, Failed, "its Job is complete, but its executor has not reported that the plug is off: is nodeFence.image the executor?", !j.Reported)
		case j.Finished && j.Succeeded && e.Barrier && !j.Barrier:
			d.end(e, Failed, "its Job is complete, but its executor has not reported that it has reset each logical unit: is nodeFence.image of this version?", !j.Reported)
		case j.Finished && j.Succeeded:
			d.end(e, Succeeded, j.Message, false)
		case j.Finished:
			d.end(e, Failed, j.Message+unplaced(j), !j.Reported)
		case d.Now.After(e.NotAfter.Add(slack)):
			d.end(e, Failed, "its Job did not end in time"+unplaced(j), true)
		}
	}
	d.hear()
	if d.same() && !d.Node.Ready && !s.NotReady {
		s.NotReady, d.changed = true, true
	}
	d.contradict()
}

// unplaced tells where to look when no node has run a Job: such a Job fails by its deadline, which does not show why.
func unplaced(j *Job) string {
	if j.Node != "" || j.Reported {
		return ""
	}
	return ": no node has run its pod, because of a quota, a limit range, taints or an executorNodeSelector; kubectl describe job " + j.Name + " shows which"
}

func (d *decision) end(e *Entry, state, message string, unclear bool) {
	e.State, e.Message, e.Unclear, e.FinishedAt = state, message, unclear, d.Now
	d.changed = true
	if state == Failed && !e.onlyAsks() && e.Node != "" && !slices.Contains(d.status.Failed, e.Node) {
		d.status.Failed = append(d.status.Failed, e.Node)
		d.status.Failed = d.status.Failed[max(0, len(d.status.Failed)-mostAvoided):]
	}
}

// same reports whether the Node is still the object that this NodeFence is about.
func (d *decision) same() bool { return d.Node.Exists && d.Node.UID == d.status.NodeUID }

// back reports whether the Node is Ready again, and has not just stayed Ready.
func (d *decision) back() bool {
	return d.same() && d.Node.Ready && (d.status.NotReady || d.Node.Boot != d.status.Boot)
}

func (d *decision) find(name string) *Job {
	i := slices.IndexFunc(d.Jobs, func(j Job) bool { return j.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Jobs[i]
}

// busy reports whether a Job may be running.
func (d *decision) busy() bool {
	return slices.ContainsFunc(d.status.Jobs, func(e Entry) bool { return e.State == Recorded })
}

// job decides about single Jobs. It starts those that were recorded. It deletes those that were never recorded, and
// those that failed but may still run.
func (d *decision) job() (Action, bool) {
	for _, j := range d.Jobs {
		e := d.status.entry(j.Name)
		switch {
		case e != nil && e.UID == j.UID && e.State == Recorded && j.Suspended:
			// A Job that was not started fails when its time is over, and the next try asks again.
			off := e.Role == Main && e.Action == fenceconfig.Off
			if !d.held() && !(off && (d.restarted() || d.atRisk() && !d.wasOff())) && !(e.givesStorage() && !d.unfenceable()) {
				return Action{Kind: StartJob, Name: j.Name, UID: j.UID, Why: e.Method}, true
			}
		case e != nil && e.UID == j.UID && e.State == Failed && !j.Finished:
			return Action{Kind: DeleteJob, Name: j.Name, UID: j.UID, Version: j.Version, Why: "the Job did not end in time"}, true
		case (e == nil || e.UID != j.UID) && j.Suspended && !d.wanted(j.Name):
			return Action{Kind: DeleteJob, Name: j.Name, UID: j.UID, Version: j.Version, Why: "the Job was never recorded"}, true
		}
	}
	return Action{}, false
}

// wanted reports whether a Job that is not recorded is one of those whose turn it is.
func (d *decision) wanted(name string) bool {
	if d.Config == nil || d.status.entry(name) != nil || d.status.Phase != Running && d.status.Phase != New {
		return false
	}
	return slices.ContainsFunc(d.look(d.plan()).next, func(it item) bool { return it.name == name })
}

// quiet reports whether nothing that was begun can still run, and otherwise until when it can.
func (d *decision) quiet() (bool, time.Time) {
	var until time.Time
	for _, e := range d.status.Jobs {
		j := d.find(e.Name)
		there := j != nil && j.UID == e.UID && !j.Finished
		if e.State == Recorded || e.State == Failed && there {
			return false, d.Now.Add(d.Cluster.Poll)
		}
		if end := e.NotAfter.Add(slack); e.Unclear && d.Now.Before(end) && end.After(until) {
			until = end
		}
	}
	return until.IsZero(), until
}

// held reports whether nothing new may be started because a person wants that (row 14).
func (d *decision) held() bool { return d.Object.Spec.Paused || d.Node.Kept }

// idle waits because of [decision.held], and tells people what asks for that.
func (d *decision) idle() Action {
	if d.Object.Spec.Paused {
		return d.rest(time.Time{}, "spec.paused is true: nothing new is started")
	}
	return d.rest(time.Time{}, "an annotation of the Node disarms, such as fencing-agent.io/disable, or the Node is being removed: nothing new is started")
}

func (d *decision) update(why string) Action {
	return Action{Kind: Update, UID: d.Object.UID, Version: d.Object.Version, Status: d.status, Why: why}
}

// rest waits, and tells people what it waits for.
func (d *decision) rest(until time.Time, format string, args ...any) Action {
	if text := fmt.Sprintf(format, args...); text != d.status.Message {
		d.status.Message = text
		return d.update(text)
	}
	if until.IsZero() {
		until = d.Now.Add(d.Cluster.Poll)
	}
	return Action{Kind: Wait, Until: until}
}

// enter begins a step when nothing of the step before can still run.
func (d *decision) enter(step Step, why string) Action {
	if ok, until := d.quiet(); !ok {
		return d.rest(until, "waits until no Job of %s can run any more, then %s: %s", d.status.Step, step, why)
	}
	s := &d.status
	if d.Policy.Allowed || step == Recovery { // which switches nothing off
		d.free()
	}
	s.Step, s.Phase, s.StartedAt, s.DoneAt, s.Retries, s.ReadyAt, s.Message = step, New, d.Now, time.Time{}, 0, time.Time{}, why
	return d.update(string(step) + ": " + why)
}

// methods reports whether the configuration has methods for a step.
func (d *decision) methods(step Step) bool {
	switch {
	case d.Config == nil || d.Config.Broken:
		return false
	case step == Power:
		return len(d.Config.Power) > 0
	default:
		return len(d.Config.Recovery) > 0 || d.status.Switched
	}
}

// hasOn reports whether the step power_management switches anything on.
func (d *decision) hasOn() bool {
	return d.Config != nil && slices.ContainsFunc(d.Config.Power, func(m fenceconfig.Method) bool { return m.Action == fenceconfig.On })
}

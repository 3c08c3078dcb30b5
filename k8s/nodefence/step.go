package nodefence

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/kdump"
)

// step carries out the table of docs/power.md.
func (d *decision) step() Action {
	s := &d.status
	switch {
	case d.Object.Deleting || !d.same():
		return d.leave()
	case d.devicesLie():
		return d.lies()
	case s.Step == Recovery && !d.Node.Ready && (!s.Switched || !d.methods(Recovery)):
		return d.again()
	case s.Step == Recovery && !d.Node.Ready: // the power supplies come first
	case s.Step == Recovery:
		if s.ReadyAt.IsZero() {
			s.ReadyAt = d.Now
			return d.update("the Node is Ready")
		}
	case d.back():
		if a, ok := d.returned(); ok {
			return a
		}
	case d.byAgents():
		s.Proof = &Proof{Kind: ByAgents, Boot: s.Boot, At: d.Now, Heartbeat: d.Node.Heartbeat}
		if s.Step == Isolation && s.Phase == New && len(s.Jobs) == 0 {
			s.Phase, s.DoneAt, s.Message = Done, d.Now, "the agents have proven that the boot has ended: there is nothing to isolate"
		}
		return d.update("the agents have proven it")
	case d.byKdump():
		s.Proof = &Proof{Kind: ByKdump, Boot: s.Boot, At: d.Now, Heartbeat: d.Node.Heartbeat}
		return d.update("its crash kernel has reported that the boot has ended")
	}
	if d.Config == nil || d.Config.Broken {
		return d.rest(time.Time{}, "the node's configuration is missing, or has problems: kubectl fence config check")
	}
	switch s.Phase {
	case New:
		return d.begin()
	case Running:
		return d.run()
	case Done:
		return d.done()
	case Error:
		return d.retry()
	default: // GivenUp
		return d.rest(time.Time{}, "%s", s.Message)
	}
}

// leave ends the fencing of a node whose Node object is gone, or of a NodeFence that is being deleted (row 13).
func (d *decision) leave() Action {
	s := &d.status
	if ok, until := d.quiet(); !ok {
		return d.rest(until, "ends when no Job of %s can run any more", s.Step)
	}
	untouched := !s.Isolated && !s.Switched
	finished := s.Step == Recovery && s.Phase == Done
	switch {
	// Another NodeFence begins for the boot that failed, and ends with the methods of recovery.
	case untouched || finished || d.same() && !d.Node.Ready && !s.Switched && d.Node.Boot != s.Boot, d.unfenceable() && d.Config == nil,
		d.unfenceable() && !d.Config.Broken && !d.methods(Recovery):
		if d.Object.Deleting {
			return Action{Kind: RemoveFinalizer, UID: d.Object.UID, Version: d.Object.Version, Why: "the fencing is over"}
		}
		return Action{Kind: Delete, UID: d.Object.UID, Why: "the Node is gone"}
	case !d.unfenceable():
		return d.rest(time.Time{}, "the storage of a boot that may run is fenced, and stays fenced. Remove the finalizer by hand once you know that the machine is off, and unfence it by hand")
	case !d.methods(Recovery):
		return d.rest(time.Time{}, "the node's configuration is missing, or has problems: what was switched off stays off until the configuration is there, or until you remove the finalizer")
	case s.Step != Recovery:
		return d.enter(Recovery, "it ends")
	}
	switch s.Phase {
	case New:
		return d.begin()
	case Running:
		return d.run()
	case Error:
		return d.retry()
	default:
		return d.rest(time.Time{}, "%s", s.Message)
	}
}

// again ends a recovery whose node has failed once more. Another NodeFence then begins, for the boot that the Node
// shows now (row 12).
func (d *decision) again() Action {
	if ok, until := d.quiet(); !ok {
		return d.rest(until, "the Node is not Ready again: waits until no Job of recovery can run any more")
	}
	if d.held() {
		return d.idle()
	}
	if d.unfenceable() || d.Node.Boot != d.status.Boot {
		return Action{Kind: Delete, UID: d.Object.UID, Why: "the Node is not Ready again"}
	}
	return d.rest(time.Time{}, "the Node is not Ready again")
}

// returned handles a node that is Ready again (rows 4, 6 and 10).
func (d *decision) returned() (Action, bool) {
	s := &d.status
	if d.busy() {
		return d.rest(time.Time{}, "the Node is Ready: waits for the Jobs that run"), true
	}
	if s.Isolated && d.Node.Boot == s.Boot {
		// Otherwise the node would get its storage back while the boot that was cut off still runs.
		switch {
		case s.Step == Isolation && d.methods(Power):
			return d.enter(Power, "the Node is Ready in the boot whose storage is fenced: it needs another boot"), true
		case s.Step == Power && (s.Phase == New || s.Phase == Running || s.Phase == Error):
			return Action{}, false // the step continues
		}
		return d.rest(time.Time{}, "the Node is Ready in the boot whose storage is fenced: reboot it, and it is unfenced then"), true
	}
	if !s.NotReady && s.Phase != Done { // somebody fences a node that is Ready
		return Action{}, false
	}
	return d.enter(Recovery, "the Node is Ready"), true
}

// begin starts a step (row 1).
func (d *decision) begin() Action {
	if d.held() {
		return d.idle()
	}
	if a, held := d.gate(d.status.Step); held {
		return a
	}
	d.status.Phase, d.status.StartedAt, d.status.Message = Running, d.Now, ""
	return d.update(fmt.Sprintf("%s begins, try %d", d.status.Step, d.status.Retries+1))
}

// run continues a step (rows 1, 2 and 3).
func (d *decision) run() Action {
	s := &d.status
	items := d.plan()
	p := d.look(items)
	power, firstOn := fenceconfig.Steps(d.Config.Power)
	off := (p.off || p.cut && confirmed(power[:firstOn])) && s.Proof == nil && d.Node.Boot == s.Boot
	switch {
	case off && d.seen():
		return d.offButSeen()
	// Nothing is switched on before the proof is written: a supply that is on again later no longer shows that it was
	// off. No proof is recorded for a boot that was in dispute before; its fencing ends when another boot shows.
	case off && !d.disputed():
		s.Proof = &Proof{Kind: ByPower, Boot: s.Boot, At: d.Now, Heartbeat: d.Node.Heartbeat}
		return d.update("each supply of the node is off, as its devices report")
	case d.sever(items):
		return d.update("no write of the node lands any more on " + s.Storages[len(s.Storages)-1].Driver)
	case p.failed && d.busy():
		return d.rest(time.Time{}, "waits for the Jobs that run")
	case p.failed:
		s.Phase, s.DoneAt, s.Message = Error, d.Now, "a method failed: "+d.failure()
		return d.update(s.Message)
	case p.complete:
		s.Phase, s.DoneAt, s.Message = Done, d.Now, ""
		if s.Step != Isolation && (firstOn < len(power) || s.Step == Recovery) {
			s.Switched = false
		}
		return d.update(string(s.Step) + " is done")
	case len(p.next) == 0:
		return Action{Kind: Wait, Until: d.Now.Add(d.Cluster.Poll)}
	case d.held():
		return d.idle()
	case d.dumping(p.next[0]):
		return d.rest(d.Now.Add(d.Cluster.Poll), "the node writes a dump: its power is left on until %v after its last message, %v at most",
			max(kdump.Quiet, d.Config.DumpDelay), d.Cluster.MostDump)
	case givesStorage(s.Step, p.next[0].role) && !d.unfenceable():
		return d.rest(time.Time{}, "gives storage back when the boot that it was taken from has ended")
	}
	// Before that, plugs are only asked; and what is off has to be on again.
	if next := p.next[0]; next.role == Main && next.method.Action == fenceconfig.Off {
		if a, held := d.gate(s.Step); held {
			return a
		}
	}
	if a, ok := d.givesBack(p.next[0]); ok {
		return a
	}
	return d.make(p.next)
}

// make creates a Job whose turn it is, or records the one that exists.
func (d *decision) make(next []item) Action {
	s := &d.status
	for _, it := range next {
		j := d.find(it.name)
		if j == nil {
			avoid := s.Failed
			return Action{
				Kind: CreateJob, Name: it.name, Method: it.method, Methods: it.methods, Role: it.role, Timeout: it.timeout,
				NotAfter: d.Now.Add(it.timeout).Truncate(time.Second), Avoid: avoid, Why: it.method.Name,
			}
		}
		// Another replica may have recorded and started it since the NodeFence was read: then this write meets a
		// conflict.
		if end := j.NotAfter.Add(slack); !j.Suspended && !d.Now.After(end) {
			return d.rest(end, "a Job that is not recorded runs: %s", j.Name)
		}
		if !j.Suspended || d.Now.After(j.NotAfter) {
			return Action{Kind: DeleteJob, Name: j.Name, UID: j.UID, Version: j.Version, Why: "the Job was not created by this program, or too long ago"}
		}
		s.Jobs = append(s.Jobs, Entry{
			Name: it.name, UID: j.UID, Method: it.method.Name, Action: it.method.Action, Role: it.role, Step: s.Step, Try: s.Retries,
			State: Recorded, StartedAt: d.Now, NotAfter: j.NotAfter,
			Confirm: asks(it.role) || it.role == Main && it.method.Action == fenceconfig.Off && it.method.Confirm,
			Barrier: it.role == Main && it.method.Storage.Reset,
		})
		if it.role == Main && it.method.Action == fenceconfig.Off {
			s.Isolated = s.Isolated || s.Step == Isolation
			s.Switched = s.Switched || s.Step == Power
		}
	}
	return d.update("records its Job")
}

// failure is the message of the last failed Job of the step.
func (d *decision) failure() string {
	for _, e := range slices.Backward(d.status.Jobs) {
		if e.State == Failed && !e.onlyAsks() && e.Step == d.status.Step && e.Try == d.status.Retries {
			return e.Method + ": " + e.Message
		}
	}
	return "none"
}

// done decides what follows a step (rows 5, 7 and 11).
func (d *decision) done() Action {
	s := &d.status
	switch s.Step {
	case Isolation:
		return d.isolated()
	case Power:
		if !d.hasOn() {
			return d.rest(time.Time{}, "the node is off, and no method switches it on: switch it on by hand")
		}
		wait := max(d.Cluster.Grace, time.Duration(d.Cluster.Retries)*d.Cluster.Poll)
		if end := s.DoneAt.Add(wait); d.Now.Before(end) {
			return d.rest(end, "waits for the Node to become Ready, %v at most", wait)
		}
		s.Phase, s.DoneAt, s.Message = Error, d.Now, "the Node has not become Ready after it was switched on"
		return d.update(s.Message)
	default:
		if end := s.ReadyAt.Add(d.Cluster.Settle); d.Now.Before(end) {
			return d.rest(end, "the Node is Ready: ends when it has been Ready for %v", d.Cluster.Settle)
		}
		return Action{Kind: Delete, UID: d.Object.UID, Why: "the Node is back"}
	}
}

// isolated continues with power_management after a time, or at once if no method can isolate the node.
func (d *decision) isolated() Action {
	s := &d.status
	end := s.StartedAt.Add(d.Cluster.Grace)
	switch {
	case len(d.Config.Power) == 0:
		return d.rest(time.Time{}, "isolated; no method switches the node off or on")
	case (len(d.Config.Isolation) > 0 || d.proven()) && d.Now.Before(end):
		return d.rest(end, "waits %v for the Node to become Ready", d.Cluster.Grace)
	case d.held():
		return d.idle()
	}
	if a, held := d.gate(Power); held {
		return a
	}
	return d.enter(Power, "the Node has not become Ready")
}

// retry tries a step again, on other nodes, when nothing of the try before can still run (rows 8 and 9).
func (d *decision) retry() Action {
	s := &d.status
	if s.Retries >= d.Cluster.Retries {
		s.Phase, s.Message = GivenUp, fmt.Sprintf("gave up after %d tries: %s", s.Retries+1, s.Message)
		return d.update(s.Message)
	}
	ok, until := d.quiet()
	switch {
	case !ok:
		return d.rest(until, "%s", s.Message)
	case d.Now.Before(s.DoneAt.Add(d.Cluster.Poll)):
		return Action{Kind: Wait, Until: s.DoneAt.Add(d.Cluster.Poll)}
	case d.held():
		return d.idle()
	}
	if a, held := d.gate(s.Step); held {
		return a
	}
	s.Retries++
	s.Phase, s.StartedAt, s.DoneAt = New, d.Now, time.Time{}
	return d.update(fmt.Sprintf("tries %s again", s.Step))
}

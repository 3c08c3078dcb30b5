package nodefence

import (
	"strings"
	"time"
)

// disputed reports whether the Node shows that its present boot was called dead, and was heard after that.
func (n *Node) disputed() bool { return n.Boot != "" && n.Disputed == n.Boot }

// disputed reports whether the boot that is fenced is in dispute.
func (d *decision) disputed() bool {
	return d.same() && d.Node.Boot == d.status.Boot && d.Node.disputed()
}

// seen reports whether enough agents see the boot that is fenced.
func (d *decision) seen() bool {
	return d.same() && d.Node.Boot == d.status.Boot && len(d.Node.Seen) > 0
}

// withdrawn reports whether this boot was called dead, and that was disputed later or is disputed now.
//
// Invariant: a dispute withdraws everything that depends on a proof of agents, devices or a crash kernel. A dispute
// that the Node shows (annotation or taint), and agents that see the boot, count only as long as they are there, since
// they may be withdrawn. What is recorded here counts for good. So a boot that was heard is never treated worse than a
// boot of which nothing is known.
func (d *decision) withdrawn() bool {
	return d.disputed() || d.seen() || d.status.Proof != nil && d.status.Proof.Contradicted
}

// proven reports whether the boot has ended, as far as is known.
func (d *decision) proven() bool {
	p := d.status.Proof
	return p != nil && p.Boot == d.status.Boot && !d.withdrawn()
}

// unfenceable reports whether the storage may be given back because the boot from which it was taken has ended. A proof
// is not enough while the kubelet renews its Lease.
func (d *decision) unfenceable() bool {
	another := d.same() && d.Node.Boot != "" && d.Node.Boot != d.status.Boot
	return !d.status.Isolated || another || d.proven() && d.Node.Silent
}

// givesStorage reports whether a Job of this step and role gives storage back.
func givesStorage(step Step, role Role) bool {
	return role == Unfence || step == Recovery && role == Main
}

func (e *Entry) givesStorage() bool { return givesStorage(e.Step, e.Role) }

// byAgents reports whether the recovery believes the agents about this boot, and the NodeFence does not record that
// yet.
func (d *decision) byAgents() bool {
	return d.status.Proof == nil && d.status.Boot != "" && d.Node.Fenced == d.status.Boot && d.Node.Boot == d.status.Boot && !d.withdrawn()
}

// contradict records that the kubelet was heard after the proof, in the same boot. Only the kubelet writes a heartbeat,
// even while it is not Ready. Then a device that reports off lies, or belongs to another node, and a person has to
// look. Agents that were wrong do not discredit the devices: fencing continues as if nothing had been proven.
func (d *decision) contradict() {
	s, p := &d.status, d.status.Proof
	switch {
	case p == nil || p.Contradicted || !d.same() || d.Node.Boot != p.Boot || d.Node.Heartbeat == p.Heartbeat:
		return
	case p.Kind == ByAgents && p.Heartbeat == "": // an earlier version has recorded none
		return
	}
	p.Contradicted, d.changed = true, true
	switch p.Kind {
	case ByAgents:
		s.Message = "the agents had proven that the boot has ended, and its kubelet was heard after that in the same boot: their proof does not count any more"
		if s.Step == Isolation && s.Phase == Done && len(s.Jobs) == 0 { // there was nothing to isolate
			s.Phase, s.StartedAt, s.DoneAt = New, d.Now, time.Time{}
		}
		return
	case ByKdump:
		s.Message = "a message reported that the node's crash kernel ran, and its kubelet was heard after that in the same boot: somebody sends messages in its name"
	default:
		s.Message = "the devices reported that the node was off, and its kubelet was heard after that in the same boot: check which plugs it is on"
	}
	s.Phase, s.DoneAt = GivenUp, d.Now
}

// devicesLie reports whether something contradicts a proof by devices, or by a message in the name of a crash kernel.
func (d *decision) devicesLie() bool {
	p := d.status.Proof
	return p != nil && p.Kind != ByAgents && p.Boot == d.status.Boot && d.withdrawn()
}

// lies stops, and tells people why.
func (d *decision) lies() Action {
	switch {
	case d.status.Proof.Contradicted:
		return d.rest(time.Time{}, "%s", d.status.Message)
	case d.seen():
		return d.offButSeen()
	}
	return d.rest(time.Time{}, "the boot that was proven to have ended was heard after that, as the Node shows: nothing is done for it until another boot "+
		"shows, or a person has looked (the alert FencingControllerDisputed in docs/controller.md)")
}

// offButSeen waits until the agents no longer see the node: their reports may be some seconds old.
func (d *decision) offButSeen() Action {
	return d.rest(time.Time{}, "it was called off or dead, and the agents of %s see that very boot: nothing is done as long as they report that. Check which plugs "+
		"it is on; once you know that the machine is off, remove the annotation fencing-agent.io/sightings from these Nodes, and stop their agents",
		strings.Join(d.Node.Seen, ", "))
}

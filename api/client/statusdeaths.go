package client

import (
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// clockSlack is the most by which the reported start times of one agent process may differ.
const clockSlack = 2 * time.Second

// deathBook holds the latest death of each node that was reported to a callback.
//
// An agent that was restarted has forgotten what it had proven. So a death that is no longer reported is withdrawn only
// if the same agent process had reported it, or if that boot answers. Otherwise it stays valid, as deaths do.
type deathBook struct {
	known map[string]NodeDeath
	said  map[string]bool // reported by the agent of the latest status
	life  agentLife
}

// agentLife is one process of an agent.
type agentLife struct {
	boot  string
	began time.Time // by the wall clock of its status
	heard time.Time // the same start, computed from when the status arrived by this process's clock, which does not jump
}

// is reports whether both are the same process. Either time alone may differ within one process: the wall clock may be
// set, and an old status may be repeated. A process that was restarted differs in both.
func (l agentLife) is(other agentLife) bool {
	near := func(d time.Duration) bool { return d.Abs() < clockSlack }
	return l.boot == other.boot && (near(l.began.Sub(other.began)) || near(l.heard.Sub(other.heard)))
}

// note records a status that arrived at that time, and returns what it changes.
func (b *deathBook) note(st *fencingv1.Status, at time.Time) (proven, withdrawn []NodeDeath) {
	up := -st.GetSelf().GetUptime().AsDuration()
	life := agentLife{st.GetSelf().GetBootNonce(), st.GetTime().AsTime().Add(up), at.Add(up)}
	switch {
	case !life.is(b.life):
		b.said = map[string]bool{}
	case b.life.heard.Before(life.heard): // a status may arrive late, but never early
		life.heard = b.life.heard
	}
	b.life = life
	listed := map[string]bool{}
	for _, n := range st.GetNodes() {
		name := n.GetName()
		listed[name] = true
		was, known := b.known[name]
		is, dead := deathOf(n)
		answers := known && n.GetReachable() && lastBoot(n) == was.Boot
		if known && (!dead && b.said[name] || answers) {
			withdrawn = append(withdrawn, was)
			delete(b.known, name)
			known = false
		}
		answers = dead && n.GetReachable() && lastBoot(n) == is.Boot
		b.said[name] = dead
		if dead && !answers && stands(n, is.Boot) && (!known || was.Boot != is.Boot) {
			proven = append(proven, is)
			b.known[name] = is
		}
	}
	for name := range b.known {
		if !listed[name] { // no longer a member; its name may become another machine's
			delete(b.known, name)
		}
	}
	return proven, withdrawn
}

// deathOf returns the death that a status names. It is not usable without a boot, which means that this agent has never
// met the node.
func deathOf(n *fencingv1.NodeStatus) (NodeDeath, bool) {
	d := n.GetDeath()
	if d.GetBootNonce() == "" || d.GetProof() == fencingv1.Proof_PROOF_UNSPECIFIED {
		return NodeDeath{}, false
	}
	return NodeDeath{Node: n.GetName(), Boot: d.GetBootNonce(), Proof: d.GetProof(), At: d.GetTime().AsTime()}, true
}

package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// decide ends the reading part of a round: pods (if there is a taint), Node, reporters and Lease are known, in this
// order.
func (m *Machine) decide(now time.Time, l Lease) {
	m.believed = m.verdict.Believed
	m.dispute(now, l)
	if m.believed {
		m.remember()
	}
	if m.note(now, l) {
		return
	}
	boot, isDisputed := BootOf(m.node.Taint)
	switch {
	case !m.node.Tainted:
		m.untainted(now, l)
	case m.node.Boot == "":
		m.hold(now, Held, "the Node shows no bootID")
	case boot != m.node.Boot:
		m.returning(now, l, boot)
	case isDisputed:
		m.hold(now, InDispute, "the taint says so: take it off, and the annotation "+NoteKey+", when you know that nothing runs there twice")
	default:
		m.tainted(now, l)
	}
}

// remember keeps those of the reporters that still count, and fills up with others: few, since all of them are read
// again in each round.
func (m *Machine) remember() {
	most := max(MostReporters, m.verdict.Need)
	kept := slices.DeleteFunc(m.reporters, func(n string) bool { return !slices.Contains(m.verdict.Reporters, n) })
	for _, n := range m.verdict.Reporters {
		if !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	m.reporters = kept[:min(len(kept), most)]
}

// dispute remembers what shows that the boot may run: a Lease that is renewed after the proof was taken up, a Node that
// its kubelet has written since, a reporter that takes its word back, or agents that go on seeing a boot that is proven dead.
func (m *Machine) dispute(now time.Time, l Lease) {
	if l.Version != m.version {
		m.version, m.leaseAt = l.Version, now
	}
	if m.believed && m.lease == "" && l.Exists {
		m.lease, m.heartbeat, m.unknown = l.Version, m.node.Heartbeat, false
	}
	if len(m.verdict.Seen) == 0 {
		m.sighted = time.Time{}
	} else if m.sighted.IsZero() {
		m.sighted = now
	}
	text := ""
	switch {
	case !m.sighted.IsZero() && now.Sub(m.sighted) > seenLong:
		text = m.verdict.Missing
	case m.lease != "" && m.spoke():
		text = "its kubelet has written its Node after the proof"
	case m.lease != "" && l.Exists && l.Version != m.lease:
		text = "its Lease was renewed after the proof"
	case m.lease != "" && len(m.verdict.Withdrawn) > 0:
		text = m.verdict.Missing
	}
	if text != "" && m.refused.IsZero() {
		m.refused, m.why = now, text
	}
}

// spoke reports whether the kubelet has written Ready since the proof was taken up. It writes that where its Lease
// cannot be renewed, too, if rarely. A new boot shows in the same patch.
func (m *Machine) spoke() bool {
	m.unknown = m.unknown || m.node.Unknown
	return m.unknown && m.node.Ready || m.heartbeat != "" && m.node.Heartbeat != "" && m.node.Heartbeat != m.heartbeat
}

// note keeps what disputes a boot in an annotation of the Node: a replica that starts has not seen it. It reports
// whether the round is for that. It is written at once, before it is known whether a new boot has renewed the Lease: it
// names the boot, and says nothing of another.
func (m *Machine) note(now time.Time, l Lease) bool {
	there := m.node.Note != "" && m.node.Note == m.node.Boot
	if m.noted && !there { // a person has taken it off: what was seen before does not count any more
		uid, boot := m.uid, m.boot
		m.forget()
		m.uid, m.boot, m.believed = uid, boot, m.verdict.Believed
		m.dispute(now, l)
	}
	if m.noted = there; there && m.refused.IsZero() {
		m.refused, m.why = now, "this boot was called dead, and was heard after that"
	}
	skip := m.skip
	m.skip, m.unnoted = false, skip
	wrong := m.node.Note != "" && m.node.Boot != "" && !there
	switch {
	case m.settings.DryRun || skip:
		return false
	case !m.refused.IsZero() && m.node.Boot != "" && !there:
		if m.state.set(Held, m.why); !m.node.Tainted {
			m.state.set(InDispute, m.why+noteHint)
		}
		m.todo = []Request{{Kind: SetNote, UID: m.node.UID, Version: m.node.Version, Value: m.node.Boot}}
	case wrong && !m.node.Tainted: // it is of a boot that has ended
		m.todo = []Request{{Kind: SetNote, UID: m.node.UID, Version: m.node.Version}}
	default:
		return false
	}
	m.sleep(now, 0)
	return true
}

// watched reports whether the Lease has stayed as it is for as long as a kubelet takes to renew it. renewTime is by the
// kubelet's clock: a clock that is behind writes Leases that have run out. A Ready that is Unknown cannot replace the watch:
// kube-controller-manager has watched the Lease by its own clock, but a kubelet that renews it again and may not patch
// its Node leaves Ready as it is. Nor can the watch replace a Lease that has run out: a kubelet whose API server dies is
// silent for two timeouts more (docs/adr/0029).
func (m *Machine) watched(l Lease) bool {
	return m.looked.Sub(m.leaseAt) >= l.renewal()
}

func (m *Machine) untilWatched(now time.Time, l Lease) time.Duration {
	return max(shortPause, min(pause, m.leaseAt.Add(l.renewal()).Sub(now)))
}

// untainted is a Node on which nothing was done for its present boot.
func (m *Machine) untainted(now time.Time, l Lease) {
	m.barrier = time.Time{}
	if m.begin(now, l, m.believed) {
		m.state.set(Proven, "sets the barrier")
		m.todo = []Request{{Kind: SetTaint, UID: m.node.UID, Version: m.node.Version, Value: Fenced(m.node.Boot)}}
	}
}

const noteHint = ": nothing is done for it while the annotation " + NoteKey + " is on the Node"

// begin reports whether everything that the barrier needs is so. If not, begin has said what is awaited.
func (m *Machine) begin(now time.Time, l Lease, believed bool) bool {
	switch {
	case !believed:
		m.pace.End(m.name)
		switch {
		case m.noted:
			m.hold(now, InDispute, m.why+noteHint)
		case m.verdict.Named == 0 && len(m.verdict.Seen) == 0 && m.refused.IsZero():
			m.rest(Watching, "nobody calls this boot dead")
		default:
			m.hold(now, Unproven, m.verdict.Missing)
		}
	case m.noted:
		m.hold(now, InDispute, m.why+noteHint)
	case !m.refused.IsZero():
		m.hold(now, InDispute, m.why+": nothing was done")
	case m.node.Leaving:
		m.hold(now, Held, "the Node is being removed")
	case !l.Exists:
		m.hold(now, Held, "the Node has no Lease: nothing shows that its kubelet is silent")
	case !l.over(now):
		m.state.set(Proven, "waits until the Lease has run out")
		m.sleep(now, max(shortPause, min(pause, l.Renewed.Add(l.Duration).Sub(now))))
	case !m.watched(l):
		m.state.set(Proven, "watches whether the Lease is renewed: the kubelet's clock may be behind")
		m.sleep(now, m.untilWatched(now, l))
	case m.settings.DryRun:
		m.hold(now, WouldAct, fmt.Sprintf("dryRun: would set %s=%s and delete its pods; named by %s", TaintKey, Fenced(m.node.Boot), strings.Join(m.verdict.Reporters, ", ")))
	default:
		v := m.pace.Begin(m.name, storm.Group(m.group), now)
		if !v.Allowed {
			m.state.Held = v.Reason
			m.state.set(Proven, v.Text)
			m.lookBy = now.Add(longPause)
			m.sleep(now, pause)
			if v.Reason == storm.TooManyDead {
				m.sleep(now, mediumPause) // until a person has looked
			}
		}
		return v.Allowed
	}
	return false
}

// tainted is a Node whose barrier stands, and which shows no other boot.
func (m *Machine) tainted(now time.Time, l Lease) {
	if m.barrier.IsZero() {
		m.barrier, m.progress = now, now
	}
	if !m.refused.IsZero() || l.Fresh(now) {
		m.stop(now)
		return
	}
	switch {
	case !m.believed:
		m.hold(now, Held, "no longer believed: "+m.verdict.Missing)
	case !l.Exists:
		m.hold(now, Held, "the Node has no Lease: nothing shows that its kubelet is silent")
	case !l.over(now):
		// It is as it was: by the clock of the replica that set the taint it has run out.
		m.state.set(Draining, "the barrier is set; waits until the Lease has run out")
		m.sleep(now, pause)
	case !m.watched(l):
		m.state.set(Draining, "the barrier is set; watches whether the Lease is renewed")
		m.sleep(now, m.untilWatched(now, l))
	case m.settings.DryRun:
		m.hold(now, WouldAct, "dryRun: the taint is there, its pods would be deleted")
	case now.Sub(m.barrier) < m.settings.Settle:
		m.state.set(Draining, "the barrier is set")
		m.sleep(now, m.settings.Settle-now.Sub(m.barrier))
	default:
		m.drain(now)
	}
}

// stop ends the deletions for this boot. A new boot renews the Lease before it shows in the Node, so the taint says
// nothing yet; but nothing is deleted either. The annotation does ([Machine.note]); where that cannot be written, the taint
// has to, since storage and NodeFences act on it: for a new boot it comes off as it would have.
func (m *Machine) stop(now time.Time) {
	if m.refused.IsZero() {
		m.refused, m.why = now, "its Lease was renewed after the proof"
	}
	m.pace.End(m.name)
	if !m.unnoted && now.Sub(m.refused) < disputeAfter || m.settings.DryRun {
		m.state.set(Held, m.why)
		m.sleep(now, pause)
		return
	}
	m.state.set(InDispute, m.why)
	m.todo = []Request{{Kind: SetTaint, UID: m.node.UID, Version: m.node.Version, Value: Disputed(m.node.Boot)}}
}

// drain deletes what the taint has evicted.
func (m *Machine) drain(now time.Time) {
	var ready, waiting []Pod
	excluded, finalized := 0, 0
	for _, p := range m.pods {
		switch {
		case p.Tolerates:
		case p.Excluded:
			excluded++
		case p.Forced:
			finalized++
		case p.Deleting:
			ready = append(ready, p)
		default:
			waiting = append(waiting, p)
		}
	}
	if len(waiting) != m.awaited {
		m.awaited, m.progress = len(waiting), now
	}
	if len(waiting) == 0 {
		m.pace.End(m.name)
	} else if now.Sub(m.progress) > evictionPatience {
		ready, waiting = append(ready, waiting...), nil // nobody evicts by taint here
	}
	m.state.Left = len(ready) + len(waiting)
	m.state.Finalized = finalized
	switch {
	case m.state.Left > 0:
		m.state.set(Draining, fmt.Sprintf("%d pods left, %d of them not evicted yet", m.state.Left, len(waiting)))
		m.sleep(now, shortPause)
	case finalized > 0:
		m.state.set(Draining, fmt.Sprintf("%d pods are held by finalizers", finalized))
		m.sleep(now, pause)
	default:
		text := "its pods are gone"
		if excluded > 0 {
			text += fmt.Sprintf(", but for %d that are excluded", excluded)
		}
		text += "; the taint stays until the node is back in another boot"
		m.state.set(Released, text)
		m.sleep(now, longPause)
	}
	m.todo = nil
	// What cannot be deleted must not keep the others: a webhook that times out takes longer than a look is young.
	slices.SortStableFunc(ready, func(a, b Pod) int { return m.refusals[a.UID] - m.refusals[b.UID] })
	for _, p := range ready {
		m.todo = append(m.todo, Request{Kind: DeletePod, Pod: p})
	}
}

// returning is a Node that was tainted for one boot and shows another.
func (m *Machine) returning(now time.Time, l Lease, past string) {
	m.pace.End(m.name)
	if m.believed { // and is dead again
		if m.begin(now, l, true) {
			m.todo = []Request{{Kind: SetTaint, UID: m.node.UID, Version: m.node.Version, Value: Fenced(m.node.Boot)}}
		}
		return
	}
	left := 0
	for _, p := range m.pods {
		if !p.Tolerates {
			left++
		}
	}
	m.state.Left = left
	ready := m.node.Ready && l.Exists && !l.over(now)
	if left > 0 || !ready {
		m.returned = time.Time{}
	} else if m.returned.IsZero() {
		m.returned = now
	}
	switch {
	case left > 0:
		m.hold(now, Returning, fmt.Sprintf("boot %s has come after %s; %d pods from before are left", m.node.Boot, past, left))
	case !ready:
		m.hold(now, Returning, fmt.Sprintf("boot %s has come after %s; it is not Ready yet", m.node.Boot, past))
	case now.Sub(m.returned) < returnSettle:
		m.state.set(Returning, fmt.Sprintf("boot %s has come after %s; it is watched for a moment", m.node.Boot, past))
		m.sleep(now, min(pause, returnSettle-now.Sub(m.returned)))
	case m.settings.DryRun:
		m.hold(now, WouldAct, "dryRun: would take the taint off")
	default:
		m.state.set(Returning, "the taint is taken off")
		m.todo = []Request{{Kind: RemoveTaint, UID: m.node.UID, Version: m.node.Version}}
	}
}

// hold tells what is awaited, and looks again after a while.
func (m *Machine) hold(now time.Time, p Phase, text string) {
	if p == InDispute || p == Held {
		m.pace.End(m.name)
	}
	m.state.set(p, text)
	switch p {
	case InDispute, WouldAct:
		m.sleep(now, longPause)
	case Unproven:
		m.sleep(now, mediumPause)
	default:
		m.sleep(now, pause)
	}
}

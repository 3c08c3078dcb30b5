package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// decide ends the reading part of a round: pods (if there is a taint), Node, reporters and Lease are known, and were
// read in this order.
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
		m.hold(now, InDispute, "the taint shows a dispute: remove it, and the annotation "+NoteKey+", when you know that nothing runs there twice")
	default:
		m.tainted(now, l)
	}
}

// remember keeps the earlier reporters that still count, and adds a few others. They are few because all of them are
// read again in each round.
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

// dispute records what shows that the boot may run. That is a Lease that is renewed after the proof, a Node that its
// kubelet has written since the proof, a reporter that takes its report back, or agents that still see a boot that is
// proven dead.
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

// spoke reports whether the kubelet has written Ready since the proof was recorded. A kubelet that cannot renew its
// Lease still writes it, if rarely. A new boot shows in the same patch.
func (m *Machine) spoke() bool {
	m.unknown = m.unknown || m.node.Unknown
	return m.unknown && m.node.Ready || m.heartbeat != "" && m.node.Heartbeat != "" && m.node.Heartbeat != m.heartbeat
}

// note keeps what disputes a boot in an annotation of the Node, for replicas that have not seen it. It reports whether
// this round is used for that. The annotation is written at once, before it is known whether a new boot has renewed the
// Lease: it names the boot, and means nothing for another.
func (m *Machine) note(now time.Time, l Lease) bool {
	there := m.node.Note != "" && m.node.Note == m.node.Boot
	if m.noted && !there { // a person has removed it: what was seen before does not count any more
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
	case wrong && !m.node.Tainted: // it names a boot that has ended
		m.todo = []Request{{Kind: SetNote, UID: m.node.UID, Version: m.node.Version}}
	default:
		return false
	}
	m.sleep(now, 0)
	return true
}

// watched reports whether the Lease has stayed unchanged for as long as a kubelet needs to renew it. renewTime is by
// the kubelet's clock, and a clock that is behind writes Leases that have run out.
//
// A Ready that is Unknown cannot replace the watch. kube-controller-manager has watched the Lease by its own clock, but
// a kubelet that renews it again and may not patch its Node leaves Ready unchanged. Nor can the watch replace a Lease
// that has run out: a kubelet whose API server dies is silent for two more timeouts (docs/adr/0029).
func (m *Machine) watched(l Lease) bool {
	return m.looked.Sub(m.leaseAt) >= l.renewal()
}

func (m *Machine) untilWatched(now time.Time, l Lease) time.Duration {
	return max(shortPause, min(pause, m.leaseAt.Add(l.renewal()).Sub(now)))
}

// untainted handles a Node on which nothing was done for its present boot.
func (m *Machine) untainted(now time.Time, l Lease) {
	m.barrier = time.Time{}
	if m.begin(now, l, m.believed) {
		m.state.set(Proven, "sets the barrier")
		m.todo = []Request{{Kind: SetTaint, UID: m.node.UID, Version: m.node.Version, Value: Fenced(m.node.Boot)}}
	}
}

const noteHint = ": nothing is done for it while the annotation " + NoteKey + " is on the Node"

// begin reports whether every condition of the barrier is fulfilled. If not, begin has set what is awaited.
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

// tainted handles a Node that has the barrier, and shows no other boot.
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
		// This is not a dispute: by the clock of the replica that set the taint the Lease has run out.
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

// stop ends the deletions for this boot. A new boot renews its Lease before it shows in the Node, so the taint is not
// changed yet; but nothing is deleted either. The annotation shows the dispute ([Machine.note]). Where it cannot be
// written, the taint has to show it, since storage and NodeFences act on it. For a new boot the taint is removed as
// usual.
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

// drain deletes the pods that the taint has evicted.
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
		ready, waiting = append(ready, waiting...), nil // there is no eviction by taint in this cluster
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
			text += fmt.Sprintf(", except for %d that are excluded", excluded)
		}
		text += "; the taint stays until the node is back in another boot"
		m.state.set(Released, text)
		m.sleep(now, longPause)
	}
	m.todo = nil
	// A pod that cannot be deleted must not keep the others: a webhook that times out takes longer than a read of the
	// Lease is valid.
	slices.SortStableFunc(ready, func(a, b Pod) int { return m.refusals[a.UID] - m.refusals[b.UID] })
	for _, p := range ready {
		m.todo = append(m.todo, Request{Kind: DeletePod, Pod: p})
	}
}

// returning handles a Node that was tainted for one boot and shows another.
func (m *Machine) returning(now time.Time, l Lease, past string) {
	m.pace.End(m.name)
	if m.believed { // it is dead again
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
		m.hold(now, WouldAct, "dryRun: would remove the taint")
	default:
		m.state.set(Returning, "the taint is being removed")
		m.todo = []Request{{Kind: RemoveTaint, UID: m.node.UID, Version: m.node.Version}}
	}
}

// hold shows what is awaited, and looks again after a while.
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

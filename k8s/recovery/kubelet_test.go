package recovery

import (
	"fmt"
	"slices"
	"time"
)

// reaches reports whether the kubelet reaches an API server: there is a way to one, and its connection is not to a dead
// one.
func (n *simNode) reaches() bool { return n.api && !n.stuck }

// heartbeat renews the Lease as kubelets do (k8s.io/component-helpers/apimachinery/lease): a quarter of its duration
// after the last time and up to 4 % later. Each request has a timeout. After a failure it tries again at once, and
// after the second one on another connection. After five failures it pauses.
func (w *world) heartbeat(n *simNode) {
	if !n.stuckAt.IsZero() && !w.now.Before(n.stuckAt) {
		n.stuck, n.stuckAt = true, time.Time{}
		w.log("the API server that %s is connected to dies", n.name)
	}
	if n.attempt.IsZero() {
		if w.now.Before(n.nextRenewal) {
			return
		}
		n.attempt = w.now
	}
	if n.reaches() {
		n.renewed, n.leaseVersion, n.attempt, n.failures = w.now, w.bump(), time.Time{}, 0
		n.nextRenewal = w.now.Add(renewEvery + w.span(0, renewEvery/25) + w.span(0, 300*time.Millisecond))
		return
	}
	if w.now.Sub(n.attempt) < heartbeatTimeout {
		return
	}
	n.attempt, n.failures = w.now, n.failures+1
	if n.failures > 1 {
		n.stuck = false
	}
	if n.failures > 5 {
		n.attempt, n.nextRenewal = time.Time{}, w.now.Add(w.span(50*time.Millisecond, 1750*time.Millisecond))
	}
}

// kubelet is one tick of a node that is on.
func (w *world) kubelet(n *simNode) {
	w.heartbeat(n)
	w.starts(n)
	if n.reaches() && n.listed && w.r.IntN(4) == 0 { // its watch shows the taint
		n.seenTaint = n.exists && n.tainted
	}
	w.runs(n)
	for _, c := range slices.Clone(w.running) {
		if c.node != n.name {
			continue
		}
		p := w.pods[c.uid]
		if !n.reaches() && c.killAt.IsZero() {
			continue
		}
		switch {
		case p == nil && c.killAt.IsZero(): // its object is gone: two seconds of grace
			c.killAt = w.now.Add(2 * time.Second)
		case p != nil && p.deleting && c.killAt.IsZero():
			c.killAt = w.now.Add(w.span(w.grace, max(w.grace, 5*time.Second)))
		case !c.killAt.IsZero() && !w.now.Before(c.killAt):
			w.running = slices.DeleteFunc(w.running, func(o *container) bool { return o == c })
			w.log("container of db-%d (%d) ends on %s", c.ordinal, c.uid, c.node)
		}
	}
	for _, p := range w.podsOf(n.name) {
		alive := slices.ContainsFunc(w.running, func(c *container) bool { return c.uid == p.uid })
		known := n.knows[p.uid] || n.started
		// It removes from the API the pods that it has ended, and those that it has rejected and reported.
		reported := p.failedAt.IsZero() || w.now.After(p.failedAt)
		if n.reaches() && known && p.deleting && !alive && reported && !p.finalizer {
			w.remove(p, "kubelet "+n.name)
		}
	}
}

// starts does what a kubelet does in the first seconds of a boot.
func (w *world) starts(n *simNode) {
	if !n.reaches() {
		d := tick // nothing goes on without the API server
		n.tNode, n.tPods, n.tStatus, n.tStart = later(n.listed, n.tNode, d), later(n.podsListed, n.tPods, d), n.tStatus.Add(d), n.tStart.Add(d)
		return
	}
	if !n.listed && !w.now.Before(n.tNode) {
		n.listed, n.seenTaint = true, n.exists && n.tainted
	}
	if n.listed && !n.patched && !w.now.Before(n.tNode.Add(100*time.Millisecond)) {
		n.patched = true
		if !n.exists {
			n.exists, n.uid, n.tainted, n.taint, n.boot, n.note = true, w.bump(), false, "", "", ""
			w.log("Node %s is made again", n.name)
		}
		if n.refusesPatch {
			w.log("%s may not patch its Node", n.name)
		} else {
			n.boot, n.ready, n.version, n.heartbeat = n.real, "True", w.bump(), w.rv
		}
	}
	if !n.podsListed && n.listed && !w.now.Before(n.tPods) {
		n.podsListed = true
		for _, p := range w.podsOf(n.name) {
			n.found = append(n.found, p.uid)
		}
	}
	if n.podsListed && !n.statusPatched && !w.now.Before(n.tStatus) {
		n.statusPatched = true
		for _, uid := range n.found {
			if p := w.pods[uid]; p != nil {
				p.version = w.bump()
			}
		}
	}
	if n.statusPatched && !n.started && !w.now.Before(n.tStart) {
		n.started = true
		for _, uid := range n.found {
			w.admit(n, uid)
		}
	}
}

func later(done bool, at time.Time, d time.Duration) time.Time {
	if done {
		return at
	}
	return at.Add(d)
}

// admit starts a pod of the earlier boot, unless the kubelet sees the taint. Its object may be gone for a moment.
func (w *world) admit(n *simNode, uid int) {
	p := w.pods[uid]
	if p == nil {
		if p = w.ghosts[uid]; p == nil || w.now.Sub(p.removed) > 900*time.Millisecond {
			return
		}
	}
	n.knows[uid] = true
	if n.seenTaint && !p.tolerates {
		p.failedAt = w.now.Add(8 * time.Second)
		w.log("%s rejects db-%d (%d)", n.name, p.ordinal, uid)
		return
	}
	w.start(n, p)
}

func (w *world) start(n *simNode, p *simPod) {
	w.running = append(w.running, &container{ordinal: p.ordinal, uid: p.uid, node: n.name, boot: n.real})
	p.version = w.bump()
	w.log("container of db-%d (%d) starts on %s", p.ordinal, p.uid, n.name)
}

// runs starts pods that are scheduled to a node that is up.
func (w *world) runs(n *simNode) {
	if !n.reaches() || !n.started {
		return
	}
	for _, p := range w.podsOf(n.name) {
		if n.knows[p.uid] || slices.Contains(n.found, p.uid) || p.deleting || n.seenTaint && !p.tolerates || w.attached[p.ordinal] != n.name || !w.chance(1.5) {
			continue
		}
		n.knows[p.uid] = true
		w.start(n, p)
	}
}

func (w *world) podsOf(node string) []*simPod {
	var list []*simPod
	for _, p := range w.pods {
		if p.node == node {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *simPod) int { return a.uid - b.uid })
	return list
}

func (w *world) remove(p *simPod, by string) {
	p.removed = w.now
	delete(w.pods, p.uid)
	w.ghosts[p.uid] = p
	w.log("db-%d (%d) removed by %s", p.ordinal, p.uid, by)
}

// manager acts for the controllers of Kubernetes: StatefulSet, scheduler, eviction by taint, node lifecycle, attach and
// detach, and the garbage collection of pods.
func (w *world) manager() {
	for _, n := range w.nodes {
		if w.kcm && n.exists && n.ready == "True" && w.now.Sub(n.renewed) > leaseDuration+2*time.Second {
			n.ready, n.version = "Unknown", w.bump()
		}
		if n.exists && n.ready == "Unknown" && n.on && n.reaches() && n.patched && !n.refusesPatch {
			n.ready, n.version, n.heartbeat = "True", w.bump(), w.rv
		}
	}
	for o := range w.ordinals {
		w.set(o)
	}
	if w.kcm {
		w.evictions()
	}
}

func (w *world) byOrdinal(o int) *simPod {
	for _, p := range w.pods {
		if p.ordinal == o {
			return p
		}
	}
	return nil
}

func (w *world) nodeNamed(name string) *simNode {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// set acts for the StatefulSet controller, the scheduler and the attacher for one ordinal.
func (w *world) set(o int) {
	p := w.byOrdinal(o)
	if p == nil {
		if w.kcm && w.chance(4) {
			w.id++
			w.pods[w.id] = &simPod{uid: w.id, version: w.bump(), ordinal: o, finalizer: w.r.IntN(40) == 0}
		}
		return
	}
	if p.node == "" {
		n := w.nodes[w.r.IntN(len(w.nodes))]
		if n.exists && n.ready == "True" && !n.tainted && w.chance(6) {
			p.node, p.version = n.name, w.bump()
			w.log("db-%d (%d) scheduled to %s", o, p.uid, n.name)
		}
		return
	}
	at := w.attached[o]
	if at == p.node || !w.kcm {
		return
	}
	from := w.nodeNamed(at)
	using := slices.ContainsFunc(w.running, func(c *container) bool { return c.ordinal == o && c.node == at })
	switch {
	case from == nil || !from.exists:
	case from.tainted: // forced, whatever runs there
	case from.on && from.reaches() && !using:
	default:
		return
	}
	if using {
		w.problem("the volume of db-%d is taken from %s, where its container runs", o, at)
	}
	w.attached[o] = p.node
}

// evictions deletes pods as taint eviction does, by name and late, and as PodGC does.
func (w *world) evictions() {
	for o := range w.ordinals {
		p := w.byOrdinal(o)
		if p == nil {
			continue
		}
		n := w.nodeNamed(p.node)
		if n != nil && n.exists && n.tainted && !p.tolerates && !p.deleting {
			if _, queued := w.evict[o]; !queued {
				w.evict[o] = w.now.Add(w.span(0, 3*time.Second))
			}
		}
		if at, queued := w.evict[o]; queued && !w.now.Before(at) {
			delete(w.evict, o)
			p.deleting, p.version = true, w.bump()
			w.log("db-%d (%d) evicted", o, p.uid)
			if p.node == "" { // nothing runs
				w.remove(p, "the API server")
			}
			continue
		}
		// PodGC looks every 20 seconds.
		if n != nil && w.chance(0.05) {
			if n.exists && n.tainted && p.deleting && n.ready != "True" && !p.finalizer {
				w.remove(p, "PodGC")
			} else if !n.exists && w.now.Sub(n.missing) > 5*time.Second {
				w.remove(p, "PodGC, of no Node")
			}
		}
		if p.finalizer && w.chance(0.05) || p.finalizer && !w.faults {
			p.finalizer, p.version = false, w.bump()
			if p.forced {
				w.remove(p, "its finalizer")
			}
		}
	}
}

// look is the oracle: no two containers of one ordinal may run, wherever they are and whatever their objects show.
func (w *world) look() {
	by := map[int]*container{}
	for _, c := range w.running {
		if o := by[c.ordinal]; o != nil {
			w.problem("two containers of db-%d run: %d on %s, %d on %s", c.ordinal, o.uid, o.node, c.uid, c.node)
		}
		by[c.ordinal] = c
	}
	for uid, p := range w.ghosts {
		if w.now.Sub(p.removed) > 5*time.Second {
			delete(w.ghosts, uid)
		}
	}
}

func (w *world) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.log("WRONG: %s", text)
	w.problems = append(w.problems, text)
}

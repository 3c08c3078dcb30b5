package agent

import (
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

const (
	// sightingLook is the time between two checks of what there is to report.
	sightingLook = time.Second
	// sightingSteady is how long something has to be true before it is reported.
	sightingSteady = 5 * time.Second
	// sightingPause is the least time between two writes of changes, however often there are changes.
	sightingPause = 10 * time.Second
	// sightingTakeover is how long an agent that has just started leaves the previous agent's report in place: it does
	// not know enough yet to report the same. Controllers forget a report if it is not repeated.
	sightingTakeover = 30 * time.Second
	// sightingSpeakers is about how many of the agents that count each other report on slots: two reports are needed.
	sightingSpeakers = 5
)

// kubeSightings writes reasons against fencing a node by its devices to this node's Node, or reports them to the
// controller that the agent follows (docs/adr/0061, 0065). While there is no reason, it writes nothing. A nil
// *kubeSightings does nothing.
//
// Bound: one write a minute while there is something to report, and one in ten seconds while the report changes.
type kubeSightings struct {
	annotation nodeWriter
	boot       string

	// The loop owns the rest.
	began, looked, wrote boottime.Instant
	spoke                bool
	said                 sightings.Sighting
	starves              boottime.Instant            // since when the node starves; 0: it does not
	moves, still         map[string]boottime.Instant // since when a slot changes, or does not change, by node
	running              map[string]boottime.Instant // since when a boot runs, by node and boot
	node                 string                      // the name of this node
	unready              atomic.Bool                 // its Node is not Ready; set by the watcher's goroutine
}

// sighted is what the agent sees at one moment.
type sighted struct {
	starves      bool // quorum is lost, and the watchdog is not fed
	moves, still []string
	runs         map[string]string // boots that run although Kubernetes does not hear them, by node
}

func newKubeSightings(w nodeWriter, node, boot string) *kubeSightings {
	return &kubeSightings{annotation: w, node: node, boot: boot, running: map[string]boottime.Instant{}, moves: map[string]boottime.Instant{}, still: map[string]boottime.Instant{}}
}

// seen handles this node's Node, from the watcher's goroutine.
func (k *kubeSightings) seen(s ownnode.State) {
	if k != nil {
		k.unready.Store(s.NotReady)
		k.annotation.Seen(s)
	}
}

// note handles the outcome of a step.
func (k *kubeSightings) note(a *Agent, now boottime.Instant, fx *watchdog.Effects) {
	if k == nil || k.looked != 0 && now.Sub(k.looked) < sightingLook {
		return
	}
	k.looked = now
	k.weigh(now, a.sight(now, fx), a.roster.Size())
}

// sight looks at everything.
func (a *Agent) sight(now boottime.Instant, fx *watchdog.Effects) sighted {
	out := sighted{starves: !fx.Decision.Quorum && a.guard.feeder.State().Status == wdt.Starved, runs: a.running(fx.Fenced)}
	if arb := a.core.Arbiter(); arb != nil {
		writes := func(name string) (moves, still bool) { return arb.PeerWrites(now, name) }
		out.moves, out.still = slotsSeen(a.roster, a.core.NetworkView(), fx.Fenced, writes)
	}
	return out
}

// running returns the boots that run although Kubernetes does not hear them. That is this node, if its Node is not
// Ready. It is also each member that is heard and reports that it is no longer shown its Node or, if the group asks the
// API server, that it does not reach the API server.
func (a *Agent) running(fenced roster.Set) map[string]string {
	out := map[string]string{}
	if k := a.kube.sightings; k.unready.Load() {
		out[k.node] = k.boot
	}
	view, asked := a.core.NetworkView(), false
	if !speaks(view.Counted, a.roster.Self) {
		return out
	}
	lost := map[string]string{}
	for p := range a.roster.Members {
		if p == a.roster.Self || fenced.Has(p) || !view.Seen.Has(p) {
			continue
		}
		st, _ := a.core.Merger().Statement(p)
		switch {
		case st == nil || st.Boot == 0:
		case st.Unheard:
			out[a.roster.Name(p)] = hex64(st.Boot)
		case st.APIReachable:
			asked = true
		default:
			lost[a.roster.Name(p)] = hex64(st.Boot)
		}
	}
	if asked { // otherwise nobody in the group asks the API server, or nobody reaches it
		maps.Copy(out, lost)
	}
	return out
}

// slotsSeen returns the members that no network shows but whose slots keep changing, and the members that a network
// shows but whose slots no longer change. A fenced node is in neither list: its death is proven.
func slotsSeen(r *roster.Roster, view netgossip.View, fenced roster.Set, writes func(name string) (moves, still bool)) (unheard, cutOff []string) {
	if !speaks(view.Counted, r.Self) {
		return nil, nil
	}
	for p := range r.Members {
		if p == r.Self || fenced.Has(p) {
			continue
		}
		moves, still := writes(r.Name(p))
		switch {
		case moves && !view.Seen.Has(p):
			unheard = append(unheard, r.Name(p))
		case still && view.Seen.Has(p):
			cutOff = append(cutOff, r.Name(p))
		}
	}
	return unheard, cutOff
}

// speaks reports whether a node is among the few, of those that count each other, that report on slots. They are
// spread over the list: neighbors in it are often neighbors in a rack.
func speaks(counted roster.Set, self int) bool {
	rank, n := 0, 0
	for p := range counted.All() {
		if n++; p < self {
			rank++
		}
	}
	return n <= sightingSpeakers || rank == 0 || rank*sightingSpeakers/n != (rank-1)*sightingSpeakers/n
}

// weigh reports what has been true for long enough. nodes is how many nodes may report at once if the network fails.
func (k *kubeSightings) weigh(now boottime.Instant, s sighted, nodes int) {
	if k.began == 0 {
		k.began = now
	}
	switch {
	case !s.starves:
		k.starves = 0
	case k.starves == 0:
		k.starves = now
	}
	want := sightings.Sighting{
		Boot: k.boot, QuorumLost: s.starves && now.Sub(k.starves) >= sightingSteady,
		SlotMoves: steady(now, s.moves, k.moves), SlotStill: steady(now, s.still, k.still),
	}
	var names []string
	for node, boot := range s.runs {
		names = append(names, node+" "+boot)
	}
	for _, is := range steady(now, names, k.running) {
		if node, boot, _ := strings.Cut(is, " "); want.Sees == nil {
			want.Sees = map[string]string{node: boot}
		} else {
			want.Sees[node] = boot
		}
	}
	again := sightings.Again
	if _, own := want.Sees[k.node]; own { // a controller relies on that only briefly
		again = sightingPause
	}
	same := want.Same(&k.said)
	switch {
	case !k.spoke && want.Empty() && now.Sub(k.began) < sightingTakeover:
		return
	case k.spoke && (same && (want.Empty() || now.Sub(k.wrote) < again) || !same && now.Sub(k.wrote) < sightingPause):
		return
	}
	k.said, k.wrote, k.spoke = want, now, true
	within := spreadPerNode * time.Duration(nodes)
	if want.Empty() {
		k.annotation.Renew(nil, within) // this also removes what an earlier agent reported
		return
	}
	want.Number = uint64(now / boottime.Instant(time.Millisecond))
	text := sightings.Encode(want)
	k.annotation.Renew(&text, within)
}

// steady are the entries of list that have been in it for long enough, in the order of the list.
func steady(now boottime.Instant, list []string, since map[string]boottime.Instant) (out []string) {
	is := map[string]bool{}
	for _, name := range list {
		is[name] = true
		if since[name] == 0 {
			since[name] = now
		}
		if now.Sub(since[name]) >= sightingSteady {
			out = append(out, name)
		}
	}
	for name := range since {
		if !is[name] {
			delete(since, name)
		}
	}
	return out
}

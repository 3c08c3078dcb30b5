package agent

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// spreadPerNode, times the number of nodes that report the same death, is the time over which they spread their
// reports: a patch of a Node costs the API server some milliseconds.
const spreadPerNode = 10 * time.Millisecond

// kubeDeaths writes to this node's Node which nodes are fenced, or reports them to the controller that the agent
// follows. A reported death means the same as the state NODE_STATE_FENCED, for programs that are not on a node of the
// group. A nil *kubeDeaths does nothing.
//
// After a restart an agent keeps each death that it reported before, until that node is met again or others withdraw
// the death. A death is final. A list that lacks an earlier death withdraws that death.
type kubeDeaths struct {
	annotation nodeWriter
	told       bool // the list is known from the controller, not from the annotation

	mu      sync.Mutex
	former  map[string]deathlist.Death // the report of an earlier agent of this node, by node; nil: the Node was not seen yet
	arrived bool                       // former was filled, and the loop has not handled it yet

	// The loop owns the rest.
	said map[string]deathlist.Death
	own  map[string]bool // of those in said, the deaths that this agent has proven itself
	full bool            // no more deaths fit, and that was logged
}

// nodeWriter writes facts about this node to the place where programs of the cluster look for them; Renew is for values
// that are written again and again.
type nodeWriter interface {
	Want(value *string, within time.Duration)
	Renew(value *string, within time.Duration)
	Seen(s ownnode.State)
}

func newKubeDeaths(w nodeWriter) *kubeDeaths {
	return &kubeDeaths{annotation: w, said: map[string]deathlist.Death{}, own: map[string]bool{}}
}

// seen handles this node's Node, from the watcher's goroutine.
func (k *kubeDeaths) seen(s ownnode.State) {
	if k == nil || k.told { // the controller does not show the Node's other annotations
		return
	}
	k.begin(s)
}

// begin handles the earlier report, the first time only, from any goroutine.
func (k *kubeDeaths) begin(s ownnode.State) {
	if !s.Known {
		return
	}
	k.mu.Lock()
	if k.former == nil {
		k.former, k.arrived = map[string]deathlist.Death{}, true
		// If the old list cannot be read, it is replaced.
		list, _ := deathlist.Decode(s.Annotations[deathlist.Annotation])
		for _, d := range slices.Backward(list) { // the newest death of a node wins
			k.former[d.Node] = d
		}
	}
	k.mu.Unlock()
	k.annotation.Seen(s)
}

// note handles the outcome of a step.
func (k *kubeDeaths) note(a *Agent, now boottime.Instant, fx *watchdog.Effects) {
	if k == nil {
		return
	}
	k.mu.Lock()
	former, ready := k.former, k.former != nil
	changed := k.arrived
	k.arrived = false
	k.mu.Unlock()
	if !ready {
		return // the report of an earlier agent is not known yet, and must not be replaced
	}
	listed := map[string]int{}
	urgent := false
	for p := range a.roster.Members {
		name := a.roster.Name(p)
		listed[name] = p
		d := a.core.Deaths().Of(p)
		if !fx.Fenced.Has(p) || d.Proof == 0 || d.Boot == 0 {
			continue
		}
		delete(former, name)
		if was := k.said[name]; k.own[name] && was.Boot == hex64(d.Boot) && was.Proof == proofWord(d) {
			continue
		}
		k.said[name] = deathlist.Death{Node: name, Boot: hex64(d.Boot), Proof: proofWord(d), At: time.Now().Add(-now.Sub(d.At)), Said: hex64(a.self.boot)}
		k.own[name], changed = true, true
	}
	for name, d := range former {
		if _, there := k.said[name]; !there {
			k.said[name] = d
		}
		delete(former, name)
	}
	for name, d := range k.said {
		p, member := listed[name]
		boot, _ := strconv.ParseUint(d.Boot, 16, 64)
		// This agent may never have met that boot; other nodes have, and withdraw its death.
		taken := member && !k.own[name] && a.core.Deaths().TakenBack(now, p, boot)
		if member && fx.Fenced.Has(p) && k.own[name] || member && !k.own[name] && p != a.roster.Self && !a.core.View().Seen.Has(p) && !taken {
			continue
		}
		// The node was met again. If it runs the boot that was reported dead, that is a contradiction, and every
		// program that acts on the report must stop.
		if st := a.statementOf(p, member); taken || st != 0 && hex64(st) == d.Boot {
			urgent = true
		}
		delete(k.said, name)
		delete(k.own, name)
		changed = true
	}
	if changed {
		k.say(fx.Available.Len(), urgent)
		if full := deathlist.Full(deathlist.Encode(slices.Collect(maps.Values(k.said)))); full != k.full {
			if k.full = full; full {
				a.log.Warn("so many nodes are dead that the oldest deaths no longer fit on this node's Node: delete the Nodes of machines that do not come back",
					"annotation", deathlist.Annotation, "dead", len(k.said))
			}
		}
	}
}

// proofWord is how a proof is annotated. A sentence that others have passed on is not this agent's own finding: a
// reader who counts the agents that found the death must not count this agent.
func proofWord(d watchdog.Death) string {
	if d.Hearsay {
		return "hearsay"
	}
	return d.Proof.String()
}

// statementOf is the boot under which a member was last met.
func (a *Agent) statementOf(p int, member bool) uint64 {
	if !member {
		return 0
	}
	if st, _ := a.core.Merger().Statement(p); st != nil {
		return st.Boot
	}
	return 0
}

// say requests that the present list is written, or the annotation removed.
func (k *kubeDeaths) say(survivors int, urgent bool) {
	within := spreadPerNode * time.Duration(survivors)
	if urgent {
		within = 0
	}
	if len(k.said) == 0 {
		k.annotation.Want(nil, within)
		return
	}
	text := deathlist.Encode(slices.Collect(maps.Values(k.said)))
	k.annotation.Want(&text, within)
}

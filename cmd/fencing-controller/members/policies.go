package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

const (
	policiesEvery  = 10 * time.Second
	policiesSpread = 2 * time.Second // two replicas do not write at the same time again and again
)

// Group is a FencingGroup as the API server has it.
type Group struct {
	grouppolicy.Object
	Version string
	Status  grouppolicy.Status
}

// PolicyStore is the API server, as policies want it.
type PolicyStore interface {
	// Policies reads all FencingGroups, and all NodeGroups where those are read. ErrNotServed: there can be no FencingGroups, and the rest counts.
	Policies(ctx context.Context) (groups []Group, nodeGroups []grouppolicy.Object, err error)
	// WriteStatus replaces the status of a FencingGroup of that version. ErrConflict: it is of another version by now.
	WriteStatus(ctx context.Context, g *Group, s *grouppolicy.Status) error
}

// Policies reads what is said of groups, has the hub show it to their agents, and writes into FencingGroups what those have told. It
// changes no agent's settings: nothing does but its configuration.
type Policies struct {
	Hub    *Hub
	Store  PolicyStore
	Logger *slog.Logger

	said map[string]string // what was logged last, by what it was about
}

// Run works until ctx ends.
func (p *Policies) Run(ctx context.Context) {
	for {
		p.round(ctx)
		if !pause(ctx, policiesEvery+rand.N(policiesSpread)) {
			return
		}
	}
}

func (p *Policies) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	groups, nodeGroups, err := p.Store.Policies(ctx)
	switch {
	case errors.Is(err, ErrNotServed):
		p.say("read", "there are no FencingGroups", err.Error())
	case err != nil:
		p.say("read", "cannot read the policies of groups; the last ones stand", err.Error())
		return
	default:
		p.say("read", "", "")
	}
	objects := make([]grouppolicy.Object, 0, len(groups))
	for i := range groups {
		objects = append(objects, groups[i].Object)
	}
	wanted, idle := grouppolicy.Resolve(objects, nodeGroups)
	p.Hub.policies(wanted)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[name]
		p.say("policy "+name, "something is wrong with the policy of group "+name, strings.Join(w.Problems, "; "))
	}
	for i := range groups {
		g := &groups[i]
		next := p.status(g, wanted, idle)
		if next == nil || next.Equal(&g.Status) {
			continue
		}
		switch err := p.Store.WriteStatus(ctx, g, next); {
		case errors.Is(err, ErrConflict): // the next round reads it again
		case err != nil:
			p.say("write "+g.Name, "the status of FencingGroup "+g.Name+" cannot be written", err.Error())
		default:
			p.say("write "+g.Name, "", "")
		}
	}
}

// status is what a FencingGroup should show; nil: this replica does not know yet.
func (p *Policies) status(g *Group, wanted map[string]grouppolicy.Wanted, idle map[string]string) *grouppolicy.Status {
	if first, is := idle[g.Name]; is {
		return &grouppolicy.Status{Problem: fmt.Sprintf("FencingGroup %s speaks of group %s, too, and counts: delete one of them", first, g.Group())}
	}
	nodes, heard, synced := p.Hub.heard(g.Group())
	// Invariant: who has not read all Nodes writes no status. Else each start of a replica would forget what all agents have told.
	if !synced {
		return nil
	}
	w := wanted[g.Group()]
	if len(nodes) == 0 { // nobody differs where the name is misspelt
		w.Problems = append(slices.Clip(w.Problems), fmt.Sprintf("no Node is of group %q: compare it with the Nodes' label", g.Group()))
	}
	return grouppolicy.Merge(&g.Status, &w, nodes, heard)
}

// say logs a trouble when it is another one.
func (p *Policies) say(about, text, trouble string) {
	if p.said == nil {
		p.said = map[string]string{}
	}
	if p.said[about] == trouble {
		return
	}
	if p.said[about] = trouble; trouble != "" {
		p.Logger.Warn(text, "problem", trouble)
	}
}

// policies takes the policies of all groups.
func (h *Hub) policies(wanted map[string]grouppolicy.Wanted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.wanted
	h.wanted, h.read = wanted, time.Now()
	h.wakeAll(func(s *stream) bool { return was[s.group].Policy != wanted[s.group].Policy })
}

// runs takes with what the agent of a stream runs; nil: it does not say.
func (h *Hub) runs(s *stream, p *fencingv1.GroupPolicy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.runs = true
	if s.running = nil; p != nil {
		s.running = &grouppolicy.Policy{Mode: p.GetMode(), Timeout: time.Duration(p.GetWatchdogTimeoutMs()) * time.Millisecond, OnQuorumLoss: p.GetOnQuorumLoss()}
	}
}

// heard is what the agents of a group that follow this replica say they run with, and the group's Nodes.
//
// Invariant: an entry is of the node that the stream's token is bound to, and of no other.
func (h *Hub) heard(group string) (nodes []string, heard grouppolicy.Heard, synced bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard = grouppolicy.Heard{}
	for node, s := range h.streams {
		if s.group == group && s.runs {
			heard[node] = s.running
		}
	}
	for name, n := range h.nodes {
		if n.Group == group {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes, heard, h.synced
}

// compared counts the agents that follow this replica, of groups that have a policy, by whether they run with it.
func (h *Hub) compared() map[string]map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]map[string]int{}
	for g, w := range h.wanted {
		if !w.IsZero() {
			out[g] = map[string]int{"agree": 0, "differ": 0, "unknown": 0}
		}
	}
	for _, s := range h.streams {
		of := out[s.group]
		switch {
		case of == nil:
		case s.running == nil:
			of["unknown"]++
		case len(grouppolicy.Differ(h.wanted[s.group].Policy, *s.running)) > 0:
			of["differ"]++
		default:
			of["agree"]++
		}
	}
	return out
}

func policyMessage(p grouppolicy.Policy) *fencingv1.GroupPolicy {
	return &fencingv1.GroupPolicy{Mode: p.Mode, WatchdogTimeoutMs: p.Timeout.Milliseconds(), OnQuorumLoss: p.OnQuorumLoss}
}

package grouppolicy

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is the status of a FencingGroup.
type Status struct {
	Nodes   int    `json:"nodes"`             // Nodes of the group
	Agree   int    `json:"agree"`             // whose agents run with the policy
	Differ  int    `json:"differ"`            // whose agents do not
	Unknown int    `json:"unknown"`           // whose agents have not told with what they run
	Problem string `json:"problem,omitempty"` // with the policy itself
	Agents  []Told `json:"agents,omitempty"`  // by the name of the node
}

// Told is with what the agent of a node runs, by its own word.
type Told struct {
	Node         string   `json:"node"`
	Mode         string   `json:"mode,omitempty"`
	Timeout      string   `json:"watchdogTimeout,omitempty"`
	OnQuorumLoss string   `json:"onQuorumLoss,omitempty"`
	Differs      []string `json:"differs,omitempty"`
}

// Heard is what a replica has heard of one node: its agent follows this replica now, and runs with this policy. Nil: the agent does not say, since
// it is older than that.
type Heard map[string]*Policy

// Merge makes the next status. Each replica hears some of the agents, and knows of the others what the status says; so it changes no entry
// but of those that follow it, and takes out nodes that are not of the group any more.
//
// Invariant: an agent that follows another replica, or none for a while, keeps its entry. Else two replicas would write each other's entries away
// for ever.
func Merge(old *Status, want *Wanted, nodes []string, heard Heard) *Status {
	entries := map[string]Told{}
	for _, t := range old.Agents {
		entries[t.Node] = t
	}
	for node, run := range heard {
		if delete(entries, node); run != nil {
			entries[node] = told(node, *run)
		}
	}
	maps.DeleteFunc(entries, func(node string, _ Told) bool { return !slices.Contains(nodes, node) })
	out := &Status{Nodes: len(nodes), Problem: strings.Join(want.Problems, "; ")}
	for _, node := range slices.Sorted(maps.Keys(entries)) {
		t := entries[node]
		t.Differs = Differ(want.Policy, t.policy())
		if len(t.Differs) > 0 {
			out.Differ++
		} else {
			out.Agree++
		}
		out.Agents = append(out.Agents, t)
	}
	out.Unknown = out.Nodes - len(out.Agents)
	return out
}

func told(node string, p Policy) Told {
	t := Told{Node: node}
	for _, l := range lines(p, Policy{}) {
		switch l.key {
		case "mode":
			t.Mode = l.a
		case "watchdog.timeout":
			t.Timeout = l.a
		case "onQuorumLoss":
			t.OnQuorumLoss = l.a
		}
	}
	return t
}

// policy is what an entry says.
func (t *Told) policy() Policy {
	d, _ := time.ParseDuration(t.Timeout) // 0, which is not said, where a person has written something else into it
	return Policy{Mode: t.Mode, Timeout: d, OnQuorumLoss: t.OnQuorumLoss}
}

// Equal reports whether a status says the same.
func (s *Status) Equal(o *Status) bool {
	return s.Nodes == o.Nodes && s.Agree == o.Agree && s.Differ == o.Differ && s.Unknown == o.Unknown && s.Problem == o.Problem &&
		slices.EqualFunc(s.Agents, o.Agents, func(a, b Told) bool {
			return a.Node == b.Node && a.Mode == b.Mode && a.Timeout == b.Timeout && a.OnQuorumLoss == b.OnQuorumLoss && slices.Equal(a.Differs, b.Differs)
		})
}

package belief

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Settings are set by the operator.
type Settings struct {
	MinReporters int      // how many different Nodes have to name a boot; fewer than 2 counts as 2
	Unknown      bool     // one reporter is enough if the condition Ready of the dead node is Unknown
	GroupsOfTwo  []string // in these groups one reporter is enough, while they have two Nodes
}

// Node is what the API server shows about a Node that may be a reporter.
type Node struct {
	Name, Group string
	Boot        string // the boot that it runs now; empty if unknown
	Fresh       bool   // its Lease was renewed within half of its duration
	// Ended is true if the Node's own taint or annotation calls the boot that it shows dead or in dispute
	// (recovery.WordOf). The node may run another boot, whose kubelet renews the Lease but cannot patch the Node.
	Ended  bool
	Deaths []deaths.Death
	Full   bool // its list has no room for more deaths, so a missing death means nothing
}

// Question names the boot of a node that may be dead.
type Question struct {
	Node, Group, Boot string
	GroupSize         int      // the Nodes of the group, including the dead one
	Unknown           bool     // the Node's condition Ready is Unknown; only kube-controller-manager writes that
	Before            []string // the reporters of this boot that counted before
	Seen              []string // the Nodes whose agents see this boot run, if there are enough of them (k8s/storm)
	Power             bool     // the node's devices reported that it had no power, after this boot had begun (k8s/nodefence)
}

// Verdict is the answer to a [Question].
type Verdict struct {
	Believed  bool
	Reporters []string // the reporters that count, sorted
	Named     int      // how many Nodes name it, whether they count or not
	Need      int      // how many reporters are needed
	By        string   // why it is believed: "reporters", "unknown" or "power"
	Missing   string   // what is missing, for people; empty if it is believed
	Seen      []string // the Nodes whose agents see it run; without them it would be believed
	Withdrawn []string // the Nodes that named this boot before and no longer name it
}

// Need returns the number of different Nodes that have to name a boot in a group of this size. A group that looks small
// never needs fewer than two reporters, unless it is a group of two in GroupsOfTwo. A kubelet may set the labels of its
// Node, so otherwise an attacker on one node could turn any group into a group of two.
func (s Settings) Need(group string, size int) int {
	if size == 2 && slices.Contains(s.GroupsOfTwo, group) {
		return 1
	}
	return max(2, min(s.MinReporters, size-1))
}

// Judge decides whether that boot of that node is believed to have ended.
//
// Invariant: a boot that agents see run is never believed dead, whatever devices report. A plug may belong to another
// machine.
func Judge(s Settings, q Question, nodes []Node) Verdict {
	v := judge(s, q, nodes)
	if v.Believed && len(q.Seen) > 0 {
		v.Believed, v.By, v.Seen = false, "", q.Seen
		v.Missing = "the agents of " + strings.Join(q.Seen, ", ") + " see this boot run"
	}
	return v
}

func judge(s Settings, q Question, nodes []Node) Verdict {
	v := Verdict{Need: s.Need(q.Group, q.GroupSize)}
	nodes = distinct(nodes)
	if q.Boot == "" || q.Group == "" {
		for _, n := range nodes {
			if n.Name != q.Node && (q.Boot == "" && n.tells(q.Node) || n.names(q.Node, q.Boot)) {
				v.Named++
			}
		}
		if q.Boot != "" && q.Power { // a node without a group has no reporters that could take it back
			v.Believed, v.By = true, "power"
			return v
		}
		v.Missing = "the Node has no bootID, or no group"
		return v
	}
	stale, strange, told, past, ended := 0, 0, 0, 0, 0
	for _, n := range nodes {
		if n.Name == q.Node {
			continue
		}
		if !n.names(q.Node, q.Boot) {
			if n.Group == q.Group && n.Fresh && !n.Full && slices.Contains(q.Before, n.Name) {
				v.Withdrawn = append(v.Withdrawn, n.Name)
			}
			continue
		}
		v.Named++
		switch {
		case n.Group != q.Group:
			strange++
		case !n.Fresh:
			stale++
		case n.Ended:
			ended++
		// Two Nodes that accuse each other cancel out: neither is believed, and a person looks.
		case accusers(n, nodes) >= v.Need:
		default:
			v.Reporters = append(v.Reporters, n.Name)
			switch {
			case !n.stands(q.Node, q.Boot):
				past++
			case n.wasTold(q.Node, q.Boot):
				told++
			}
		}
	}
	// All agents repeat a death that one of them was told. So any number of them counts as one reporter at most. The
	// source may be an agent that also reports to have found the death itself, so a told death adds nothing to agents
	// that have found it. A report from an earlier boot adds nothing either: all reporters may have been wrong then,
	// and one that lies would be enough to make two.
	voices := max(len(v.Reporters)-past-told, min(1, told))
	switch {
	case len(v.Withdrawn) > 0:
		// An agent still names a dead boot after a restart, and stops when that boot answers (k8s/deaths).
		v.Missing = strings.Join(v.Withdrawn, ", ") + " no longer names this boot"
	case q.Power:
		v.Believed, v.By = true, "power"
	case voices >= v.Need:
		v.Believed, v.By = true, "reporters"
	case voices > 0 && s.Unknown && q.Unknown:
		v.Believed, v.By = true, "unknown"
	default:
		v.Missing = missing(v, stale, strange, ended, told, past)
	}
	return v
}

// missing describes for people what is missing.
func missing(v Verdict, stale, strange, ended, told, past int) string {
	text := fmt.Sprintf("%d of %d Nodes name this boot", len(v.Reporters), v.Need)
	if len(v.Reporters) > 0 {
		text += " (" + strings.Join(v.Reporters, ", ") + ")"
	}
	if past > 0 {
		text += fmt.Sprintf("; %d of them named it in an earlier boot, and not in the boot that they run now", past)
	}
	switch own := len(v.Reporters) - past - told; {
	case told > 0 && own > 0:
		text += fmt.Sprintf("; %d of them were told it, which adds nothing to the %d that have found it", told, own)
	case told > 1:
		text += fmt.Sprintf("; %d of them were told it from outside, and count as one", told)
	}
	if strange > 0 {
		text += fmt.Sprintf("; %d more are of another group", strange)
	}
	if stale > 0 {
		text += fmt.Sprintf("; %d more have no fresh Lease", stale)
	}
	if ended > 0 {
		text += fmt.Sprintf("; %d more show a boot that was called dead", ended)
	}
	if accused := v.Named - strange - stale - ended - len(v.Reporters); accused > 0 {
		text += fmt.Sprintf("; %d more are themselves named dead", accused)
	}
	return text
}

// accusers counts the other Nodes of the group that call n dead, for the boot that it runs. If n shows no boot, a
// report of any boot counts: a Node must not gain by hiding its boot.
func accusers(n Node, nodes []Node) int {
	count := 0
	for _, other := range nodes {
		if other.Name == n.Name || other.Group != n.Group || !other.Fresh {
			continue
		}
		if slices.ContainsFunc(other.Deaths, func(d deaths.Death) bool { return d.Node == n.Name && (n.Boot == "" || d.Boot == n.Boot) }) {
			count++
		}
	}
	return count
}

// tells reports whether n calls the node dead, whatever the boot.
func (n Node) tells(node string) bool {
	return slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node })
}

func (n Node) names(node, boot string) bool {
	return slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node && d.Boot == boot })
}

// stands reports whether n named the death in the boot that n runs now. Suppose that all agents named a death in error
// and took it back. An agent whose node died before that still names it after the restart, until it meets the node.
func (n Node) stands(node, boot string) bool {
	return n.Boot != "" && slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node && d.Boot == boot && d.Said == n.Boot })
}

// wasTold reports whether n has only heard of that death from others.
func (n Node) wasTold(node, boot string) bool {
	return !slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node && d.Boot == boot && !d.Outside() })
}

// distinct sorts by name and drops duplicates: a Node counts once, however often it was read.
func distinct(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.Name == b.Name })
}

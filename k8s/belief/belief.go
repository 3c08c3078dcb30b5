package belief

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Settings are what the operator decides.
type Settings struct {
	MinReporters int      // different Nodes that have to name a boot; fewer than two are two
	Unknown      bool     // one is enough if the dead node's Ready is Unknown
	GroupsOfTwo  []string // in these groups one is enough, while they have two Nodes
}

// Node is what the API server says of a Node that may be a reporter.
type Node struct {
	Name, Group string
	Boot        string // that it runs now; empty if unknown
	Fresh       bool   // its Lease was renewed within half of its duration
	// Ended says that its own taint or note calls the boot that it shows dead or disputed (recovery.WordOf). It may run
	// another one whose kubelet renews the Lease and cannot patch the Node.
	Ended  bool
	Deaths []deaths.Death
	Full   bool // it has no room for more deaths: a missing death says nothing
}

// Question is which boot of which node may be dead.
type Question struct {
	Node, Group, Boot string
	GroupSize         int      // Nodes of the group, the dead one among them
	Unknown           bool     // the Node's condition Ready is Unknown, which only kube-controller-manager writes
	Before            []string // who counted as a reporter of this boot before
	Seen              []string // whose agents say that they see this boot run, if there are enough (k8s/storm)
	Power             bool     // the devices of the node said that it had no power, when this boot had begun (k8s/nodefence)
}

// Verdict is the answer.
type Verdict struct {
	Believed  bool
	Reporters []string // who counts, sorted
	Named     int      // Nodes that name it, whether they count or not
	Need      int      // how many there have to be
	By        string   // why it was believed: "reporters", "unknown" or "power"
	Missing   string   // what is missing, for people; empty if it is believed
	Seen      []string // whose agents see it run: it would be believed without that
	Withdrawn []string // the Nodes that named this boot before, and now say the opposite by no longer naming it
}

// Need is how many different Nodes have to name a boot in a group of this size. Two, whatever the group looks like: a
// kubelet may set the labels of its Node, so an attacker who takes it over can turn any group into a group of two.
func (s Settings) Need(group string, size int) int {
	if size == 2 && slices.Contains(s.GroupsOfTwo, group) {
		return 1
	}
	return max(2, min(s.MinReporters, size-1))
}

// Judge decides whether that boot of that node is believed to have ended.
//
// Invariant: nothing is believed of a boot that agents see run, whatever devices say: a plug may be another machine's.
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
		if q.Boot != "" && q.Power { // without a group there are no reporters who could take it back
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
		// Two that accuse each other cancel out: neither is believed, and a person looks.
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
	// All agents repeat what one of them was told: that is one voice, however many repeat it. It may be the voice of
	// an agent that also says that it has found the death itself, so it adds nothing to such agents. Nor does what
	// was said in an earlier boot: all may have been wrong then, and with one that lies it would be two.
	voices := max(len(v.Reporters)-past-told, min(1, told))
	switch {
	case len(v.Withdrawn) > 0:
		// Agents go on naming a dead boot over restarts, and stop when it answers (k8s/deaths).
		v.Missing = strings.Join(v.Withdrawn, ", ") + " took it back"
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

// missing says, for people, what is missing.
func missing(v Verdict, stale, strange, ended, told, past int) string {
	text := fmt.Sprintf("%d of %d Nodes name this boot", len(v.Reporters), v.Need)
	if len(v.Reporters) > 0 {
		text += " (" + strings.Join(v.Reporters, ", ") + ")"
	}
	if past > 0 {
		text += fmt.Sprintf("; %d of them by an agent of an earlier boot, which has not looked since", past)
	}
	switch own := len(v.Reporters) - past - told; {
	case told > 0 && own > 0:
		text += fmt.Sprintf("; %d of them were told it, which adds nothing to who has found it: %d", told, own)
	case told > 1:
		text += fmt.Sprintf("; %d of them were told it from outside, which is one voice", told)
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
		text += fmt.Sprintf("; %d more are said to be dead themselves", accused)
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

// stands reports whether n named the death in the boot that n runs now. One that died before the others took back
// what all had proven by error still names it when it comes back, until its agent has met the node.
func (n Node) stands(node, boot string) bool {
	return n.Boot != "" && slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node && d.Boot == boot && d.Said == n.Boot })
}

// wasTold reports whether n only knows of that death from others.
func (n Node) wasTold(node, boot string) bool {
	return !slices.ContainsFunc(n.Deaths, func(d deaths.Death) bool { return d.Node == node && d.Boot == boot && !d.Outside() })
}

// distinct sorts by name and drops what comes twice: a Node counts once, however often it was read.
func distinct(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.Name == b.Name })
}

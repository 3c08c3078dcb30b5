package belief

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const dead, other = "024bc581b3a34be3", "124bc581b3a34be3"

func says(name string, list ...deaths.Death) Node {
	for i := range list {
		list[i].Said, list[i].Proof = cmp.Or(list[i].Said, "b-"+name), cmp.Or(list[i].Proof, "time")
	}
	return Node{Name: name, Group: "worker", Boot: "b-" + name, Fresh: true, Deaths: list}
}

func TestJudge(t *testing.T) {
	two := Settings{MinReporters: 2, Unknown: true}
	pairs := Settings{MinReporters: 2, GroupsOfTwo: []string{"worker"}}
	const old = "; %d of them named it in an earlier boot, and not in the boot that they run now"
	n4 := deaths.Death{Node: "n4", Boot: dead}
	told := deaths.Death{Node: "n4", Boot: dead, Proof: "operator"}
	stale, stranger := says("n2", n4), says("n2", n4)
	ended := says("n1", n4)
	stale.Fresh, stranger.Group, ended.Ended = false, "storage", true
	full := says("n3")
	full.Full = true
	hidden := says("n2", n4)
	hidden.Boot = ""
	for _, c := range []struct {
		name     string
		settings Settings
		question Question
		nodes    []Node
		want     bool
		missing  string
	}{
		{"two name it", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2", n4)}, true, ""},
		{"one names it", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2")}, false, "1 of 2 Nodes name this boot (n1)"},
		{"two were told", two, Question{Boot: dead}, []Node{says("n1", told), says("n2", told)}, false, "2 of 2 Nodes name this boot (n1, n2); 2 of them were told it from outside, and count as one"},
		{"three were told", Settings{MinReporters: 3}, Question{Boot: dead}, []Node{says("n1", told), says("n2", told), says("n3", n4)}, false, "3 of 3 Nodes name this boot (n1, n2, n3); 2 of them were told it, which adds nothing to the 1 that have found it"},
		{"one was told, one has found it", two, Question{Boot: dead}, []Node{says("n1", told), says("n2", n4)}, false, "2 of 2 Nodes name this boot (n1, n2); 1 of them were told it, which adds nothing to the 1 that have found it"},
		{"two were told, one has found it", two, Question{Boot: dead}, []Node{says("n1", told), says("n2", told), says("n3", n4)}, false, "3 of 2 Nodes name this boot (n1, n2, n3); 2 of them were told it, which adds nothing to the 1 that have found it"},
		{"two were told, two have found it", two, Question{Boot: dead}, []Node{says("n1", told), says("n2", told), says("n3", n4), says("n5", n4)}, true, ""},
		{"two were told, one has found it, and Ready is Unknown", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", told), says("n2", told), says("n3", n4)}, true, ""},
		{"one was told, and Ready is Unknown", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", told)}, true, ""},
		{"one was told, of a group of two that is named", pairs, Question{Boot: dead, GroupSize: 2}, []Node{says("n1", told)}, true, ""},
		{"one names it twice", two, Question{Boot: dead}, []Node{says("n1", n4, n4), says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"one, and Ready is Unknown", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", n4)}, true, ""},
		{"one of an earlier boot, and Unknown", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"})}, false, fmt.Sprintf("1 of 2 Nodes name this boot (n1)"+old, 1)},
		{"two of earlier boots", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"}), says("n2", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"})}, false, fmt.Sprintf("2 of 2 Nodes name this boot (n1, n2)"+old, 2)},
		{"two, one of an earlier boot", two, Question{Boot: dead}, []Node{says("n1", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"}), says("n2", n4)}, false, fmt.Sprintf("2 of 2 Nodes name this boot (n1, n2)"+old, 1)},
		{"two, one of an earlier boot, and Ready is Unknown", two, Question{Boot: dead, Unknown: true}, []Node{says("n1", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"}), says("n2", n4)}, true, ""},
		{"three, one of an earlier boot", two, Question{Boot: dead}, []Node{says("n1", deaths.Death{Node: "n4", Boot: dead, Said: "earlier"}), says("n2", n4), says("n3", n4)}, true, ""},
		{"one and Unknown, which does not count", Settings{MinReporters: 2}, Question{Boot: dead, Unknown: true}, []Node{says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"Unknown alone", two, Question{Boot: dead, Unknown: true}, []Node{says("n1"), says("n2")}, false, "0 of 2 Nodes name this boot"},
		{"a group of two", two, Question{Boot: dead, GroupSize: 2}, []Node{says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"a group of two, and Ready is Unknown", two, Question{Boot: dead, GroupSize: 2, Unknown: true}, []Node{says("n1", n4)}, true, ""},
		{"a group of two that is named", pairs, Question{Boot: dead, GroupSize: 2}, []Node{says("n1", n4)}, true, ""},
		{"a group that is named and has three", pairs, Question{Boot: dead, GroupSize: 3}, []Node{says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"a group of one", two, Question{Boot: dead, GroupSize: 1}, nil, false, "0 of 2 Nodes name this boot"},
		{"a liar has come into a group of one", two, Question{Boot: dead, GroupSize: 2}, []Node{says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"one is asked for", Settings{MinReporters: 1}, Question{Boot: dead}, []Node{says("n1", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"another boot", two, Question{Boot: other}, []Node{says("n1", n4), says("n2", n4)}, false, "0 of 2 Nodes name this boot"},
		{"different boots", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2", deaths.Death{Node: "n4", Boot: other})}, false, "1 of 2 Nodes name this boot (n1)"},
		{"no boot", two, Question{}, []Node{says("n1", deaths.Death{Node: "n4", Boot: ""}), says("n2", deaths.Death{Node: "n4", Boot: ""})}, false, "the Node has no bootID, or no group"},
		{"no group", two, Question{Boot: dead, Group: "-"}, []Node{says("n1", n4), says("n2", n4)}, false, "the Node has no bootID, or no group"},
		{"a Lease is stale", two, Question{Boot: dead}, []Node{says("n1", n4), stale}, false, "1 of 2 Nodes name this boot (n1); 1 more have no fresh Lease"},
		{"a boot that was called dead itself, and Ready is Unknown", two, Question{Boot: dead, Unknown: true}, []Node{ended}, false, "0 of 2 Nodes name this boot; 1 more show a boot that was called dead"},
		{"of another group", two, Question{Boot: dead}, []Node{says("n1", n4), stranger}, false, "1 of 2 Nodes name this boot (n1); 1 more are of another group"},
		{"the node itself", two, Question{Boot: dead}, []Node{says("n1", n4), says("n4", n4)}, false, "1 of 2 Nodes name this boot (n1)"},
		{"a reporter is dead", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2", n4), says("n3", deaths.Death{Node: "n2", Boot: "b-n2"}), says("n5", deaths.Death{Node: "n2", Boot: "b-n2"})}, false, "1 of 2 Nodes name this boot (n1); 1 more are themselves named dead"},
		{"a reporter is called dead by one", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2", n4), says("n3", deaths.Death{Node: "n2", Boot: "b-n2"})}, true, ""},
		{"a reporter was dead, in another boot", two, Question{Boot: dead}, []Node{says("n1", n4), says("n2", n4), says("n3", deaths.Death{Node: "n2", Boot: "x"}), says("n5", deaths.Death{Node: "n2", Boot: "x"})}, true, ""},
		{"a reporter shows no boot and was dead", two, Question{Boot: dead}, []Node{says("n1", n4), hidden, says("n3", deaths.Death{Node: "n2", Boot: "x"}), says("n5", deaths.Death{Node: "n2", Boot: "x"})}, false, "1 of 2 Nodes name this boot (n1); 1 more are themselves named dead"},
		{"one took it back", two, Question{Boot: dead, Before: []string{"n1", "n3"}}, []Node{says("n1", n4), says("n2", n4), says("n3")}, false, "n3 no longer names this boot"},
		{"one whose list is full says it no more", two, Question{Boot: dead, Before: []string{"n1", "n3"}}, []Node{says("n1", n4), says("n2", n4), full}, true, ""},
		{"one that named it is silent", two, Question{Boot: dead, Before: []string{"n3"}}, []Node{says("n1", n4), says("n2", n4), {Name: "n3", Group: "worker"}}, true, ""},
		{"two that accuse each other", pairs, Question{Boot: dead, GroupSize: 2}, []Node{says("n1", n4), says("n4", deaths.Death{Node: "n1", Boot: "b-n1"})}, false, "0 of 1 Nodes name this boot; 1 more are themselves named dead"},
	} {
		q := c.question
		q.Node = "n4"
		if q.GroupSize == 0 {
			q.GroupSize = 5
		}
		switch q.Group {
		case "":
			q.Group = "worker"
		case "-":
			q.Group = ""
		}
		if v := Judge(c.settings, q, c.nodes); v.Believed != c.want || v.Missing != c.missing {
			t.Errorf("%s: %+v, want %v, missing %q", c.name, v, c.want, c.missing)
		}
	}
}

// Guard: a death that is named only by Nodes that do not count differs from a death that no Node names.
func TestNamed(t *testing.T) {
	n4 := deaths.Death{Node: "n4", Boot: dead}
	stale, stranger, homeless := says("n1", n4), says("n2", n4), says("n3", n4)
	stale.Fresh, stranger.Group, homeless.Group = false, "storage", ""
	for _, c := range []struct {
		name        string
		group, boot string
		nodes       []Node
		want        int
	}{
		{"nobody", "worker", dead, []Node{says("n1"), says("n4", n4)}, 0},
		{"of another boot", "worker", other, []Node{says("n1", n4)}, 0},
		{"stale, of other groups", "worker", dead, []Node{stale, stranger, homeless, stale}, 3},
		{"the Node has no group", "", dead, []Node{says("n1", n4), homeless}, 2},
		{"the Node has no group, and another boot", "", other, []Node{says("n1", n4)}, 0},
		{"the Node has no bootID", "worker", "", []Node{says("n1", n4), says("n2")}, 1},
	} {
		v := Judge(Settings{MinReporters: 2}, Question{Node: "n4", Group: c.group, Boot: c.boot, GroupSize: 5}, c.nodes)
		if v.Believed || v.Named != c.want || v.Missing == "" {
			t.Errorf("%s: %+v, want %d", c.name, v, c.want)
		}
	}
}

// Guard: one Node that lies, whatever it reports, cannot make a node dead that no honest Node names.
func TestOneLiarIsNotBelieved(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	believed := 0
	for range 20000 {
		size := 2 + r.IntN(6)
		boot := func(i int) string { return fmt.Sprintf("boot-%d", i) }
		liar, rumoured := r.IntN(size), r.IntN(2*size)
		gone := map[int]bool{}
		for i := range size {
			gone[i] = i != liar && r.IntN(4) == 0
		}
		var nodes []Node
		for i := range size {
			n := Node{Name: fmt.Sprintf("n%d", i), Group: "worker", Boot: boot(i), Fresh: !gone[i] && r.IntN(8) > 0}
			for j := range size {
				d := deaths.Death{Node: fmt.Sprintf("n%d", j), Boot: boot(j), Said: boot(i - r.IntN(5)/4), Proof: "time"}
				switch {
				case i == liar && r.IntN(2) == 0, i != liar && (gone[j] || d.Said != n.Boot) && r.IntN(3) > 0: // in another boot all may have been wrong
					n.Deaths = append(n.Deaths, d)
				case i != liar && j == rumoured: // the liar has reported it, and all repeat it
					d.Proof = "power"
					n.Deaths = append(n.Deaths, d)
				}
			}
			for range r.IntN(2) {
				nodes = append(nodes, n)
			}
			nodes = append(nodes, n)
		}
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		s := Settings{MinReporters: 2 + r.IntN(2)}
		for i := range size {
			v := Judge(s, Question{Node: fmt.Sprintf("n%d", i), Group: "worker", Boot: boot(i), GroupSize: size}, nodes)
			if !v.Believed {
				continue
			}
			believed++
			if !gone[i] {
				t.Fatalf("n%d runs and is believed dead by %q: %+v", i, v.Reporters, nodes)
			}
			if slices.Contains(v.Reporters, fmt.Sprintf("n%d", i)) || len(slices.Compact(slices.Clone(v.Reporters))) < max(2, min(s.MinReporters, size-1)) {
				t.Fatalf("n%d is believed dead by %q", i, v.Reporters)
			}
		}
	}
	if believed < 1000 {
		t.Errorf("only %d deaths were believed", believed)
	}
}

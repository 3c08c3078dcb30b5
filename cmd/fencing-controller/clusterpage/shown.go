package clusterpage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const mostTellers = 4 // how many are named

// shown is the content of the page and of its text.
type shown struct {
	At, Self, Version string
	Verdict           view.Span
	DryRun            bool
	Dead              []deadNode
	Groups            []group
	Storm             []line
	Replicas          []line
}

// deadNode is a Node that is reported dead, or comes back.
type deadNode struct {
	Name, Group string
	Phase       view.Span
	Since       string
	Steps       []step
	Does        string
	Told        []string
}

// step is one step of a node that dies and comes back.
type step struct {
	Name string
	Mark string // differs by shape: done, now, to come
	Now  bool
}

type group struct {
	Name  string
	Says  view.Span
	Nodes []view.Chip
}

// line is a label and its text.
type line struct {
	Label string
	Text  string
	Style view.Style
}

// way lists the phases of a node that dies and comes back, in order.
var way = []recovery.Phase{recovery.Unproven, recovery.Proven, recovery.Draining, recovery.Released, recovery.Returning}

// styles holds the styles of phases that are not in way, or that need attention.
var styles = map[recovery.Phase]view.Style{
	recovery.InDispute: view.Bad, recovery.Held: view.Bad, recovery.Foreign: view.Bad, recovery.Watching: view.Plain, recovery.Gone: view.Plain,
}

func styleOf(p recovery.Phase) view.Style {
	if s, ok := styles[p]; ok {
		return s
	}
	return view.Warn
}

// called reports whether to show a Node as reported dead or being recovered.
func called(n *reconcile.NodePicture) bool {
	return len(n.Told) > 0 || n.Phase != recovery.Watching && n.Phase != recovery.Gone
}

func newShown(p *reconcile.Picture, version string) *shown {
	s := &shown{At: p.At.UTC().Format("2006-01-02 15:04:05 MST"), Self: view.Clean(p.Self), Version: version, DryRun: p.DryRun}
	phases := map[string]recovery.Phase{}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; called(n) {
			phases[n.Name] = n.Phase
			s.Dead = append(s.Dead, deadOf(n, p.At))
		}
	}
	slices.SortStableFunc(s.Dead, func(a, b deadNode) int {
		return cmp.Or(cmp.Compare(b.Phase.Style, a.Phase.Style), view.Compare(a.Name, b.Name))
	})
	s.Verdict = verdict(p, phases)
	for _, name := range slices.SortedFunc(maps.Keys(p.Groups), view.Compare) {
		s.Groups = append(s.Groups, groupOf(name, p, phases))
	}
	s.Storm, s.Replicas = stormLines(p), replicaLines(p, phases)
	return s
}

func verdict(p *reconcile.Picture, phases map[string]recovery.Phase) view.Span {
	all, count, worst := 0, map[recovery.Phase]int{}, view.Warn
	for _, nodes := range p.Groups {
		all += len(nodes)
	}
	for _, phase := range phases {
		count[phase]++
		worst = max(worst, styleOf(phase))
	}
	if len(phases) == 0 {
		return view.Span{Text: fmt.Sprintf("nobody calls any of %d nodes dead", all), Style: view.Good}
	}
	var said []string
	for _, phase := range recovery.Phases() {
		if count[phase] > 0 {
			said = append(said, fmt.Sprintf("%d %s", count[phase], phase))
		}
	}
	return view.Span{Text: fmt.Sprintf("%d of %d nodes: %s", len(phases), all, strings.Join(said, ", ")), Style: worst}
}

func deadOf(n *reconcile.NodePicture, now time.Time) deadNode {
	d := deadNode{
		Name: view.Clean(n.Name), Group: cmp.Or(view.Clean(n.Group), "no group"), Phase: view.Span{Text: string(n.Phase), Style: styleOf(n.Phase)},
		Since: view.Brief(max(0, now.Sub(n.Since))), Does: view.Clean(n.Does()),
	}
	if at := slices.Index(way, n.Phase); at >= 0 {
		for i, phase := range way {
			d.Steps = append(d.Steps, step{Name: string(phase), Mark: [...]string{"●", "▶", "○"}[cmp.Compare(i, at)+1], Now: i == at})
		}
	}
	if n.Left > 0 {
		d.Does += fmt.Sprintf("; %d pods are left", n.Left)
	}
	same := map[string][]string{} // Nodes whose reports are the same
	for _, t := range n.Told {
		word := "boot " + view.Clean(t.Boot) + ", proof " + view.Clean(t.Proof)
		same[word] = append(same[word], view.Clean(t.By)+" at "+t.At.UTC().Format(time.TimeOnly))
	}
	for _, word := range slices.Sorted(maps.Keys(same)) {
		by := same[word]
		if len(by) > mostTellers {
			by = append(slices.Clone(by[:mostTellers]), fmt.Sprintf("%d more", len(by)-mostTellers))
		}
		d.Told = append(d.Told, word+": "+strings.Join(by, ", "))
	}
	return d
}

func groupOf(name string, p *reconcile.Picture, phases map[string]recovery.Phase) group {
	nodes := slices.SortedFunc(slices.Values(p.Groups[name]), view.Compare)
	g := group{Name: cmp.Or(view.Clean(name), "no group")}
	dead, worst := 0, view.Good
	for _, node := range nodes {
		chip := view.Chip{Name: view.Clean(node), Marks: "●", Text: "nobody calls it dead"}
		if phase, is := phases[node]; is {
			dead++
			chip.Style, chip.Text, chip.Marks = styleOf(phase), string(phase), "✕"
			switch phase {
			case recovery.Unproven, recovery.Watching:
				chip.Marks = "◐"
			case recovery.InDispute, recovery.Held, recovery.Foreign:
				chip.Marks = "▲"
			case recovery.Returning:
				chip.Marks = "○"
			}
			worst = max(worst, chip.Style, view.Warn)
		}
		g.Nodes = append(g.Nodes, chip)
	}
	g.Says = view.Span{Text: fmt.Sprintf("%d nodes, nobody calls one dead", len(nodes)), Style: worst}
	if dead > 0 {
		g.Says.Text = fmt.Sprintf("%d of %d nodes are called dead or recovered", dead, len(nodes))
	}
	return g
}

func stormLines(p *reconcile.Picture) []line {
	busy := slices.SortedFunc(maps.Keys(p.Evicting), view.Compare)
	evictions := line{Label: "evictions", Text: fmt.Sprintf("none awaited; at most %d at a time (storm.evicting)", p.Storm.Evicting)}
	if len(busy) > 0 {
		for i, node := range busy {
			busy[i] = view.Clean(node) + " for " + view.Brief(max(0, p.At.Sub(p.Evicting[node])))
		}
		evictions.Text = fmt.Sprintf("awaited from %s; at most %d at a time (storm.evicting)", strings.Join(busy, ", "), p.Storm.Evicting)
		if len(busy) >= p.Storm.Evicting {
			evictions.Style = view.Warn
		}
	}
	lines := []line{evictions, {Label: "deletions", Text: fmt.Sprintf("at most %d a second, of this replica", p.Storm.DeletesPerSecond)}}
	limit := line{Label: "dead at most", Text: fmt.Sprintf("%d %% of a group (storm.maxDeadPercent)", p.Storm.MaxDeadPercent)}
	tainted := map[string]int{}
	for _, n := range p.Nodes {
		if n.Tainted {
			tainted[n.Group]++
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.Groups), view.Compare) {
		dead := tainted[name]
		if n := len(p.Groups[name]); dead > 0 && dead < n && (dead+1)*100 > n*p.Storm.MaxDeadPercent {
			limit.Text += fmt.Sprintf("; in %s it is reached: %d of %d, the next one waits for a person", cmp.Or(view.Clean(name), "no group"), dead, n)
			limit.Style = view.Bad
		}
	}
	return append(lines, limit)
}

func replicaLines(p *reconcile.Picture, phases map[string]recovery.Phase) (lines []line) {
	for _, r := range p.Replicas {
		l := line{Label: view.Clean(r.Name), Text: "on a node that is not known"}
		if r.Node != "" {
			l.Text = "on " + view.Clean(r.Node)
		}
		if phase, is := phases[r.Node]; is {
			l.Text, l.Style = l.Text+", which is "+string(phase)+": it is not waited for", view.Warn
		}
		if r.Name == p.Self {
			l.Text += "; this page is its"
		}
		lines = append(lines, l)
	}
	if len(p.Replicas) < 2 {
		lines = append(lines, line{Label: "only one", Text: "if its node dies, nobody takes the pods off it", Style: view.Warn})
	}
	return lines
}

// ticket returns the whole page as text.
func ticket(p *reconcile.Picture, version string) string {
	s := newShown(p, version)
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("fencing-controller %s, replica %s, %s", s.Version, s.Self, s.At)
	put("%s", s.Verdict.Text)
	if s.DryRun {
		put("dryRun: nothing is written")
	}
	for _, d := range s.Dead {
		put("%s (%s): %s for %s: %s", d.Name, d.Group, d.Phase.Text, d.Since, d.Does)
		for _, t := range d.Told {
			put("    %s", t)
		}
	}
	for _, g := range s.Groups {
		put("group %s: %s", g.Name, g.Says.Text)
	}
	for _, l := range slices.Concat(s.Storm, s.Replicas) {
		put("%s: %s", l.Label, l.Text)
	}
	return b.String()
}

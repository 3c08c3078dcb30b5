package grouppolicy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The modes, in the words of NodeGroup.
const (
	Watchdog = "Watchdog" // nodes are reset
	Notify   = "Notify"   // nobody is: watchdog.driver is none
)

// The bounds of a watchdog's timeout, which are those of the agent's configuration.
const (
	shortest = 2 * time.Second
	longest  = time.Hour
)

var (
	modes  = []string{Watchdog, Notify}
	losses = []string{"fence", "exclude", "wait"}
)

// Policy is what a group should run with, or what an agent does. What is empty is not said.
type Policy struct {
	Mode         string
	Timeout      time.Duration // of the watchdog
	OnQuorumLoss string
}

// IsZero reports whether nothing is said.
func (p Policy) IsZero() bool { return p == Policy{} }

// Spec is the spec of a FencingGroup.
type Spec struct {
	Group        string `json:"group,omitempty"` // empty: the name of the object
	Mode         string `json:"mode,omitempty"`
	OnQuorumLoss string `json:"onQuorumLoss,omitempty"`
	Watchdog     struct {
		Timeout string `json:"timeout,omitempty"`
	} `json:"watchdog,omitzero"`
}

// Policy reads a spec. What cannot be read is left out, and said.
func (s *Spec) Policy() (p Policy, problems []string) {
	choice := func(key, value string, of []string) string {
		if value == "" || slices.Contains(of, value) {
			return value
		}
		problems = append(problems, fmt.Sprintf("%s: %.40q is not possible; allowed: %s", key, value, strings.Join(of, ", ")))
		return ""
	}
	p.Mode = choice("mode", s.Mode, modes)
	p.OnQuorumLoss = choice("onQuorumLoss", s.OnQuorumLoss, losses)
	if text := s.Watchdog.Timeout; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < shortest || d > longest || d%time.Second != 0 {
			problems = append(problems, fmt.Sprintf("watchdog.timeout: %.40q is not possible; allowed: whole seconds from %v to %v, with a unit", text, shortest, longest))
		} else {
			p.Timeout = d
		}
	}
	return p, problems
}

// Object is a FencingGroup or a NodeGroup, as it says something of a group.
type Object struct {
	Name    string
	Spec    Spec
	Problem string // why there is no spec, if it is none
}

// Group is the group that a FencingGroup speaks of.
func (o *Object) Group() string {
	if o.Spec.Group != "" {
		return o.Spec.Group
	}
	return o.Name
}

// Wanted is the policy of one group.
type Wanted struct {
	Policy
	Object   string   // the FencingGroup that counts; empty: there is none
	Problems []string // with what was said
}

// Resolve makes the policies of all groups. Of several FencingGroups for one group the first by name counts; what it does not say,
// the NodeGroup of that name says. It returns by group, and the FencingGroups that do not count, with the one that does.
func Resolve(groups, nodeGroups []Object) (wanted map[string]Wanted, idle map[string]string) {
	wanted, idle = map[string]Wanted{}, map[string]string{}
	byName := func(a, b Object) int { return strings.Compare(a.Name, b.Name) }
	for _, o := range slices.SortedFunc(slices.Values(groups), byName) {
		if first, there := wanted[o.Group()]; there {
			idle[o.Name] = first.Object
			continue
		}
		p, problems := o.Spec.Policy()
		wanted[o.Group()] = Wanted{Policy: p, Object: o.Name, Problems: problems}
	}
	for _, o := range slices.SortedFunc(slices.Values(nodeGroups), byName) {
		w := wanted[o.Name]
		p, problems := o.Spec.Policy()
		if o.Problem != "" {
			problems = append(problems, o.Problem)
		}
		for _, text := range problems {
			w.Problems = append(w.Problems, "NodeGroup: "+text)
		}
		for _, line := range lines(p, w.Policy) {
			if line.a != "" && line.b != "" && line.a != line.b {
				w.Problems = append(w.Problems, fmt.Sprintf("%s: the NodeGroup says %s; this object says %s, which counts", line.key, line.a, line.b))
			}
		}
		if w.Mode == "" {
			w.Mode = p.Mode
		}
		if w.Timeout == 0 {
			w.Timeout = p.Timeout
		}
		if w.OnQuorumLoss == "" {
			w.OnQuorumLoss = p.OnQuorumLoss
		}
		if w.Object != "" || !w.IsZero() || len(w.Problems) > 0 {
			wanted[o.Name] = w
		}
	}
	return wanted, idle
}

type line struct{ key, a, b string }

func lines(a, b Policy) []line {
	timeout := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return []line{{"mode", a.Mode, b.Mode}, {"watchdog.timeout", timeout(a.Timeout), timeout(b.Timeout)}, {"onQuorumLoss", a.OnQuorumLoss, b.OnQuorumLoss}}
}

// mostText bounds what a line quotes of a policy that came over a network.
const mostText = 40

// Differ says in what an agent runs otherwise than its group should: a line for each setting. What is not said on either side does not
// differ; neither does the timeout where either side has no watchdog.
//
// Invariant: each setting of a policy is compared. One that is left out would be taken for kept everywhere.
func Differ(want, run Policy) []string {
	var out []string
	for _, l := range lines(want, run) {
		idle := l.key == "watchdog.timeout" && (want.Mode == Notify || run.Mode == Notify)
		if l.a != "" && l.b != "" && l.a != l.b && !idle {
			out = append(out, fmt.Sprintf("%s is %s, the group's policy says %s", l.key, quoted(l.b, l.key), quoted(l.a, l.key)))
		}
	}
	return out
}

// quoted is a value as it is where it is one of those that are known, else in quotes, and no longer than a line bears.
func quoted(v, key string) string {
	if key == "watchdog.timeout" || slices.Contains(modes, v) || slices.Contains(losses, v) {
		return v
	}
	return fmt.Sprintf("%.*q", mostText, v)
}

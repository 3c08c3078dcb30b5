package storm

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// joining is how long a Node that was just made may be on its way to its first Ready: it has not failed.
const joining = 2 * time.Minute

// gap is how long nobody may have looked for a history to be whole.
const gap = time.Minute

// Reasons for which a node is not switched by its devices.
const (
	ConfigProblems   = "ConfigProblems"
	TooManyUnhealthy = "TooManyUnhealthy"
	Blind            = "ControlPlaneBlind"
	Cooldown         = "Cooldown"
	TooManyAtOnce    = "TooManyAtOnce"
)

// Reasons lists all that a [Survey] may say, for metrics.
func Reasons() []string {
	return []string{ControlPlane, ConfigProblems, Blind, TooManyUnhealthy, Cooldown, TooManyDead, LeaseHeld, Disconnected, QuorumLost, TooManyAtOnce}
}

// Policy is what the operator decides about fencing by devices.
type Policy struct {
	Broken         string        // why the limits cannot be read; empty: they can
	MaxUnhealthy   int           // percent of the Nodes that are not Ready
	MaxSilent      int           // percent of the Nodes whose Leases have run out
	MaxConcurrent  int           // nodes of which a step runs at one time
	Cooldown       time.Duration // after a storm
	MaxDeadPercent int           // of a group, as in [Settings]
	Settle         time.Duration // for which other nodes of the control plane have to have been Ready
	Gone           []string      // nodes that have no Node, and a NodeFence that may have cut them off

	// What agents say holds a node up: that its slot on the LUN moves; that it lives and has lost the LUN; that the group has
	// lost quorum.
	SkipLeaseHeld, SkipDisconnected, OnlyWithQuorum bool
}

// Member is what the API server shows of one Node.
type Member struct {
	Name, Group string // "" is no group
	Boot        string // that its Node shows
	Managed     bool   // it may be fenced by its devices
	Ready       bool
	Since       time.Time // when Ready became what it is; zero: it has always been
	Created     time.Time
	Silent      bool                // its Lease has run out
	Dead        bool                // the boot that it shows is proven to have ended
	Fencing     time.Time           // since when a step runs that switches it; zero: none does
	Switched    bool                // and one of its devices may have been told to already
	Isolated    bool                // its NodeFence has cut it off from networks or storage
	Sighting    *sightings.Sighting // what its agent says, in the boot that the Node shows; nil: nothing
	Off         bool                // its power may be off, by a step that runs or has failed, and nothing proves it
	Part        Part                // of the control plane
}

// failed reports whether it was not Ready at a moment, as far as the last change tells.
func (m Member) failed(at time.Time) bool {
	if m.Ready {
		return at.Before(m.Since) && m.Since.Sub(m.Created) > joining
	}
	return !at.Before(m.Since)
}

// Survey is one look at all Nodes. Make it with [Policy.Look].
type Survey struct {
	policy  Policy
	now     time.Time
	members map[string]Member
	sorted  []Member
	digest  string
	storms  map[string]Verdict // by group
	history *History
	voices  voices
}

// History says which storms a replica has seen, and what it has heard. The zero value has seen and heard nothing.
type History struct {
	since, looked time.Time        // it has looked from when on, without a gap, and when last
	last          map[string]seen  // by group
	words         map[string]heard // by the Node that bears them
	claims        map[string]claim // by who claims what nobody confirms
}

type seen struct {
	at   time.Time
	text string
}

// Look surveys all Nodes of the cluster, and adds to the history.
func (p Policy) Look(members []Member, now time.Time, h *History) *Survey {
	s := &Survey{policy: p, now: now, history: h, members: map[string]Member{}, storms: map[string]Verdict{}, sorted: slices.Clone(members)}
	slices.SortFunc(s.sorted, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	if now.Sub(h.looked) > gap {
		h.since = now
	}
	h.looked = now
	// A label may name another group each minute: what no cooldown relies on any more is forgotten.
	maps.DeleteFunc(h.last, func(_ string, was seen) bool { return now.Sub(was.at) >= p.Cooldown })
	hash := fnv.New64a()
	for i := range s.sorted {
		m := &s.sorted[i]
		if m.Since.After(now) { // by a clock that is ahead
			m.Since = now
		}
		s.members[m.Name] = *m
		if !m.Ready {
			_, _ = fmt.Fprintln(hash, m.Name) // never fails
		}
	}
	s.digest = fmt.Sprintf("%016x", hash.Sum64())
	s.listen()
	for _, m := range s.sorted {
		s.storm(m)
	}
	return s
}

// At is when the survey was made.
func (s *Survey) At() time.Time { return s.now }

// Begun says that a step of a node begins now.
func (s *Survey) Begun(node string) {
	m, ok := s.members[node]
	if !ok || !m.Fencing.IsZero() {
		return
	}
	m.Fencing = s.now
	s.members[node] = m
}

// Proven says that the boot that a Node shows is proven to have ended, by what the API server does not show yet.
func (s *Survey) Proven(node string) {
	if m, ok := s.members[node]; ok {
		m.Dead = true
		s.members[node] = m
	}
}

// Unhealthy counts the Nodes that are not Ready, by group.
func (s *Survey) Unhealthy() map[string]int {
	out := map[string]int{}
	for _, m := range s.sorted {
		if out[m.Group] += 0; !m.Ready {
			out[m.Group]++
		}
	}
	return out
}

// Allow is asked before each step that isolates this node or cuts its power. Anyway is the word of a person who wants the
// node fenced all the same ([Verdict]): it holds as long as the same Nodes are not Ready, and no others.
func (s *Survey) Allow(node, anyway string) Verdict {
	m, word := s.members[node], anyway != "" && anyway == s.digest
	if v := s.controlPlane(m, word); !v.Allowed {
		return v
	}
	if s.policy.Broken != "" { // defaults may be less careful than what was meant
		return Verdict{Reason: ConfigProblems, Text: s.policy.Broken}
	}
	if !word {
		for _, rule := range []func(Member) Verdict{s.storm, s.dead, s.leaseHeld, s.disconnected, s.withoutQuorum} {
			if v := rule(m); !v.Allowed {
				v.Anyway = s.digest
				return v
			}
		}
	}
	return s.atOnce(node)
}

// storm is the same for all nodes of a group.
func (s *Survey) storm(m Member) Verdict {
	v, known := s.storms[m.Group]
	if known {
		return v
	}
	if v = s.blind(m); v.Allowed {
		v = s.unhealthy(m)
	}
	if !v.Allowed {
		if s.history.last == nil {
			s.history.last = map[string]seen{}
		}
		s.history.last[m.Group] = seen{s.now, v.Text}
	} else {
		v = s.cooldown(m)
	}
	s.storms[m.Group] = v
	return v
}

var allowed = Verdict{Allowed: true}

// blind is a fault on this side: many kubelets stop renewing their Leases at one time. It shows before the Nodes stop
// being Ready.
func (s *Survey) blind(Member) Verdict {
	silent := 0
	for _, m := range s.sorted {
		if m.Silent || !m.Ready {
			silent++
		}
	}
	if n := len(s.sorted); silent > 1 && silent*100 > n*s.policy.MaxSilent && silent > s.count(s.now, func(Member) bool { return true }) {
		return Verdict{Reason: Blind, Text: fmt.Sprintf(
			"%d of all %d Nodes are not Ready or have a Lease that has run out, more than max_silent_percent=%d: "+
				"it is the API server, the network to it, or this controller's clock", silent, n, s.policy.MaxSilent)}
	}
	return allowed
}

func (s *Survey) count(at time.Time, of func(Member) bool) (bad int) {
	for _, m := range s.sorted {
		if of(m) && m.failed(at) {
			bad++
		}
	}
	return bad
}

// over says of whom too many were not Ready at a moment. A single node may always be fenced, in clusters of three Nodes and
// more.
func (s *Survey) over(subject Member, at time.Time) string {
	for _, o := range []struct {
		what  string
		of    func(Member) bool
		alone bool // a single one counts
	}{
		{"all %d Nodes", func(Member) bool { return true }, false},
		{"%d managed nodes", func(m Member) bool { return m.Managed }, len(s.sorted) < 3},
		{"%d managed nodes of group " + subject.Group, func(m Member) bool { return m.Managed && m.Group != "" && m.Group == subject.Group }, false},
	} {
		total := 0
		for _, m := range s.sorted {
			if o.of(m) && !at.Before(m.Created) {
				total++
			}
		}
		bad := s.count(at, o.of)
		if (bad > 1 || bad == 1 && o.alone) && bad*100 > total*s.policy.MaxUnhealthy {
			return fmt.Sprintf("%d of "+o.what+" are not Ready, more than max_unhealthy_percent=%d", bad, total, s.policy.MaxUnhealthy)
		}
	}
	return ""
}

func (s *Survey) unhealthy(subject Member) Verdict {
	if text := s.over(subject, s.now); text != "" {
		return Verdict{Reason: TooManyUnhealthy, Text: text}
	}
	return allowed
}

// cooldown is after a storm: what flaps at the limit is still one. A replica that has not looked for as long relies on what
// the Nodes say of their last change. Those do not say how long they had not been Ready, so that it may wait in vain.
func (s *Survey) cooldown(subject Member) Verdict {
	if h, ok := s.history.last[subject.Group]; ok && s.now.Sub(h.at) < s.policy.Cooldown {
		return s.after(h.text, h.at)
	}
	if s.now.Sub(s.history.since) >= s.policy.Cooldown {
		return allowed
	}
	for _, m := range s.sorted {
		// The number falls when a Node becomes Ready: the moment before is when it was highest.
		at := m.Since.Add(-time.Nanosecond)
		if !m.Ready || !m.failed(at) || s.now.Sub(m.Since) >= s.policy.Cooldown {
			continue
		}
		if text := s.over(subject, at); text != "" {
			return s.after(text, m.Since)
		}
	}
	return allowed
}

func (s *Survey) after(text string, until time.Time) Verdict {
	return Verdict{Reason: Cooldown, Text: fmt.Sprintf("until %s UTC there was a storm (%s): waits cooldown=%d s after that",
		until.UTC().Format(time.TimeOnly), text, int(s.policy.Cooldown.Seconds()))}
}

// goes reports whether a node is to be counted beside another one: a step of it runs, and it is switched already, or began first.
//
// Invariant: of nodes that began at the same moment, by replicas that did not see each other, as many go on as may, and the
// others wait. If each waited for all others, no node would be fenced.
func (s *Survey) goes(o, beside Member) bool {
	began := s.members[o.Name].Fencing
	if o.Name == beside.Name || began.IsZero() {
		return false
	}
	return beside.Fencing.IsZero() || o.Switched || began.Before(beside.Fencing) || began.Equal(beside.Fencing) && o.Name < beside.Name
}

// dead is the limit that the recovery keeps to as well. A node that is being switched will be dead; a node that is dead already does
// not become so by being switched. A step that has failed may have switched a supply off: it counts until it is on again. It
// holds up no node that is in the same case, for what is switched already is not asked about.
//
// A NodeFence that has not begun is not counted: it has switched nothing, and asks again before it does. If it were counted,
// a NodeFence that waits would hold up all others.
func (s *Survey) dead(subject Member) Verdict {
	if subject.Group == "" || subject.Dead {
		return allowed
	}
	g := Group{Name: subject.Group, Dead: 1}
	for _, m := range s.sorted {
		if m.Group == subject.Group {
			g.Size++
			if m.Name != subject.Name && (m.Dead || m.Off || s.goes(m, subject)) {
				g.Dead++
			}
		}
	}
	return tooManyDead(g, s.policy.MaxDeadPercent)
}

// atOnce is not overruled by a digest: it ends by itself. A step that does not end holds up nobody for long.
func (s *Survey) atOnce(node string) Verdict {
	var others []string
	for _, m := range s.sorted {
		if s.goes(m, s.members[node]) && s.now.Sub(s.members[m.Name].Fencing) <= patience {
			others = append(others, m.Name)
		}
	}
	if len(others) < s.policy.MaxConcurrent {
		return allowed
	}
	return Verdict{Reason: TooManyAtOnce, Text: fmt.Sprintf("the devices of %s are at work, as many nodes as max_concurrent=%d allows",
		strings.Join(others, ", "), s.policy.MaxConcurrent)}
}

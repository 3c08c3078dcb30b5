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

// joining is the time that a new Node may take until it is Ready for the first time: it has not failed.
const joining = 2 * time.Minute

// gap is the longest time between two looks for a history without a gap.
const gap = time.Minute

// Reasons why a node is not switched by its devices.
const (
	ConfigProblems   = "ConfigProblems"
	TooManyUnhealthy = "TooManyUnhealthy"
	Blind            = "ControlPlaneBlind"
	Cooldown         = "Cooldown"
	TooManyAtOnce    = "TooManyAtOnce"
)

// Reasons lists all reasons of a [Survey], for metrics.
func Reasons() []string {
	return []string{ControlPlane, ConfigProblems, Blind, TooManyUnhealthy, Cooldown, TooManyDead, LeaseHeld, Disconnected, QuorumLost, TooManyAtOnce}
}

// Policy holds the operator's settings for fencing by devices.
type Policy struct {
	Broken         string        // why the limits cannot be read; empty: they can
	MaxUnhealthy   int           // percent of the Nodes that may be not Ready
	MaxSilent      int           // percent of the Nodes whose Leases may have run out
	MaxConcurrent  int           // nodes that may run a step at one time
	Cooldown       time.Duration // after a storm
	MaxDeadPercent int           // of a group, as in [Settings]
	Settle         time.Duration // how long other nodes of the control plane must have been Ready
	Gone           []string      // nodes without a Node object, but with a NodeFence that may have cut them off

	// Reports of agents that hold a node up: its slot on the LUN moves; it is alive and has lost the LUN; the group has
	// lost quorum.
	SkipLeaseHeld, SkipDisconnected, OnlyWithQuorum bool
}

// Member is what the API server shows about one Node.
type Member struct {
	Name, Group string // "": no group
	Boot        string // the boot that its Node shows
	Managed     bool   // it may be fenced by its devices
	Ready       bool
	Since       time.Time // when Ready last changed; zero: it never has
	Created     time.Time
	Silent      bool                // its Lease has run out
	Dead        bool                // the boot that it shows is proven to have ended
	Fencing     time.Time           // the start of the step that switches it; zero: no step runs
	Switched    bool                // one of its devices may already have been told to switch
	Isolated    bool                // its NodeFence has cut it off from networks or storage
	Sighting    *sightings.Sighting // the report of its agent, in the boot that the Node shows; nil: none
	Off         bool                // its power may be off, by a step that runs or has failed, without a proof
	Part        Part                // its part in the control plane
}

// failed reports whether it was not Ready at a moment, judging by the last change.
func (m Member) failed(at time.Time) bool {
	if m.Ready {
		return at.Before(m.Since) && m.Since.Sub(m.Created) > joining
	}
	return !at.Before(m.Since)
}

// Survey is one look at all Nodes. [Policy.Look] creates it.
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

// History records the storms that a replica has seen, and the reports that it has read. The zero value is empty.
type History struct {
	since, looked time.Time        // when the looks without a gap began, and the last look
	last          map[string]seen  // by group
	words         map[string]heard // by the Node that has them
	claims        map[string]claim // by the Node whose agent makes a claim that nobody confirms
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
	// A label may name another group each minute, so entries that no cooldown needs any more are dropped.
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

// At returns when the survey was made.
func (s *Survey) At() time.Time { return s.now }

// Begun records that a step of a node begins now.
func (s *Survey) Begun(node string) {
	m, ok := s.members[node]
	if !ok || !m.Fencing.IsZero() {
		return
	}
	m.Fencing = s.now
	s.members[node] = m
}

// Proven records that the boot of a Node is proven to have ended, before the API server shows it.
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

// Allow is asked before each step that isolates this node or cuts its power. anyway is the digest by which a person
// asked to fence the node in spite of a limit ([Verdict]): it is valid as long as exactly the same Nodes are not Ready.
func (s *Survey) Allow(node, anyway string) Verdict {
	m, word := s.members[node], anyway != "" && anyway == s.digest
	if v := s.controlPlane(m, word); !v.Allowed {
		return v
	}
	if s.policy.Broken != "" { // defaults may be less careful than the intended limits
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

// storm checks the limits that are the same for all nodes of a group.
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

// blind detects a fault on this side: many kubelets stop renewing their Leases at the same time. That shows before the
// Nodes stop being Ready.
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

// over describes a set of nodes of which too many were not Ready at a moment. In clusters of at least three Nodes a
// single node may always be fenced.
func (s *Survey) over(subject Member, at time.Time) string {
	for _, o := range []struct {
		what  string
		of    func(Member) bool
		alone bool // a single node counts as too many
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

// cooldown waits after a storm; nodes that flap at the limit are still a storm. A replica that has not looked for that
// long uses the last change that the Nodes show. They do not show how long they had not been Ready before, so it may
// wait without need.
func (s *Survey) cooldown(subject Member) Verdict {
	if h, ok := s.history.last[subject.Group]; ok && s.now.Sub(h.at) < s.policy.Cooldown {
		return s.after(h.text, h.at)
	}
	if s.now.Sub(s.history.since) >= s.policy.Cooldown {
		return allowed
	}
	for _, m := range s.sorted {
		// The number falls when a Node becomes Ready, so it was highest the moment before.
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

// goes reports whether node o counts in the limit for node beside: a step of it runs, and it is already switched, or
// began first.
//
// Invariant: of nodes that began at the same moment, by replicas that did not see each other, as many continue as the
// limit allows, and the others wait. If each waited for all others, no node would be fenced.
func (s *Survey) goes(o, beside Member) bool {
	began := s.members[o.Name].Fencing
	if o.Name == beside.Name || began.IsZero() {
		return false
	}
	return beside.Fencing.IsZero() || o.Switched || began.Before(beside.Fencing) || began.Equal(beside.Fencing) && o.Name < beside.Name
}

// dead is the limit that also applies to the recovery. A node that is being switched will be dead, and a node that is
// already dead does not become so by being switched. A step that has failed may have switched a supply off: the node
// counts until the supply is on again. Such nodes do not hold each other up, since nodes that are already switched are
// not asked about.
//
// A NodeFence that has not begun does not count: it has switched nothing, and asks again before it does. If it counted,
// one NodeFence that waits would hold up all others.
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

// atOnce cannot be overruled by a digest: it ends by itself. A step that does not end does not hold up others for long.
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

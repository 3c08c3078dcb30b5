package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// Reasons of the policies that depend on agents' reports (docs/adr/0065).
const (
	LeaseHeld    = "StorageLeaseHeld"
	Disconnected = "StorageDisconnected"
	QuorumLost   = "QuorumLost"
)

const (
	// wordLasts is the time for which an agent's report counts, from the look at which this replica first saw it.
	// Agents repeat it each minute.
	wordLasts = 150 * time.Second
	// ownLasts is the time for which an agent's report that its own node runs counts. Agents repeat it every ten
	// seconds. It expires soon, since each node whose power is cut has reported it a moment before.
	ownLasts = 25 * time.Second
	// trusted is the time for which an agent counts whose claims nobody confirms, and the time without a claim after
	// which it counts again.
	trusted = 10 * time.Minute
	// named is the greatest number of reporters that a text names.
	named = 5
)

// heard is a sighting as text, which differs in each report, and when this replica first saw it.
type heard struct {
	text string
	at   time.Time
}

// claim is an agent's claim that nobody confirms: when such a claim was first and last heard.
type claim struct{ first, last time.Time }

// voices holds the reports that count in one look.
type voices struct {
	starves      map[string]bool     // by the Node that reports it
	moves, still map[string][]string // by the node that it is about: the reporters, sorted
	sees         map[string][]string // by the node: the reporters that see it run the boot that its Node shows
}

// listen reads the reports of all Nodes.
//
// Invariant: the age of a report is measured by this replica's looks, not by an agent's clock. A report counts for at
// most wordLasts, and only while the Lease of its Node has not run out and that Node is not dead. It only counts about
// other nodes of the same group.
func (s *Survey) listen() {
	h := s.history
	if h.words == nil {
		h.words, h.claims = map[string]heard{}, map[string]claim{}
	}
	s.voices = voices{starves: map[string]bool{}, moves: map[string][]string{}, still: map[string][]string{}, sees: map[string][]string{}}
	for _, m := range s.sorted {
		if m.Sighting == nil {
			delete(h.words, m.Name)
			continue
		}
		was, known := h.words[m.Name]
		if text := sightings.Encode(*m.Sighting); !known || was.text != text || was.at.After(s.now) {
			was = heard{text, s.now}
			h.words[m.Name] = was
		}
		if boot := m.Sighting.Sees[m.Name]; boot != "" && boot == m.Boot && s.now.Sub(was.at) <= ownLasts {
			s.voices.sees[m.Name] = append(s.voices.sees[m.Name], m.Name)
		}
		if m.Silent || m.Dead || m.Group == "" || s.now.Sub(was.at) > wordLasts {
			continue
		}
		s.voices.starves[m.Name] = m.Sighting.QuorumLost
		s.take(m, m.Sighting.SlotMoves, s.voices.moves)
		s.take(m, m.Sighting.SlotStill, s.voices.still)
		for name, boot := range m.Sighting.Sees {
			if boot == s.members[name].Boot && name != m.Name {
				s.take(m, []string{name}, s.voices.sees)
			}
		}
	}
	maps.DeleteFunc(h.words, func(name string, _ heard) bool { return s.members[name].Name == "" })
	s.follow()
}

func (s *Survey) take(speaker Member, list []string, to map[string][]string) {
	for _, name := range list {
		if o, there := s.members[name]; there && o.Group == speaker.Group && name != speaker.Name && !slices.Contains(to[name], speaker.Name) {
			to[name] = append(to[name], speaker.Name)
		}
	}
}

// Sees returns the reporters that see a node run the boot that its Node shows, if there are enough of them: two of its
// group, or the agent of the node itself, which the API server knows to be there. They permit nothing; a proof is not
// acted on while they see the node.
//
// Invariant: one agent that lies cannot make another node count as seen. The age of a report is measured by this
// replica's looks, and it is only about the boot that the Node shows at present.
func (s *Survey) Sees(node string) []string {
	by := s.voices.sees[node]
	if len(by) > 1 || slices.Contains(by, node) {
		return slices.Sorted(slices.Values(by))
	}
	return nil
}

// follow records when each agent began to make claims that nobody confirms.
//
// Invariant: one agent that lies holds nothing up for longer than trusted, however often it changes the claim. It can
// do so again only after it has made no claim for as long.
func (s *Survey) follow() {
	claims := s.history.claims
	maps.DeleteFunc(claims, func(_ string, c claim) bool { return s.now.Sub(c.last) > trusted || c.last.After(s.now) })
	stands := func(speaker string) {
		c, known := claims[speaker]
		if !known {
			c.first = s.now
		}
		c.last = s.now
		claims[speaker] = c
	}
	for _, about := range s.counted() {
		for name, by := range about {
			if len(by) == 1 && !s.members[name].Ready {
				stands(by[0])
			}
		}
	}
	for name, starves := range s.voices.starves {
		if starves && s.policy.OnlyWithQuorum {
			stands(name)
		}
	}
}

// counted returns the reports about slots that a policy uses: a report without consequence does not make a claim older.
func (s *Survey) counted() (of []map[string][]string) {
	if s.policy.SkipLeaseHeld {
		of = append(of, s.voices.moves)
	}
	if s.policy.SkipDisconnected {
		of = append(of, s.voices.still)
	}
	return of
}

// fades reports whether an agent's claim that nobody confirms no longer counts.
func (s *Survey) fades(speaker string) bool {
	return s.now.Sub(s.history.claims[speaker].first) > trusted
}

// Says counts the nodes with reports that count, by the kind of report.
func (s *Survey) Says() map[string]int {
	out := map[string]int{LeaseHeld: len(s.voices.moves), Disconnected: len(s.voices.still), QuorumLost: 0}
	for _, starves := range s.voices.starves {
		if starves {
			out[QuorumLost]++
		}
	}
	return out
}

// leaseHeld detects a node that is alive and only not heard: it keeps its lease on the LUN.
//
// Invariant: a proof outweighs it. A report that the slot moves does not hold up a boot that is proven dead. A node
// that this program has cut off is not heard, or has no storage, because of that: its fencing continues.
func (s *Survey) leaseHeld(subject Member) Verdict {
	if !s.policy.SkipLeaseHeld || subject.Dead || subject.Isolated {
		return allowed
	}
	return s.confirmed(LeaseHeld, s.voices.moves[subject.Name],
		"its slot on the LUN goes on changing, so it runs and keeps its lease (skip_storage_lease_held=yes), as reported by %s")
}

// disconnected detects a node that is alive, but does not reach its storage.
func (s *Survey) disconnected(subject Member) Verdict {
	if !s.policy.SkipDisconnected || subject.Dead || subject.Isolated {
		return allowed
	}
	return s.confirmed(Disconnected, s.voices.still[subject.Name],
		"it answers on a network, and does not reach the LUN (skip_storage_disconnected=yes), as reported by %s")
}

func (s *Survey) confirmed(reason string, by []string, text string) Verdict {
	switch {
	case len(by) > 1:
		return Verdict{Reason: reason, Text: fmt.Sprintf(text, names(by))}
	case len(by) == 1 && !s.fades(by[0]):
		return Verdict{Reason: reason, Text: fmt.Sprintf(text, names(by)+" alone, which counts for ten minutes")}
	}
	return allowed
}

// withoutQuorum detects a group in which every agent that reports has lost quorum, and ends itself.
//
// Invariant: fencing continues if there is a Node whose Lease has not run out and that does not report this.
func (s *Survey) withoutQuorum(subject Member) Verdict {
	if !s.policy.OnlyWithQuorum || subject.Dead || subject.Group == "" {
		return allowed
	}
	var by []string
	for _, m := range s.sorted {
		if m.Group != subject.Group || m.Name == subject.Name || m.Silent || m.Dead {
			continue
		}
		if !s.voices.starves[m.Name] || s.fades(m.Name) {
			return allowed
		}
		by = append(by, m.Name)
	}
	if len(by) == 0 {
		return allowed
	}
	return Verdict{Reason: QuorumLost, Text: fmt.Sprintf("all agents of group %s that report have lost quorum and end themselves (only_with_quorum=yes): %s",
		subject.Group, names(by))}
}

func names(list []string) string {
	if more := len(list) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:named], ", "), more)
	}
	return strings.Join(list, ", ")
}

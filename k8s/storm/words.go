package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// Reasons of the policies that rely on what agents say (docs/adr/0065).
const (
	LeaseHeld    = "StorageLeaseHeld"
	Disconnected = "StorageDisconnected"
	QuorumLost   = "QuorumLost"
)

const (
	// wordLasts is how long what an agent says counts, from the look at which this replica saw it first. Agents say it
	// again each minute.
	wordLasts = 150 * time.Second
	// ownLasts is how long an agent counts that says that its own node runs, which it says again every ten seconds. It ends
	// soon, since each node whose power is cut has said so a moment before.
	ownLasts = 25 * time.Second
	// trusted is how long an agent counts whose claims nobody confirms, and for how long it has to make none before it
	// counts again.
	trusted = 10 * time.Minute
	// named is how many of those who say something are named.
	named = 5
)

// heard is a sighting as text, which is another one each time it is said, and when this replica saw it first.
type heard struct {
	text string
	at   time.Time
}

// claim is what an agent claims that nobody confirms: from when to when something of that kind was heard.
type claim struct{ first, last time.Time }

// voices are what counts in one look.
type voices struct {
	starves      map[string]bool     // by the Node that says so
	moves, still map[string][]string // by the node that it is about: who says so, sorted
	sees         map[string][]string // and of the boot that its Node shows: who sees it run
}

// listen takes the words of all Nodes.
//
// Invariant: how old a word is follows from when this replica saw it, and from no clock of an agent. A word counts for no longer
// than wordLasts, while the Lease of the Node that bears it has not run out and that Node is not dead; and only about nodes of
// that Node's group, never about that Node itself.
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

// Sees are those who say that they see a node run the boot that its Node shows, if they are enough: two of its group, or the
// agent of the node itself, whom the API server knows to be there. It permits nothing: what is proven is not acted on
// meanwhile.
//
// Invariant: one agent that lies says nothing of another node by that. What an agent says is as old as it is by this replica's
// looks, and of the boot that the Node shows at present.
func (s *Survey) Sees(node string) []string {
	by := s.voices.sees[node]
	if len(by) > 1 || slices.Contains(by, node) {
		return slices.Sorted(slices.Values(by))
	}
	return nil
}

// follow keeps since when each agent claims what nobody confirms.
//
// Invariant: one agent that lies holds nothing up for longer than trusted, whatever it claims of whom in turn, and then not
// again before it has claimed nothing for as long.
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

// counted is what is said of slots, as far as a policy relies on it: what has no consequence makes no claim old.
func (s *Survey) counted() (of []map[string][]string) {
	if s.policy.SkipLeaseHeld {
		of = append(of, s.voices.moves)
	}
	if s.policy.SkipDisconnected {
		of = append(of, s.voices.still)
	}
	return of
}

// fades reports whether what an agent claims, and nobody confirms, counts no more.
func (s *Survey) fades(speaker string) bool {
	return s.now.Sub(s.history.claims[speaker].first) > trusted
}

// Says counts the nodes about which somebody says something that counts, by what that is.
func (s *Survey) Says() map[string]int {
	out := map[string]int{LeaseHeld: len(s.voices.moves), Disconnected: len(s.voices.still), QuorumLost: 0}
	for _, starves := range s.voices.starves {
		if starves {
			out[QuorumLost]++
		}
	}
	return out
}

// leaseHeld is a node that lives, and is only unheard: it keeps its lease on the LUN.
//
// Invariant: what is proven is proven. A boot that is dead is held up by nobody's word that its slot moves. What this
// program has cut off is unheard, or without its storage, by that: it goes on.
func (s *Survey) leaseHeld(subject Member) Verdict {
	if !s.policy.SkipLeaseHeld || subject.Dead || subject.Isolated {
		return allowed
	}
	return s.confirmed(LeaseHeld, s.voices.moves[subject.Name],
		"its slot on the LUN goes on changing, so it runs and keeps its lease (skip_storage_lease_held=yes), say %s")
}

// disconnected is a node that lives, and that does not reach its storage.
func (s *Survey) disconnected(subject Member) Verdict {
	if !s.policy.SkipDisconnected || subject.Dead || subject.Isolated {
		return allowed
	}
	return s.confirmed(Disconnected, s.voices.still[subject.Name],
		"it answers on a network, and does not reach the LUN (skip_storage_disconnected=yes), say %s")
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

// withoutQuorum is a group of which everybody who can say something has lost quorum, and ends itself.
//
// Invariant: one Node whose Lease has not run out, and which does not say so, is enough for going on.
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
	return Verdict{Reason: QuorumLost, Text: fmt.Sprintf("all agents of group %s that say something have lost quorum and end themselves (only_with_quorum=yes): %s",
		subject.Group, names(by))}
}

func names(list []string) string {
	if more := len(list) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:named], ", "), more)
	}
	return strings.Join(list, ", ")
}

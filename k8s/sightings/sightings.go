package sightings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Annotation is where an agent says it, on its own Node and on no other.
const Annotation = "fencing-agent.io/sightings"

const (
	// Most is how many nodes each list of a [Sighting] has.
	Most = 64
	// MostBytes is how long the annotation may be. The admission policy refuses longer ones.
	MostBytes = 8192
	// Again is how often an agent says again what it goes on seeing. A reader goes by no text for longer than 150 s (k8s/storm):
	// one of those that say it again may be lost, and the next one late.
	Again = time.Minute
)

// Sighting is what one agent sees at this moment.
type Sighting struct {
	Boot   string `json:"boot"`   // of the agent's node, as deaths name it
	Number uint64 `json:"number"` // greater each time it is said, in one boot
	// QuorumLost: the agent has lost quorum, and its watchdog is not fed any more.
	QuorumLost bool `json:"quorumLost,omitempty"`
	// SlotMoves are members that the agent hears on no network, and whose slots on the LUN go on changing.
	SlotMoves []string `json:"slotMoves,omitempty"`
	// SlotStill are members that the agent hears, and whose slots stand still while the agent itself reads the LUN.
	SlotStill []string `json:"slotStill,omitempty"`
	// Sees are nodes that run although Kubernetes does not hear them, with the boots that they run: members that this agent
	// hears and that nobody shows their Nodes, and its own node while that is not Ready.
	Sees map[string]string `json:"sees,omitempty"`
}

// Empty reports whether there is nothing to say.
func (s *Sighting) Empty() bool {
	return !s.QuorumLost && len(s.SlotMoves)+len(s.SlotStill)+len(s.Sees) == 0
}

// Same reports whether two say the same, whenever they were said.
func (s *Sighting) Same(o *Sighting) bool {
	return s.QuorumLost == o.QuorumLost && slices.Equal(s.SlotMoves, o.SlotMoves) && slices.Equal(s.SlotStill, o.SlotStill) &&
		maps.Equal(s.Sees, o.Sees)
}

// Encode is the annotation. Names that do not fit are left out, from the end of the longer list; what is seen goes last.
func Encode(s Sighting) string {
	s.Sees = bounded(s.Sees)
	s.SlotMoves, s.SlotStill = s.SlotMoves[:min(len(s.SlotMoves), Most)], s.SlotStill[:min(len(s.SlotStill), Most)]
	for {
		text, err := json.Marshal(s)
		switch {
		case err != nil || len(s.SlotMoves)+len(s.SlotStill)+len(s.Sees) == 0: // strings and numbers always have a form
			return string(text)
		case len(text) <= MostBytes:
			return string(text)
		case len(s.SlotMoves)+len(s.SlotStill) == 0:
			s.Sees = first(s.Sees, len(s.Sees)-1)
		case len(s.SlotMoves) >= len(s.SlotStill):
			s.SlotMoves = s.SlotMoves[:len(s.SlotMoves)-1]
		default:
			s.SlotStill = s.SlotStill[:len(s.SlotStill)-1]
		}
	}
}

// Decode reads an annotation. What it does not know is passed over: a later version may say more.
func Decode(text string) (*Sighting, error) {
	if len(text) > MostBytes {
		return nil, fmt.Errorf("annotation %s: %d bytes, at most %d are read", Annotation, len(text), MostBytes)
	}
	var s Sighting
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if !deaths.IsBoot(s.Boot) {
		return nil, fmt.Errorf("annotation %s: boot %.40q is not 16 hexadecimal digits", Annotation, s.Boot)
	}
	s.SlotMoves, s.SlotStill = s.SlotMoves[:min(len(s.SlotMoves), Most)], s.SlotStill[:min(len(s.SlotStill), Most)]
	s.Sees = bounded(s.Sees)
	return &s, nil
}

// bounded leaves out what is no boot, and what is too much.
func bounded(sees map[string]string) map[string]string {
	out := map[string]string{}
	for node, boot := range sees {
		if deaths.IsBoot(boot) {
			out[node] = boot
		}
	}
	return first(out, Most)
}

// first are the first of them, by name; nil for none.
func first(sees map[string]string, most int) map[string]string {
	out := map[string]string{}
	for i, node := range slices.Sorted(maps.Keys(sees)) {
		if i < most {
			out[node] = sees[node]
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

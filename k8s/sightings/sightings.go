package sightings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Annotation is the annotation in which an agent reports what it sees. It writes to its own Node only.
const Annotation = "fencing-agent.io/sightings"

const (
	// Most is the greatest number of nodes in each list of a [Sighting].
	Most = 64
	// MostBytes is the greatest length of the annotation. The admission policy refuses longer ones.
	MostBytes = 8192
	// Again is the interval at which an agent repeats what it still sees. A report counts for 150 s (k8s/storm), so
	// that one repetition may be lost and the next one late.
	Again = time.Minute
)

// Sighting is what one agent sees at one moment.
type Sighting struct {
	Boot   string `json:"boot"`   // of the agent's node, as deaths name it
	Number uint64 `json:"number"` // higher in each report of one boot
	// QuorumLost is true if the agent has lost quorum, and its watchdog is no longer fed.
	QuorumLost bool `json:"quorumLost,omitempty"`
	// SlotMoves lists members that the agent hears on no network, but whose slots on the LUN keep changing.
	SlotMoves []string `json:"slotMoves,omitempty"`
	// SlotStill lists members that the agent hears, but whose slots do not change although the agent itself reads the
	// LUN.
	SlotStill []string `json:"slotStill,omitempty"`
	// Sees lists nodes that run although Kubernetes does not hear them, with their boots: members that this agent hears
	// and whose agents cannot reach their Nodes, and its own node while that is not Ready.
	Sees map[string]string `json:"sees,omitempty"`
}

// Empty reports whether there is nothing to report.
func (s *Sighting) Empty() bool {
	return !s.QuorumLost && len(s.SlotMoves)+len(s.SlotStill)+len(s.Sees) == 0
}

// Same reports whether two sightings have the same content, whatever their numbers.
func (s *Sighting) Same(o *Sighting) bool {
	return s.QuorumLost == o.QuorumLost && slices.Equal(s.SlotMoves, o.SlotMoves) && slices.Equal(s.SlotStill, o.SlotStill) &&
		maps.Equal(s.Sees, o.Sees)
}

// Encode returns the annotation. Names that do not fit are left out, from the end of the longer list; Sees is left out
// last.
func Encode(s Sighting) string {
	s.Sees = bounded(s.Sees)
	s.SlotMoves, s.SlotStill = s.SlotMoves[:min(len(s.SlotMoves), Most)], s.SlotStill[:min(len(s.SlotStill), Most)]
	for {
		text, err := json.Marshal(s)
		switch {
		case err != nil || len(s.SlotMoves)+len(s.SlotStill)+len(s.Sees) == 0: // strings and numbers can always be encoded
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

// Decode reads an annotation. It ignores unknown fields: a later version may have more.
func Decode(text string) (*Sighting, error) {
	if len(text) > MostBytes {
		return nil, fmt.Errorf("annotation %s: it has %d bytes, but must have at most %d", Annotation, len(text), MostBytes)
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

// bounded leaves out entries that are not boots, and entries beyond the limit.
func bounded(sees map[string]string) map[string]string {
	out := map[string]string{}
	for node, boot := range sees {
		if deaths.IsBoot(boot) {
			out[node] = boot
		}
	}
	return first(out, Most)
}

// first returns the first most entries, by name; nil for none.
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

package sightings

import (
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// What agents tell a controller, where they have no access to the API server, stands in a ConfigMap for each of their Nodes
// (docs/adr/0061), in the form of the annotation.
const (
	// KeptLabel, with the value KeptValue, is on these ConfigMaps; the text is under KeptKey.
	KeptLabel = deaths.ReportLabel
	KeptValue = "sightings"
	KeptKey   = "sightings.json"
	// HeardKey has when a controller heard it, by its clock.
	HeardKey = "heard"
	// Fresh is how long what is kept counts, by the controllers' clocks. An agent that was started again, or has another way to
	// speak by now, does not take back what the one before it has told: that ends by itself.
	Fresh = 10 * time.Minute
)

// KeptName is the name of the ConfigMap with what the agent of this node has told.
func KeptName(node string) string { return deaths.NameOf("fencing-sightings-", node) }

// Kept reads a ConfigMap. It is nil for what is none, or cannot be read: that says nothing of anybody.
func Kept(labels, data map[string]string) *Sighting {
	if labels[KeptLabel] != KeptValue {
		return nil
	}
	s, err := Decode(data[KeptKey])
	if err != nil {
		return nil
	}
	return s
}

// IsFresh reports whether what a ConfigMap has was heard a short time ago. What is from the future was not.
func IsFresh(data map[string]string, now time.Time) bool {
	heard, err := time.Parse(time.RFC3339, data[HeardKey])
	return err == nil && now.Sub(heard).Abs() <= Fresh
}

// After reports whether this may take the place of was, which is nil if nothing was told yet. What was on its way for long takes
// the place of nothing later.
func (s *Sighting) After(was *Sighting) bool {
	return was == nil || was.Boot != s.Boot || s.Number > was.Number
}

// Of is what the agent of a Node sees, by the annotation and by what it has told: either may be nil. boot is what the Node shows.
//
// Invariant: what was said in another boot is nothing, and of the two the later one counts, with nothing of the other. So one
// agent is one voice, whatever ways it has to speak.
func Of(boot string, written, told *Sighting) *Sighting {
	if written != nil && written.Boot != boot {
		written = nil
	}
	if told == nil || told.Boot != boot || written != nil && !told.After(written) {
		return written
	}
	return told
}

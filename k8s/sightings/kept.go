package sightings

import (
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Agents without access to the API server report to a controller. It stores the report in a ConfigMap for each of their
// Nodes (docs/adr/0061), in the form of the annotation.
const (
	// KeptLabel, with the value KeptValue, marks these ConfigMaps; the report is under KeptKey.
	KeptLabel = deaths.ReportLabel
	KeptValue = "sightings"
	KeptKey   = "sightings.json"
	// HeardKey holds when a controller got the report, by the controller's clock.
	HeardKey = "heard"
	// Fresh is the time for which a stored report counts, by the controllers' clocks. An agent that was restarted, or
	// that now reports in another way, does not withdraw the report of the agent before it: the report expires by
	// itself.
	Fresh = 10 * time.Minute
)

// KeptName returns the name of the ConfigMap with the report of this node's agent.
func KeptName(node string) string { return deaths.NameOf("fencing-sightings-", node) }

// Kept reads a ConfigMap. It returns nil if it is not a report or cannot be read: then nothing is reported.
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

// IsFresh reports whether the report in a ConfigMap is recent. A time in the future is not recent.
func IsFresh(data map[string]string, now time.Time) bool {
	heard, err := time.Parse(time.RFC3339, data[HeardKey])
	return err == nil && now.Sub(heard).Abs() <= Fresh
}

// After reports whether this may replace was, which is nil if there is no report yet. A report that was delayed on its
// way never replaces a later one.
func (s *Sighting) After(was *Sighting) bool {
	return was == nil || was.Boot != s.Boot || s.Number > was.Number
}

// Of returns what the agent of a Node sees, by the annotation and by its report; either may be nil. boot is the boot
// that the Node shows.
//
// Invariant: a report from another boot does not count, and only the later of the two counts. So an agent is one
// reporter, in whatever ways it reports.
func Of(boot string, written, told *Sighting) *Sighting {
	if written != nil && written.Boot != boot {
		written = nil
	}
	if told == nil || told.Boot != boot || written != nil && !told.After(written) {
		return written
	}
	return told
}

package deaths

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Report is what the agent of a node has reported to a controller, where agents have no access to the API server
// (docs/adr/0061). It replaces the annotation that such an agent cannot write. A controller keeps one for each node
// whose agent has ever reported.
type Report struct {
	Node string
	Boot string // the boot of the agent's node in which it was sent
	// At is the time at which it was sent, by the agent's clock, in nanoseconds since that boot. It orders the reports
	// of one node.
	At uint64
	// Over is the [Digest] of the annotation that the node's Node had when this report was sent.
	Over   string
	Heard  time.Time // by the controller's clock
	Deaths []Death
}

const (
	// Again is the interval at which an agent repeats deaths that it has reported.
	Again = 5 * time.Minute
	// Valid is the time for which reported deaths count. An agent may never get its access to the API server back, or
	// may be replaced by one that has access. Nobody then withdraws what it reported here, so the report expires by
	// itself.
	Valid = 15 * time.Minute

	// ReportLabel, with the value ReportValue, marks the ConfigMaps that contain a [Report], under the key ReportKey.
	ReportLabel = "fencing-agent.io/members"
	ReportValue = "deaths"
	ReportKey   = "deaths.json"

	reportPrefix  = "fencing-deaths-"
	longestName   = 253 // bytes of an object's name
	reportVersion = 1
	// mostReport is more bytes than a Report needs. It limits how much a reader reads.
	mostReport = 2*MostBytes + 1024
)

// The reasons to refuse a report.
var (
	ErrOtherBoot = errors.New("the report is from another boot than the one that the Node shows")
	ErrOld       = errors.New("a later report is already there")
	// ErrUnreadable means that the report of a node's agent is unknown.
	ErrUnreadable = errors.New("it cannot be read as a report of deaths")
)

// Accept reports whether now may replace was, which is nil if there is no report yet. boot is the boot that the node's
// Node shows. A report that was delayed on its way never replaces a later one, whichever replica gets it.
func Accept(was *Report, now Report, boot string) error {
	switch {
	case !IsBoot(now.Boot) || now.Boot != boot:
		return ErrOtherBoot
	case was != nil && was.Boot == now.Boot && now.At <= was.At:
		return ErrOld
	}
	return nil
}

// Words returns the deaths that a Node names, by its annotation and by its agent's report, and whether there may have
// been no room for more.
//
// Invariant: only the later one of annotation and report counts. So a death that an agent withdraws in one of them does
// not stay in effect through the other. A report is valid for [Valid]; after that the Node names no death, and
// withdraws none.
func Words(annotation string, told *Report, now time.Time) (list []Death, full bool) {
	if told == nil || told.Over != Digest(annotation) {
		list, _ = Decode(annotation) // an annotation that cannot be read names no death
		return list, Full(annotation)
	}
	if age := now.Sub(told.Heard); len(told.Deaths) > 0 && (age > Valid || age < -Valid) {
		return nil, true
	}
	return told.Deaths, Full(Encode(told.Deaths))
}

// Last returns the deaths that were named last, however long ago: an agent that was restarted continues with these.
func Last(annotation string, told *Report) []Death {
	if told == nil {
		list, _ := Decode(annotation)
		return list
	}
	list, _ := Words(annotation, told, told.Heard)
	return list
}

// Digest distinguishes annotations from each other. It is empty if there is none.
func Digest(annotation string) string {
	if annotation == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(annotation))
	return hex.EncodeToString(sum[:16])
}

// ReportName returns the name of the ConfigMap with the report of this node's agent.
func ReportName(node string) string { return NameOf(reportPrefix, node) }

// NameOf returns the name of an object about a node: a prefix, and what identifies the node.
func NameOf(prefix, node string) string {
	if len(prefix)+len(node) <= longestName {
		return prefix + node
	}
	sum := sha256.Sum256([]byte(node))
	end := "-" + hex.EncodeToString(sum[:8])
	return prefix + node[:longestName-len(prefix)-len(end)] + end
}

// ReportIn reads a ConfigMap. Its name has to be the [ReportName] of the node in the report, so that a copy does not
// count.
func ReportIn(name string, labels, data map[string]string) (Report, error) {
	if labels[ReportLabel] != ReportValue {
		return Report{}, fmt.Errorf("ConfigMap %s: %w: it has no label %s=%s", name, ErrUnreadable, ReportLabel, ReportValue)
	}
	r, err := DecodeReport(data[ReportKey])
	if err == nil && ReportName(r.Node) != name {
		err = fmt.Errorf("it is the report of node %s, whose ConfigMap has the name %s", r.Node, ReportName(r.Node))
	}
	if err != nil {
		return Report{}, fmt.Errorf("ConfigMap %s: %w: %w", name, ErrUnreadable, err)
	}
	return r, nil
}

type reportOnFile struct {
	Version int             `json:"version"`
	Node    string          `json:"node"`
	Boot    string          `json:"boot"`
	At      uint64          `json:"at"`
	Over    string          `json:"over,omitempty"`
	Heard   time.Time       `json:"heard"`
	Deaths  json.RawMessage `json:"deaths"`
}

// EncodeReport encodes a report for storage. If there is no room for all deaths, the oldest are left out.
func EncodeReport(t Report) (string, error) {
	text, err := json.Marshal(reportOnFile{reportVersion, t.Node, t.Boot, t.At, t.Over, t.Heard.UTC().Truncate(time.Second), json.RawMessage(Encode(t.Deaths))})
	return string(text), err
}

// DecodeReport decodes a report. If it cannot be read, DecodeReport returns an error, and no death is named or
// withdrawn.
func DecodeReport(text string) (Report, error) {
	if len(text) > mostReport {
		return Report{}, fmt.Errorf("reported deaths: the report has %d bytes, but must have at most %d", len(text), mostReport)
	}
	var f reportOnFile
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	switch err := d.Decode(&f); {
	case err != nil:
		return Report{}, fmt.Errorf("reported deaths: %w", err)
	case f.Version != reportVersion:
		return Report{}, fmt.Errorf("reported deaths: the report has format %d, but this version only reads format %d", f.Version, reportVersion)
	case f.Node == "" || !IsBoot(f.Boot):
		return Report{}, fmt.Errorf("reported deaths: the report must name its node and its boot: it is by node %q in boot %q", f.Node, f.Boot)
	}
	list, err := Decode(string(f.Deaths))
	if err != nil {
		return Report{}, fmt.Errorf("deaths reported by %s: %w", f.Node, err)
	}
	return Report{Node: f.Node, Boot: f.Boot, At: f.At, Over: f.Over, Heard: f.Heard, Deaths: list}, nil
}

package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Overrides replaces single gossip parameters; a nil parameter keeps the timing's value.
type Overrides struct {
	GossipInterval   *time.Duration `yaml:"gossipInterval,omitempty" range:"20ms..10s"`
	GossipNodes      *int           `yaml:"gossipNodes,omitempty" range:"1..32"`
	GossipPacketSize *int           `yaml:"gossipPacketSize,omitempty" range:"256..1400"`
	ProbeInterval    *time.Duration `yaml:"probeInterval,omitempty" range:"100ms..30s"`
	ProbeTimeout     *time.Duration `yaml:"probeTimeout,omitempty" range:"10ms..12s"`
	IndirectChecks   *int           `yaml:"indirectChecks,omitempty" range:"1..32"`
	RetransmitMult   *int           `yaml:"retransmitMult,omitempty" range:"1..32"`
	PushPullInterval *time.Duration `yaml:"pushPullInterval,omitempty" range:"1s..1h"`
	TCPTimeout       *time.Duration `yaml:"tcpTimeout,omitempty" range:"100ms..1m"`

	// The last two are limited to memberlist's own values: more would only make the worst time to detect a crash
	// longer (netgossip.Params.WorstDetection).
	SuspicionMult           *int `yaml:"suspicionMult,omitempty" range:"1..16"`
	SuspicionMaxTimeoutMult *int `yaml:"suspicionMaxTimeoutMult,omitempty" range:"1..6"`
	AwarenessMaxMultiplier  *int `yaml:"awarenessMaxMultiplier,omitempty" range:"1..8"`

	GossipToTheDeadTime *time.Duration `yaml:"gossipToTheDeadTime,omitempty" range:"1s..10m"`
	DeadNodeReclaimTime *time.Duration `yaml:"deadNodeReclaimTime,omitempty" range:"1s..10m"`
	RejoinInterval      *time.Duration `yaml:"rejoinInterval,omitempty" range:"100ms..5m"`

	EvidenceInterval *time.Duration `yaml:"evidenceInterval,omitempty" range:"50ms..1m"`
	EvidenceTimeout  *time.Duration `yaml:"evidenceTimeout,omitempty" range:"10ms..30s"`
	EvidenceMaxAge   *time.Duration `yaml:"evidenceMaxAge,omitempty" range:"200ms..5m"` // D_max
}

// Apply puts the overrides into p, whose fields have the same names.
func (o *Overrides) Apply(p *netgossip.Params) {
	from, to := reflect.ValueOf(o).Elem(), reflect.ValueOf(p).Elem()
	for i := range from.NumField() {
		if with := from.Field(i); !with.IsNil() {
			to.FieldByName(from.Type().Field(i).Name).Set(with.Elem())
		}
	}
}

func override[T any](to *T, with *T) {
	if with != nil {
		*to = *with
	}
}

// Given lists the keys of the parameters that are overridden.
func (o *Overrides) Given() []string {
	var keys []string
	v := reflect.ValueOf(o).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if !v.FieldByIndex(f.index).IsNil() {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// checkGossip checks the parameters that result, so that an override which does not
// fit the timing's other values is found as well.
func checkGossip(c *Config, r *report) {
	if p := c.Params(); !c.Experimental.Lifeguard && (p.AwarenessMaxMultiplier > 1 || p.SuspicionMaxTimeoutMult > 1) && r.intact("experimental") {
		r.problem("experimental.lifeguard", "is off, but other keys have an effect only if it is on", false,
			"true, or no awarenessMaxMultiplier and suspicionMaxTimeoutMult above 1")
	}
	checkSuspicion(c, r)
	checkEvidence(c, r)
}

// checkSuspicion checks what enters memberlist's formulas.
func checkSuspicion(c *Config, r *report) {
	n, p := len(c.Members.Static), c.Params()
	const at = "experimental."
	if r.intact(at + "probeInterval") {
		switch {
		case p.ProbeTimeout >= p.ProbeInterval:
			r.problem(at+"probeTimeout", "is too long: the probe would be over before a helper is asked",
				p.ProbeTimeout, "at most 0.4 probeInterval = %v", 4*p.ProbeInterval/10)
		case 10*p.ProbeTimeout > 4*p.ProbeInterval:
			r.warn(at+"probeTimeout", fmt.Sprintf("is above 0.4 probeInterval = %v: the helpers' nacks come too late, and each crash slows the probing of healthy nodes", 4*p.ProbeInterval/10), p.ProbeTimeout)
		}
	}
	if n > 3 && p.SuspicionMult < 3 {
		r.problem(at+"suspicionMult", "is too small: a suspicion would need no second opinion",
			p.SuspicionMult, "at least 3 with more than 3 members (there are %d)", n)
	}
	if n < 2 || !r.intact(at+"probeInterval", at+"gossipInterval", at+"suspicionMult", at+"retransmitMult", at+"gossipNodes") {
		return
	}
	// The suspicion has to reach the suspect, and the refutation all others.
	if there := 2 * p.Spread(n); there >= p.SuspicionMin(n) {
		r.problem(at+"gossipInterval", fmt.Sprintf("is too long: a suspicion ends after %v, and its refutation takes %v", p.SuspicionMin(n), there),
			p.GossipInterval, "less than %v with these probeInterval, suspicionMult and gossipNodes", (p.GossipInterval * p.SuspicionMin(n) / there).Round(time.Millisecond))
	}
	if few := p.Transmissions(n); few < fewTransmissions {
		r.warn(at+"retransmitMult", fmt.Sprintf("is small: with %d members a piece of news is sent %d times, and a lossy network loses refutations below %d", n, few, fewTransmissions), p.RetransmitMult)
	}
}

// fewTransmissions of one piece of news by one member lose refutations: with 4 and a fifth
// of the packets lost, healthy nodes of a cluster of three are declared dead every hour.
const fewTransmissions = 8

// checkEvidence checks what the evidence protocol needs.
func checkEvidence(c *Config, r *report) {
	p := c.Params()
	const at = "experimental."
	if p.EvidenceTimeout >= p.EvidenceInterval && r.intact(at+"evidenceInterval") {
		r.problem(at+"evidenceTimeout", "is too long: a question would outlive the next one",
			p.EvidenceTimeout, "less than evidenceInterval = %v", p.EvidenceInterval)
	}
	if p.EvidenceMaxAge < 3*p.EvidenceInterval && r.intact(at+"evidenceInterval") {
		r.problem(at+"evidenceMaxAge", "is too short: two lost packets would make a healthy peer unreachable",
			p.EvidenceMaxAge, "at least 3 evidenceInterval = %v", 3*p.EvidenceInterval)
	}
}

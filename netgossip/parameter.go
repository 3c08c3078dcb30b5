package netgossip

import "time"

// Parameter is one of the Params, under its name in the configuration, in the status and in metrics. Exactly one of the
// pointers is set; it points into the Params from which the list was made.
type Parameter struct {
	Name     string
	Duration *time.Duration
	Count    *int
}

// List names all parameters, in the order of the struct. The value that it points to may be changed.
func (p *Params) List() []Parameter {
	duration := func(name string, d *time.Duration) Parameter { return Parameter{Name: name, Duration: d} }
	count := func(name string, n *int) Parameter { return Parameter{Name: name, Count: n} }
	return []Parameter{
		duration("gossipInterval", &p.GossipInterval),
		count("gossipNodes", &p.GossipNodes),
		count("gossipPacketSize", &p.GossipPacketSize),
		duration("probeInterval", &p.ProbeInterval),
		duration("probeTimeout", &p.ProbeTimeout),
		count("indirectChecks", &p.IndirectChecks),
		count("retransmitMult", &p.RetransmitMult),
		duration("pushPullInterval", &p.PushPullInterval),
		duration("tcpTimeout", &p.TCPTimeout),
		count("suspicionMult", &p.SuspicionMult),
		count("suspicionMaxTimeoutMult", &p.SuspicionMaxTimeoutMult),
		count("awarenessMaxMultiplier", &p.AwarenessMaxMultiplier),
		duration("gossipToTheDeadTime", &p.GossipToTheDeadTime),
		duration("deadNodeReclaimTime", &p.DeadNodeReclaimTime),
		duration("rejoinInterval", &p.RejoinInterval),
		duration("evidenceInterval", &p.EvidenceInterval),
		duration("evidenceTimeout", &p.EvidenceTimeout),
		duration("evidenceMaxAge", &p.EvidenceMaxAge),
	}
}

// Number returns the value as a metric shows it: seconds or a count.
func (p Parameter) Number() float64 {
	if p.Duration != nil {
		return p.Duration.Seconds()
	}
	return float64(*p.Count)
}

// Value returns the value as logs show it.
func (p Parameter) Value() any {
	if p.Duration != nil {
		return *p.Duration
	}
	return *p.Count
}

// Consequences lists the times and counts that follow from the parameters for a roster of n members, in the same form
// as List.
func (p *Params) Consequences(n int) []Parameter {
	low, high, typical, worst := p.SuspicionMin(n), p.SuspicionMax(n), p.TypicalDetection(n), p.WorstDetection(n)
	transmissions := p.Transmissions(n)
	return []Parameter{
		{Name: "suspicionMin", Duration: &low},
		{Name: "suspicionMax", Duration: &high},
		{Name: "typicalDetection", Duration: &typical},
		{Name: "worstDetection", Duration: &worst},
		{Name: "transmissions", Count: &transmissions},
	}
}

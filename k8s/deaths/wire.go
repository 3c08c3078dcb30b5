package deaths

import (
	"fmt"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Told encodes deaths as an agent reports them to its controller, and as the controller answers.
func Told(list []Death) (out []*fencingv1.ProvenDeath) {
	for i := range list {
		d := &list[i]
		out = append(out, &fencingv1.ProvenDeath{Node: d.Node, Boot: d.Boot, Proof: d.Proof, At: d.At.Unix(), Said: d.Said})
	}
	return out
}

// OfTold reads reported deaths. It returns the entries that are valid deaths, and an error if there are others.
func OfTold(list []*fencingv1.ProvenDeath) (out []Death, err error) {
	for i, m := range list {
		d := Death{Node: m.GetNode(), Boot: m.GetBoot(), Proof: m.GetProof(), At: time.Unix(m.GetAt(), 0).UTC(), Said: m.GetSaid()}
		switch {
		case i >= Most:
			return out, fmt.Errorf("there are too many deaths: at most %d are accepted", Most)
		case d.Valid():
			out = append(out, d)
		default:
			err = fmt.Errorf("the entry for node %.60q is not a valid death: its node or boot is missing, or another field is not valid", d.Node)
		}
	}
	return out, err
}

// Found encodes the deaths that a controller has found, to send them to agents.
func Found(list []Death) *fencingv1.FoundDeaths {
	m := &fencingv1.FoundDeaths{}
	for i := range list {
		d := &list[i]
		m.Deaths = append(m.Deaths, &fencingv1.FoundDeath{
			Node: d.Node, Boot: d.Boot, Proof: d.Proof, Reference: d.Reference, At: d.At.Unix(), Contradicted: d.Contradicted,
		})
	}
	return m
}

// OfFound reads found deaths. Entries that are not deaths are left out: the rest may be right.
func OfFound(m *fencingv1.FoundDeaths) (out []Death) {
	for _, f := range m.GetDeaths()[:min(len(m.GetDeaths()), Most)] {
		d := Death{
			Node: f.GetNode(), Boot: f.GetBoot(), Proof: f.GetProof(), Reference: f.GetReference(), At: time.Unix(f.GetAt(), 0).UTC(), Contradicted: f.GetContradicted(),
		}
		if d.Valid() && (d.Proof == "power" || d.Proof == "kdump") {
			out = append(out, d)
		}
	}
	return out
}

package wire

import (
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func factsToWire(facts *[netgossip.MaxFacts]netgossip.Fact) (out []*Fact) {
	for i := range facts {
		if f := &facts[i]; f.Kind != 0 {
			out = append(out, &Fact{Kind: uint32(f.Kind), Name: f.Name, Boot: f.Boot, TimeoutMs: millisUp(f.Timeout), Teller: f.Teller})
		}
	}
	return out
}

// factsFromWire returns the facts that this version knows, and of each only the fields of its kind. A fact without a
// name or a boot is ignored.
func factsFromWire(list []*Fact) (facts [netgossip.MaxFacts]netgossip.Fact) {
	n := 0
	for _, w := range list {
		kind := netgossip.FactKind(min(w.GetKind(), 255)) //nolint:gosec // 255 at most
		if n == len(facts) {
			break
		}
		if !kind.Known() || w.GetName() == 0 || w.GetBoot() == 0 {
			continue
		}
		f := netgossip.Fact{Kind: kind, Name: w.GetName(), Boot: w.GetBoot()}
		switch kind {
		case netgossip.FactSentence:
			f.Timeout = time.Duration(w.GetTimeoutMs()) * time.Millisecond
		case netgossip.FactContradicted, netgossip.FactUnfired:
		default:
			f.Teller = w.GetTeller()
		}
		facts[n] = f
		n++
	}
	return facts
}

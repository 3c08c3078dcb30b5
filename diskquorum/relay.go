package diskquorum

import (
	"encoding/binary"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// A holder that lost its path to the LUN while its half feeds under a grant may lean on the
// landed writes of the other holders (L7). What that relies on:
//
//   - Somebody else is decided for only after every holder is done. A node that relays writes its
//     slot, so it is not expired; it is done only by another token or boot, and that takes
//     away the evidence of the token which the grant names. Nobody then feeds under the
//     grant for longer than G, which is what everybody reckons with.
//   - If all holders have expired, none of them had written for the time of the expiry, so
//     there was nothing to relay, and all tokens had moved on before (lapse).
//
// So a relay is valid for G from the start of the write that it reports, not from its arrival, and it counts only if
// this node's token was kept alive without a gap.

// Log names the log of the arbiter's LUN.
func (a *Arbiter) Log() uint64 { return a.log }

// LogID names the log of a LUN, that of a set if it has three devices; 0: no device is known.
func LogID(devices []*Superblock) uint64 {
	for _, sb := range devices {
		switch {
		case sb == nil:
		case sb.Devices > 1:
			return max(1, binary.LittleEndian.Uint64(sb.SetID[:]))
		default:
			return max(1, binary.LittleEndian.Uint64(sb.ID[:]))
		}
	}
	return 0
}

// relay is what this node tells the others: only about its own writes, so that no report comes back to its source
// (counterexample 20).
func (a *Arbiter) relay() netgossip.Relay {
	if a.anchor.IsZero() {
		return netgossip.Relay{}
	}
	return netgossip.Relay{Log: a.log, Instance: a.lease.latest, Anchor: a.anchor}
}

// takeRelays takes the reports of the other holders of the latest decision that this node has read.
// It comes after lapse: a token that has moved on is not brought back. A value that may be
// decided after that one (B7) proves that its holders are done: then no report counts.
func (a *Arbiter) takeRelays(in *Input) {
	g := a.lease.grant
	if named, ok := g.token(a.slot); !in.Tie || !ok || named != a.token || a.lease.pending || a.silent {
		return
	}
	for _, h := range g.Holders {
		if int(h.Slot) != a.slot {
			a.relayed = max(a.relayed, a.relayOf(h))
		}
	}
}

// relayOf is the start of the latest write that a holder reported, or zero.
func (a *Arbiter) relayOf(h Holder) boottime.Instant {
	if a.memberEvidence(h, a.view).IsZero() {
		return 0
	}
	idx, _ := a.member(int(h.Slot))
	r := a.evidence.Relay(idx)
	if r.Log != a.log || r.Instance != a.lease.latest {
		return 0
	}
	return r.Anchor
}

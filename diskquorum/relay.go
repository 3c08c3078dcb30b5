package diskquorum

import (
	"encoding/binary"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// A holder that lost its path to the LUN while its half feeds under a grant may rely on the landed writes of the other
// holders (L7). This is safe because:
//
//   - Another half gets a grant only after every holder is done. A node that relays writes its slot, so it is not
//     expired. It can be done only because of another token or boot, and then there is no more evidence of the token
//     that the grant names. After that no node feeds under the grant for longer than G, and all nodes allow for that
//     time.
//   - If all holders have expired, none of them had written for the time of the expiry, so there was nothing to relay,
//     and all tokens had changed before (lapse).
//
// So a relay is valid for G from the start of the write that it reports, not from its arrival, and it counts only if
// this node's token was kept alive without a gap.

// Log returns the identity of the log on the arbiter's LUN.
func (a *Arbiter) Log() uint64 { return a.log }

// LogID returns the identity of the log of a LUN, which is that of the set if it has three devices; 0: no device is
// known.
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

// relay returns this node's report to the others. It is only about the node's own writes, so that no report comes back
// to its source (counterexample 20).
func (a *Arbiter) relay() netgossip.Relay {
	if a.anchor.IsZero() {
		return netgossip.Relay{}
	}
	return netgossip.Relay{Log: a.log, Instance: a.lease.latest, Anchor: a.anchor}
}

// takeRelays records the reports of the other holders of the latest decision that this node has read. It is called
// after lapse: a report does not restore a token that has changed. If a later value may be decided (B7), the holders of
// that decision are done: then no report counts.
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

// relayOf returns the start of the latest write that a holder reported, or zero.
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

package memberbook

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// SetBack is how long an older version has to be shown until it counts. No replica that can have a token checked is behind for
// so long: the cluster was set back to a backup, and counts its versions from there.
const SetBack = 10 * time.Minute

// Versions refuses what is older than what is known. The zero value knows nothing.
type Versions struct {
	known uint64
	older bool // something older is shown
	since boottime.Instant
}

// Begin takes the version of what is remembered.
func (v *Versions) Begin(version uint64) { *v = Versions{known: version} }

// Look reports whether a state with this version counts. A state that does not count has to be looked at again as long as it is shown.
//
// Invariant: a replica that is behind does not show a node the time before its maintenance. Version 0 says nothing, and counts.
func (v *Versions) Look(version uint64, now boottime.Instant) bool {
	if version == 0 || version >= v.known {
		v.known, v.older = max(v.known, version), false
		return true
	}
	if !v.older {
		v.older, v.since = true, now
	}
	if now.Sub(v.since) < SetBack {
		return false
	}
	v.Begin(version)
	return true
}

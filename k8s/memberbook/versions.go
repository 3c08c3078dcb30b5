package memberbook

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// SetBack is the time for which an older version has to be shown before it counts. A replica that can still have a
// token checked never lags behind by that much: the cluster was restored from a backup, and counts its versions from
// there.
const SetBack = 10 * time.Minute

// Versions refuses versions that are older than the newest known one. The zero value knows none.
type Versions struct {
	known uint64
	older bool // an older version is shown
	since boottime.Instant
}

// Begin sets the version that is remembered from before.
func (v *Versions) Begin(version uint64) { *v = Versions{known: version} }

// Look reports whether a state with this version counts. If it does not, it has to be looked at again as long as it is
// shown.
//
// Invariant: a replica that is behind cannot show a node a state from before its maintenance. Version 0 means no
// version, and counts.
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

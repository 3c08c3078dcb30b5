package agent

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
)

// strangersPatience is how long a node may write to the LUN without being on a list that this node knows: a joining
// node claims its slot before the last member has its list.
const strangersPatience = time.Minute

// strangers are nodes that write to the LUN and are not on the list of members. Without this check two groups with the
// same name would share a LUN unnoticed, and while one holds a grant, the other loses its ties.
type strangers struct {
	names []string // told
	since boottime.Instant
	told  boottime.Instant
}

// reportStrangers looks for strangers, each time that the status is taken.
func (a *Agent) reportStrangers(now boottime.Instant) {
	s := &a.lun.strangers
	arb := a.core.Arbiter()
	if arb == nil {
		return
	}
	names := arb.Strangers()
	switch {
	case len(names) == 0:
		*s = strangers{}
	case s.since == 0:
		s.since = now
	case now.Sub(s.since) >= strangersPatience:
		s.names = names
		slices.Sort(s.names)
		if s.told == 0 || now.Sub(s.told) >= repeatAfter {
			s.told = now
			trouble.LUNStrangers.Log(a.log, "nodes", s.names, "cluster", a.cfg.Cluster, "node_group", a.cfg.NodeGroup)
		}
	}
}

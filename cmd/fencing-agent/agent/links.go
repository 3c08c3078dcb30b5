package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	// edgePace is the least time between two looks at every peer on every network. A link that fails and recovers in
	// between is not noticed; no decision depends on it.
	edgePace = 100 * time.Millisecond
	// edgeNames bounds the names in one line of the log.
	edgeNames = 20
)

// links holds which peers each network reaches, as last reported.
type links struct {
	edges *netgossip.Edges
	at    boottime.Instant // of the last look
}

// noteEdges counts and logs which peers each network has lost and regained. Subscribers get only the merged edges,
// which the core makes.
func (a *Agent) noteEdges(now boottime.Instant, fx *watchdog.Effects) {
	if now.Sub(a.links.at) < edgePace && fx.Joined.IsEmpty() && fx.Left.IsEmpty() {
		return
	}
	a.links.at = now
	v := a.core.View()
	found := a.links.edges.Update(a.core.Merger(), &v, now)
	for len(found) > 0 { // they are sorted by network
		network := found[0].Network
		lost, regained := []string{}, []string{}
		for len(found) > 0 && found[0].Network == network {
			if name := a.roster.Name(found[0].Peer); found[0].Reachable {
				regained = append(regained, name)
			} else {
				lost = append(lost, name)
			}
			found = found[1:]
		}
		name := a.cfg.SystemNetworks[network].Name
		a.metrics.Turned(name, len(regained), len(lost))
		level := slog.LevelInfo
		if len(lost) > 0 {
			level = slog.LevelWarn
		}
		a.log.Log(context.Background(), level, "reachability on a network changed", "network", name,
			"lost", len(lost), "lost_nodes", first(lost), "regained", len(regained), "regained_nodes", first(regained))
	}
}

func first(names []string) []string { return names[:min(len(names), edgeNames)] }

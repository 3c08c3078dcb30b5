package gossip

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// conflictQuiet is the least time between two alarms about one name on one network: the second node is noticed with
// every packet that it sends.
const conflictQuiet = time.Minute

// nameConflict says that a second node, at an address, uses the name of a member.
type nameConflict struct {
	network, name, address string
	how                    string
}

// What tells two nodes apart, as it appears in the log.
const (
	OtherAddress = "two nodes use one name: stop one of them"
	OtherMachine = "another machine answers under the name of a member, or writes its slot, or a container has its own boot id; such a boot does not prove that another boot ended; " +
		"stop one of the two (after a machine was replaced, this message is expected once)"
)

// nameAlarms raises the alarm for names that two nodes use. The reports are made under memberlist's lock, where
// nothing may wait, not even for the log.
type nameAlarms struct {
	reports chan nameConflict
	log     *slog.Logger
	count   *prometheus.CounterVec // by network
}

func newNameAlarms(log *slog.Logger, count *prometheus.CounterVec) *nameAlarms {
	return &nameAlarms{reports: make(chan nameConflict, 64), log: log, count: count}
}

// report never blocks. A report that does not fit may be lost: it will be made again.
func (n *nameAlarms) report(c nameConflict) {
	select {
	case n.reports <- c:
	default:
	}
}

// run raises the alarms until ctx ends.
func (n *nameAlarms) run(ctx context.Context) {
	type name struct{ network, name string }
	raised := make(map[name]time.Time) // bounded: only names of members are reported
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-n.reports:
			key := name{c.network, c.name}
			if at, ok := raised[key]; ok && time.Since(at) < conflictQuiet {
				continue
			}
			raised[key] = time.Now()
			n.count.WithLabelValues(c.network).Inc()
			n.log.Error(c.how, "network", c.network, "name", c.name, "address", c.address)
		}
	}
}

// Alarm raises the alarm for a member that two nodes claim to be, on all networks. It does not block.
func (n *Networks) Alarm(m *roster.Member, how string) {
	for _, sn := range n.cfg.Config.SystemNetworks {
		if address, ok := m.Addresses[sn.Name]; ok {
			n.alarms.report(nameConflict{sn.Name, m.Name, address, how})
		}
	}
}

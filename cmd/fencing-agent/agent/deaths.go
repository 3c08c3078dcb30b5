package agent

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// deaths are the proofs of death that were told, by roster index.
type deaths struct {
	known  []watchdog.Death
	fenced roster.Set
}

// noteDeaths logs and counts deaths that were proven since the step before, and has the
// status published at once: a consumer that takes over storage waits for it.
func (a *Agent) noteDeaths(now boottime.Instant, fx *watchdog.Effects) {
	for p := range a.roster.Members {
		d := a.core.Death(p)
		if d == a.deaths.known[p] {
			continue
		}
		was := a.deaths.known[p]
		if a.deaths.known[p] = d; d.Proof == 0 {
			a.metrics.broken.Inc()
			a.log.Error("a proof of death is withdrawn: the boot that had ended answers again, so two machines have one name; stop one of them",
				"peer", a.roster.Name(p), "proof", was.Proof.String(), "boot", hex64(was.Boot))
			continue
		}
		a.metrics.deaths.WithLabelValues(d.Proof.String()).Inc()
		a.log.Warn("node is dead as it was", "peer", a.roster.Name(p), "proof", d.Proof.String(), "boot", hex64(d.Boot),
			"fenced", fx.Fenced.Has(p), "unseen_s", now.Sub(a.core.Merger().Sighted(p)).Seconds())
	}
	a.alarmNames(a.core.Strangers(), gossip.OtherMachine)
	if fx.Fenced != a.deaths.fenced {
		for p := range a.deaths.fenced.Minus(fx.Fenced).All() {
			a.metrics.withdrawn(a, p)
		}
		a.deaths.fenced, a.picture.at = fx.Fenced, 0
	}
}

// withdrawn looks at a node that was fenced and has been met again. Another boot is what
// was to be expected; the same one means that a watchdog did not do what it promised.
func (m *metrics) withdrawn(a *Agent, p int) {
	st, _ := a.core.Merger().Statement(p)
	d := a.core.Death(p)
	if st == nil || !a.core.View().Seen.Has(p) || d.Proof != watchdog.ProofTime || d.Boot != st.Boot {
		return
	}
	m.broken.Inc()
	a.log.Error("a node that must have been reset is back without a reboot: its watchdog did not fire; disarm it and check the driver",
		"peer", a.roster.Name(p), "boot", hex64(st.Boot), "horizon", st.Guard.Horizon)
}

// addDeath adds what is known of the node's death to its status.
func (a *Agent) addDeath(now boottime.Instant, p int, s *fencingv1.NodeStatus) {
	if a.core.Fenced().Has(p) && !s.Reachable {
		s.State = fencingv1.NodeState_NODE_STATE_FENCED
	}
	if d := a.core.Death(p); d.Proof != 0 {
		s.Death = &fencingv1.Death{Proof: publish.ProofOf(d.Proof.String()), Time: wall(now, d.At)}
		if d.Boot != 0 {
			s.Death.BootNonce = hex64(d.Boot)
		}
	}
	if in, ok := a.core.ProvenIn(now, p); ok {
		s.ProvenIn = durationpb.New(max(0, in).Round(time.Millisecond))
	}
}

// alarmNames raises the alarm for members that two nodes claim to be.
func (a *Agent) alarmNames(members roster.Set, how string) {
	for p := range members.All() {
		a.gossip.Alarm(&a.roster.Members[p], how)
	}
}

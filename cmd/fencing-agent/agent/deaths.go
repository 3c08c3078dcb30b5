package agent

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// deaths are the proofs of death that were published, by roster index.
type deaths struct {
	known  []watchdog.Death
	fenced roster.Set

	waiting map[uint64]*word // reports that wait for the core's answer, by id
	last    uint64           // id
	notes   map[string]note  // who reported the believed deaths, by node

	orders orders // to end other nodes
}

// noteDeaths logs and counts the deaths that this step has proven, and triggers a new status at once: a consumer that
// takes over storage waits for it.
func (a *Agent) noteDeaths(now boottime.Instant, fx *watchdog.Effects) {
	for p := range a.roster.Members {
		d := a.core.Deaths().Of(p)
		if d == a.deaths.known[p] {
			continue
		}
		was := a.deaths.known[p]
		if a.deaths.known[p] = d; d.Proof == 0 {
			a.contradicted(p, was)
			continue
		}
		a.metrics.Died(d.Proof)
		a.published.history.recorder.Note(history.Record{Kind: history.Fenced, Nodes: []string{a.roster.Name(p)}, Text: "boot " + hex64(d.Boot) + ", proof " + d.Proof.String()})
		what := []any{"peer", a.roster.Name(p), "proof", d.Proof.String(), "boot", hex64(d.Boot),
			"fenced", fx.Fenced.Has(p), "unseen_s", now.Sub(a.core.Merger().Sighted(p)).Seconds()}
		if d.Hearsay {
			what = append(what, "handed_on", true)
		}
		if d.Teller != "" {
			what = append(what, "told_to", d.Teller)
		}
		if was.Proof != 0 && was.Boot == d.Boot {
			a.log.Warn("death confirmed again by another proof", what...)
		} else {
			a.log.Warn("death of a node confirmed", what...)
		}
	}
	a.alarmNames(a.core.Deaths().Strangers(), gossip.OtherMachine)
	if fx.Fenced != a.deaths.fenced {
		a.deaths.fenced, a.published.at = fx.Fenced, 0
	}
}

// contradicted reports that a boot runs although it was proven dead.
func (a *Agent) contradicted(p int, was watchdog.Death) {
	a.metrics.Contradicted()
	text := "a boot that was proven to have ended answers again, so two machines have one name: stop one of them"
	switch {
	case was.Hearsay:
		text = "other nodes reported that this boot had announced its self-fence, but it still runs; it announced none, or its watchdog did not fire: power the node off, and look at the logs of the nodes that reported it"
	case was.Proof == watchdog.ProofTime:
		text = "a node that must have been reset is back without a reboot: its watchdog did not fire; disarm it and check the driver"
	case was.Proof == watchdog.ProofPower, was.Proof == watchdog.ProofKdump, was.Proof == watchdog.ProofOperator:
		text = "a boot whose death was confirmed externally still runs; the node is not off, or another machine was switched off: stop what was taken over from the node"
	case was.Proof == watchdog.ProofSentence:
		text = "a boot that had announced its self-fence still runs; its watchdog did not fire, or two machines claim the same boot: power the node off, and check the driver"
	}
	a.log.Error("a proof of death is withdrawn: "+text, "peer", a.roster.Name(p), "proof", was.Proof.String(), "boot", hex64(was.Boot))
}

// alarmNames raises the alarm for members that two nodes claim to be.
func (a *Agent) alarmNames(members roster.Set, how string) {
	for p := range members.All() {
		a.gossip.Alarm(&a.roster.Members[p], how)
	}
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }

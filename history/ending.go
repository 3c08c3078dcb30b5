package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// End is the way in which a boot ended, as far as its agent recorded it.
type End string

// These are the ends. Programs read their names.
const (
	EndStopped   End = "stopped"    // planned stop of the agent, after which the node went down or was rebooted
	EndDisarmed  End = "disarmed"   // in maintenance: no watchdog would have reset the node
	EndStarved   End = "starved"    // the node's watchdog was not fed any more
	EndCondemned End = "condemned"  // the node had condemned itself
	EndStruck    End = "taken-down" // watchdog.onFence took the node down
	EndTested    End = "tested"     // a person tested a watchdog, which reset the node
	EndSudden    End = "sudden"     // the watchdog was fed until the last record, or was not armed
)

// Boot holds the records of one boot of the kernel.
type Boot struct {
	Nonce   uint64
	Records []Record // by number
}

// Boots groups the records by boot, the earliest first.
func Boots(records []Record) []Boot {
	var out []Boot
	for _, r := range records {
		i := slices.IndexFunc(out, func(b Boot) bool { return b.Nonce == r.Boot })
		if i < 0 {
			i, out = len(out), append(out, Boot{Nonce: r.Boot})
		}
		out[i].Records = append(out[i].Records, r)
	}
	return out
}

// Ending describes how a boot ended.
type Ending struct {
	Boot   uint64
	End    End
	Reason string    // reason of the decision, if a decision ended the boot
	Text   string    // one sentence for people
	Last   time.Time // time of the last record
	Slack  time.Duration
}

// Before returns how the latest boot other than the present one ended; ok is false if no such boot is known.
func Before(records []Record, present uint64) (e Ending, ok bool) {
	boots := slices.DeleteFunc(Boots(records), func(b Boot) bool { return b.Nonce == present })
	if len(boots) == 0 {
		return e, false
	}
	// The latest boot is the one with the last record: an interrupted boot may have written between the records of
	// another.
	last := slices.MaxFunc(boots, func(a, b Boot) int {
		return int(min(1, max(-1, int64(a.Records[len(a.Records)-1].Seq-b.Records[len(b.Records)-1].Seq))))
	})
	return last.Ending(), true
}

// Ending returns how this boot ended, by its records. A boot that still runs is treated as if it had ended now.
func (b *Boot) Ending() Ending {
	e := Ending{Boot: b.Nonce, End: EndSudden}
	var said *Record // the record which states that the node was about to end
	for i := range b.Records {
		r := &b.Records[i]
		e.Last = r.Wall
		switch r.Kind {
		case Sample:
			e.Slack = r.Slack
		case LastWords:
			if e.End != EndCondemned && e.End != EndStruck {
				e.End, said = EndStarved, r
			}
		case Condemned:
			e.End, said = EndCondemned, r
		case Struck:
			e.End, said = EndStruck, r
		case Stopped:
			if e.End != EndCondemned && e.End != EndStruck {
				e.End, said = EndStopped, r
			}
		case Tested:
			if e.End, said = EndTested, r; r.Action == ActionFailed {
				e.End, said = EndSudden, nil
			}
		case Started:
			if e.End == EndStopped || e.End == EndTested {
				e.End, said = EndSudden, nil
			}
		case Decision:
			e.decided(r, &said)
		}
	}
	if said != nil {
		e.Reason = said.Reason
	}
	e.Text = e.sentence(said)
	return e
}

// decided evaluates a later decision: a node that feeds again is no longer about to be reset, unless its boot is
// condemned.
func (e *Ending) decided(r *Record, said **Record) {
	switch {
	case e.End == EndCondemned, e.End == EndStruck:
	case r.Action == "feed", r.Action == "hold":
		e.End, *said = EndSudden, nil
	case r.Action == "disarm":
		e.End, *said = EndDisarmed, r
	}
}

func (e *Ending) sentence(said *Record) string {
	if said != nil && said.Text != "" {
		return strings.TrimSuffix(said.Text, ".")
	}
	switch e.End {
	case EndStarved:
		return "the watchdog was not fed any more"
	case EndCondemned:
		return "the node had announced its self-fence"
	case EndStruck:
		return "the agent took the node down"
	case EndStopped:
		return "the agent was stopped as planned"
	case EndDisarmed:
		return "the watchdog was disarmed"
	}
	text := "power was lost, the kernel stopped, or something else reset the node"
	if e.Slack > 0 {
		text += fmt.Sprintf("; the watchdog had %v left at its last feed on record", e.Slack.Round(100*time.Millisecond))
	}
	return text
}

package history

import (
	"fmt"
	"strings"
	"time"
)

// Line returns a record as a text, without its time.
func (r *Record) Line() string {
	switch r.Kind {
	case Started:
		return "the agent started, " + r.Text
	case Decision:
		quorum := "quorum"
		if !r.Quorum {
			quorum = "no quorum"
		}
		return fmt.Sprintf("%s (%s), %s: %s", r.Action, r.Reason, quorum, r.Text)
	case Sample:
		return "worst of 30s: " + r.worst()
	case Gone:
		return "LEFT " + strings.Join(r.Nodes, " ")
	case Back:
		return "JOIN " + strings.Join(r.Nodes, " ")
	case Fenced:
		return "FENCED " + strings.Join(r.Nodes, " ") + ": " + r.Text
	case Watchdog:
		return "the watchdog is " + r.Text
	case LastWords:
		return "LAST WORDS: the watchdog is not fed any more: " + r.Text
	case Condemned:
		return "LAST WORDS: this node has announced its self-fence: " + r.Text
	case Struck:
		return "LAST WORDS: the agent takes this node down: " + r.Text
	case Stopped:
		return "planned stop of the agent"
	case Tested:
		if r.Action == ActionFailed {
			return "no reset: " + r.Text
		}
		return "LAST WORDS: " + r.Text
	case Ordered:
		if r.Action == ActionFailed {
			return "ordered that " + strings.Join(r.Nodes, " ") + " ends, and was not obeyed: " + r.Text
		}
		return "ordered that " + strings.Join(r.Nodes, " ") + " ends, which has announced its self-fence: " + r.Text
	case LUN:
		if r.Action == ActionFailed {
			return "LUN lost: " + r.Text
		}
		return "LUN in order again: " + r.Text
	}
	return fmt.Sprintf("of a later version (kind %d) %s", r.Kind, r.Text)
}

func (r *Record) worst() string {
	parts := []string{"watchdog not armed"}
	if r.Armed {
		parts[0] = "slack " + tenths(r.Slack)
	}
	if r.Write > 0 || r.Read > 0 {
		parts = append(parts, "LUN write "+millis(r.Write)+", read "+millis(r.Read))
	}
	return strings.Join(parts, ", ")
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000) }

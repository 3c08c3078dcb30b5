package agentsim

import (
	"fmt"
	"strings"
)

// String describes an event in words.
func (e Event) String() string {
	names := func(list []int) string {
		var out []string
		for _, i := range list {
			out = append(out, nodeName(i))
		}
		return strings.Join(out, " ")
	}
	on := fmt.Sprintf("networks %v", e.Networks)
	switch e.Kind {
	case Split:
		var parts []string
		for _, p := range e.Parts {
			parts = append(parts, names(p))
		}
		return "split " + strings.Join(parts, " | ") + " on " + on
	case OneWay:
		return fmt.Sprintf("%s does not reach %s on %s", nodeName(e.Nodes[0]), nodeName(e.Nodes[1]), on)
	case Heal:
		return "the networks heal"
	case Loss:
		return fmt.Sprintf("%.0f%% of all packets are lost", 100*e.Share)
	case Delay:
		return fmt.Sprintf("packets take up to %v", e.Span)
	case Carrier:
		return names(e.Nodes) + " loses carrier on " + on
	case CarrierBack:
		return "carrier is back everywhere"
	case Kill, Restart:
		return map[Kind]string{Kill: "SIGKILL ", Restart: "SIGKILL and new agent "}[e.Kind] + names(e.Nodes)
	case Start:
		return "agents that do not run are started"
	case Upgrade:
		return fmt.Sprintf("upgrade of %s, down for %v", names(e.Nodes), e.Span)
	case Freeze, Suspend:
		return fmt.Sprintf("%s of %s for %v", map[Kind]string{Freeze: "SIGSTOP", Suspend: "suspend"}[e.Kind], names(e.Nodes), e.Span)
	case HangLoop:
		return fmt.Sprintf("the deciding loop of %s hangs for %v", names(e.Nodes), e.Span)
	case LUNHang:
		return "the LUN hangs for " + names(e.Nodes)
	case LUNError:
		return fmt.Sprintf("the LUN fails %.0f%% of the operations of %s", 100*e.Share, names(e.Nodes))
	case LUNReadOnly:
		return "the LUN is read-only for " + names(e.Nodes)
	case LUNSlow:
		return fmt.Sprintf("the LUN takes up to %v for %s", e.Span, names(e.Nodes))
	case LUNBack:
		return "the LUN is back for everybody"
	case APIDown:
		return "the API server is away for " + names(e.Nodes)
	case APIBack:
		return "the API server is back"
	case Reconfigure:
		return fmt.Sprintf("%s break ties by %s from now on", names(e.Nodes), breaking(e.Pick))
	case NewMembers:
		return "the list of members is " + names(e.Nodes) + ", as those added are told and " + names(e.Parts[0])
	case Disable:
		return "the disable file of " + names(e.Nodes)
	case Enable:
		return "no disable file any more of " + names(e.Nodes)
	case FeedFails:
		return "the watchdog refuses to be fed on " + names(e.Nodes)
	case Look:
		return "a look at " + names(e.Nodes)
	case PowerOff:
		return names(e.Nodes) + " loses power"
	case Confirm:
		return "an operator tells " + nodeName(e.Nodes[0]) + " that " + nodeName(e.Nodes[1]) + " is dead"
	case Fence:
		return "an operator on " + nodeName(e.Nodes[0]) + " orders that " + nodeName(e.Nodes[1]) + " ends"
	default:
		return "nothing"
	}
}

package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// All holds when every one of the conditions holds.
func All(conditions ...Condition) Condition {
	return func(v *View) string {
		var missing []string
		for _, c := range conditions {
			if m := c(v); m != "" {
				missing = append(missing, m)
			}
		}
		return strings.Join(missing, "; ")
	}
}

// each turns a condition on the status of one node into a condition on all the named nodes.
func each(nodes []string, c func(node string, s *fencingv1.Status) string) Condition {
	return func(v *View) string {
		var missing []string
		for _, node := range nodes {
			s := v.Status[node]
			m := "does not answer"
			if s != nil {
				m = c(node, s)
			}
			if m != "" {
				missing = append(missing, node+" "+m)
			}
		}
		return strings.Join(missing, ", ")
	}
}

// Verdict returns an agent's verdict in a few words, such as "feed/network_quorum".
func Verdict(s *fencingv1.Status) string {
	return verdict(s.GetVerdict().GetPermission(), s.GetVerdict().GetReason())
}

func verdict(p fencingv1.Permission, r fencingv1.Reason) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PERMISSION_") + "/" + strings.TrimPrefix(r.String(), "REASON_"))
}

// Feeding holds when all nodes may feed, for the given reason, or for any reason with REASON_UNSPECIFIED.
func Feeding(reason fencingv1.Reason, nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		v := s.GetVerdict()
		if v.GetPermission() == fencingv1.Permission_PERMISSION_FEED && (reason == 0 || v.GetReason() == reason) {
			return ""
		}
		return "is at " + Verdict(s)
	})
}

// Starving holds when none of the nodes may feed any more.
func Starving(nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		if s.GetVerdict().GetPermission() == fencingv1.Permission_PERMISSION_STARVE {
			return ""
		}
		return "is at " + Verdict(s)
	})
}

// Counting holds when each of the nodes counts exactly these nodes.
func Counting(nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		var counted []string
		for _, n := range s.GetNodes() {
			if n.GetCounted() || n.GetName() == s.GetSelf().GetName() {
				counted = append(counted, n.GetName())
			}
		}
		if missing := difference(nodes, counted); len(missing) > 0 {
			return "does not count " + strings.Join(missing, " ")
		}
		if extra := difference(counted, nodes); len(extra) > 0 {
			return "still counts " + strings.Join(extra, " ")
		}
		return ""
	})
}

// Networks holds when, for each of the nodes on each of the networks, the named peers are reachable or not, as wanted.
func Networks(reachable bool, networks, nodes []string) Condition {
	return each(nodes, func(node string, s *fencingv1.Status) string {
		var wrong []string
		for _, n := range s.GetNetworks() {
			if !slices.Contains(networks, n.GetName()) {
				continue
			}
			for _, m := range n.GetMembers() {
				if slices.Contains(nodes, m.GetName()) && m.GetName() != node && m.GetReachable() != reachable {
					wrong = append(wrong, n.GetName()+":"+m.GetName())
				}
			}
		}
		switch {
		case len(wrong) == 0:
			return ""
		case reachable:
			return "does not reach " + strings.Join(wrong, " ")
		default:
			return "still reaches " + strings.Join(wrong, " ")
		}
	})
}

// LUNReady holds when every node has its slot and a healthy LUN.
func LUNReady(nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		if len(s.GetLuns()) == 0 {
			return "has no LUN"
		}
		for _, l := range s.GetLuns() {
			switch {
			case !l.GetHealthy():
				return "has trouble with the LUN: " + orSilent(l.GetError())
			case l.Slot == nil:
				return "has no slot on the LUN yet"
			}
		}
		return ""
	})
}

func orSilent(message string) string {
	if message == "" {
		return "(no reason given)"
	}
	return message
}

// LeaseHeld holds when these nodes and no others hold the lease, according to their own statuses.
func LeaseHeld(nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		holders := slices.Sorted(slices.Values(s.GetLunLease().GetHolders()))
		switch {
		case !s.GetLunLease().GetHeld():
			return "does not hold the lease"
		case !slices.Equal(holders, slices.Sorted(slices.Values(nodes))):
			return fmt.Sprintf("names %v as holders of the lease", holders)
		}
		return ""
	})
}

// Decided holds when exactly one of two halves stays up: all of its nodes feed because the lease names them, and no
// node of the other half feeds.
func Decided(a, b []string) Condition {
	won := func(winners, losers []string) Condition {
		return All(Feeding(fencingv1.Reason_REASON_SPLIT_WON, winners...), LeaseHeld(winners...), Starving(losers...))
	}
	return func(v *View) string {
		if won(a, b)(v) == "" || won(b, a)(v) == "" {
			return ""
		}
		return "no half has won yet: " + Summary(v, slices.Concat(a, b))
	}
}

// OneSideGranted holds unless both halves have had a node with the grant for the split since the given moment, whether
// at the same time or one after the other.
func OneSideGranted(since time.Time, a, b []string) Condition {
	return func(v *View) string {
		var granted []string
		for _, c := range v.Verdicts {
			if c.Reason == fencingv1.Reason_REASON_SPLIT_WON && c.At.After(since) && !slices.Contains(granted, c.Node) {
				granted = append(granted, c.Node)
			}
		}
		if len(difference(granted, a)) > 0 && len(difference(granted, b)) > 0 {
			return "both halves were granted the split: " + strings.Join(granted, " ")
		}
		return ""
	}
}

// Summary lists the verdict of each of the nodes.
func Summary(v *View, nodes []string) string {
	var out []string
	for _, node := range nodes {
		if s := v.Status[node]; s != nil {
			out = append(out, node+" "+Verdict(s))
		} else {
			out = append(out, node+" does not answer")
		}
	}
	return strings.Join(out, ", ")
}

// Tokens returns the tie tokens of the nodes, each according to its own status.
func Tokens(v *View, nodes []string) map[string]string {
	tokens := map[string]string{}
	for _, node := range nodes {
		for _, n := range v.Status[node].GetNodes() {
			if n.GetName() == node {
				tokens[node] = fmt.Sprintf("%s/%d", n.GetToken().GetBootNonce(), n.GetToken().GetCounter())
			}
		}
	}
	return tokens
}

// Renounced holds when every node has a token other than the given one. The node's grant has then ended forever.
func Renounced(before map[string]string) Condition {
	return func(v *View) string {
		now := Tokens(v, slices.Sorted(maps.Keys(before)))
		var missing []string
		for _, node := range slices.Sorted(maps.Keys(before)) {
			if now[node] == before[node] || now[node] == "" {
				missing = append(missing, node)
			}
		}
		if len(missing) > 0 {
			return "not renounced yet by " + strings.Join(missing, " ")
		}
		return ""
	}
}

// LeaseFree holds when none of the nodes holds the lease.
func LeaseFree(nodes ...string) Condition {
	return each(nodes, func(_ string, s *fencingv1.Status) string {
		if s.GetLunLease().GetHeld() {
			return "still holds the lease"
		}
		return ""
	})
}

// Subscribed holds when every node has accepted the observer as a subscriber of events.
func Subscribed(nodes ...string) Condition {
	return func(v *View) string {
		var missing []string
		for _, node := range nodes {
			if !v.Subscribed[node] {
				missing = append(missing, node)
			}
		}
		if len(missing) > 0 {
			return "StreamEvents is not open at " + strings.Join(missing, " ")
		}
		return ""
	}
}

// Heard holds when all events have arrived that the nodes have published according to their statuses. Events and
// statuses use separate streams: a count that begins before that moment may include an event from before.
func Heard(nodes ...string) Condition {
	return func(v *View) string {
		var missing []string
		for _, node := range nodes {
			if s := v.Status[node]; s == nil || !v.Subscribed[node] || v.Heard[node] < s.GetRevision() {
				missing = append(missing, node)
			}
		}
		if len(missing) > 0 {
			return "events are still to come from " + strings.Join(missing, " ")
		}
		return ""
	}
}

// Reported holds when each of the observers has sent the event about each of the nodes after the given moment.
func Reported(after time.Time, kind fencingv1.EventType, nodes, observers []string) Condition {
	return func(v *View) string {
		var missing []string
		for _, observer := range observers {
			for _, node := range nodes {
				if FirstReport(v, after, kind, node, observer) == nil {
					missing = append(missing, fmt.Sprintf("%s has not sent %v %s", observer, kind, node))
				}
			}
		}
		return strings.Join(missing, ", ")
	}
}

// FirstReport returns the observer's first such event after the given moment, or nil.
func FirstReport(v *View, after time.Time, kind fencingv1.EventType, node, observer string) *Event {
	for i := range v.Events {
		e := &v.Events[i]
		if e.Observer == observer && e.Node == node && e.Type == kind && e.At.After(after) {
			return e
		}
	}
	return nil
}

// Quiet holds while none of the observers has sent any event since the given moment.
func Quiet(since time.Time, observers ...string) Condition {
	return func(v *View) string {
		for _, e := range v.Events {
			if e.At.After(since) && slices.Contains(observers, e.Observer) {
				return fmt.Sprintf("%s sent %v %s", e.Observer, e.Type, e.Node)
			}
		}
		return ""
	}
}

// NoLeft holds while none of the observers has reported any node as LEFT since the given moment.
func NoLeft(since time.Time, observers ...string) Condition {
	return func(v *View) string {
		for _, e := range v.Events {
			if e.Type == fencingv1.EventType_LEFT && e.At.After(since) && slices.Contains(observers, e.Observer) {
				return fmt.Sprintf("%s reported %s as LEFT", e.Observer, e.Node)
			}
		}
		return ""
	}
}

// Left holds when each of the observers lists the node as not available, for the given reason. In groups with doubts an
// unreachable node may have been LEFT because of doubts, before its evidence expired.
func Left(node, reason string, observers ...string) Condition {
	return each(observers, func(_ string, s *fencingv1.Status) string {
		for _, n := range s.GetNodes() {
			if n.GetName() != node {
				continue
			}
			why := n.GetLeftReason()
			if why == "doubted" && reason == "unreachable" {
				why = reason
			}
			if n.GetAvailable() || why != reason {
				return fmt.Sprintf("has %s available: %v, LEFT last for %q", node, n.GetAvailable(), n.GetLeftReason())
			}
		}
		return ""
	})
}

// InState holds when each of the observers has the node in the state.
func InState(state fencingv1.NodeState, node string, observers ...string) Condition {
	return each(observers, func(_ string, s *fencingv1.Status) string {
		for _, n := range s.GetNodes() {
			if n.GetName() == node && n.GetState() != state {
				return fmt.Sprintf("has %s in state %v", node, n.GetState())
			}
		}
		return ""
	})
}

// Steady holds while none of the nodes has changed its verdict since the given moment.
func Steady(since time.Time, nodes ...string) Condition {
	return func(v *View) string {
		for _, c := range v.Verdicts {
			if c.At.After(since) && slices.Contains(nodes, c.Node) {
				return fmt.Sprintf("%s went to %s", c.Node, verdict(c.Permission, c.Reason))
			}
		}
		return ""
	}
}

// Starved returns the moment from which the node may no longer feed: its change to starve after the given moment,
// unless it was permitted to feed again later (hold also feeds).
func Starved(v *View, since time.Time, node string) (time.Time, bool) {
	var starved time.Time
	for _, c := range v.Verdicts {
		switch {
		case c.Node != node || !c.At.After(since):
		case c.Permission == fencingv1.Permission_PERMISSION_FEED, c.Permission == fencingv1.Permission_PERMISSION_HOLD:
			starved = time.Time{}
		case c.Permission == fencingv1.Permission_PERMISSION_STARVE && starved.IsZero():
			starved = c.At
		}
	}
	return starved, !starved.IsZero()
}

func difference(a, b []string) (out []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

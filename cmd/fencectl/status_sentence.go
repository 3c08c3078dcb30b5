package main

import (
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// condemned says what a sentence means for this node.
func condemned(st *fencingv1.Status) span {
	for _, n := range st.GetNodes() {
		s := n.GetSentence()
		switch {
		case n.GetName() != st.GetSelf().GetName() || s == nil:
		case s.GetTimeout().AsDuration() <= 0:
			return span{"nothing feeds the watchdog any more, whatever comes; the others are not told when it resets this node", bad}
		default:
			return span{"nothing feeds the watchdog any more, whatever comes: this node is dead in at most " + brief(s.GetOverIn().AsDuration()) + ", and the others know", bad}
		}
	}
	return span{"nothing feeds the watchdog any more, whatever comes", bad}
}

// sentence says what another node has decided about itself; empty: nothing, or it is over.
func sentence(n *fencingv1.NodeStatus) string {
	s := n.GetSentence()
	switch {
	case s == nil || n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED:
		return ""
	case s.GetOverIn().AsDuration() > 0:
		return n.GetName() + ": condemned by itself " + ago(s.GetAge()) + " ago, dead in " + brief(s.GetOverIn().AsDuration())
	default:
		return n.GetName() + ": condemned by itself " + ago(s.GetAge()) + " ago, and must be dead by now"
	}
}

// barTexts say why a node that is meant to condemn itself would not.
var barTexts = map[fencingv1.SentenceBar]string{
	fencingv1.SentenceBar_SENTENCE_BAR_WATCHDOG: "its timeout is too short",
	fencingv1.SentenceBar_SENTENCE_BAR_MEMBER:   "a member's agent is older",
	fencingv1.SentenceBar_SENTENCE_BAR_SLOT:     "an older agent's slot is on the LUN",
}

package view

import (
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// condemned describes what a self-fence means for this node.
func condemned(st *fencingv1.Status) Span {
	for _, n := range st.GetNodes() {
		s := n.GetSentence()
		switch {
		case n.GetName() != st.GetSelf().GetName() || s == nil:
		case s.GetTimeout().AsDuration() <= 0:
			return Span{"nothing feeds the watchdog any more, whatever comes; the self-fence is not announced, since it is not certain when it resets this node", Bad}
		default:
			return Span{"nothing feeds the watchdog any more, whatever comes: this node is dead in at most " + Brief(s.GetOverIn().AsDuration()) + ", and the others know", Bad}
		}
	}
	return Span{"nothing feeds the watchdog any more, whatever comes", Bad}
}

// Sentence describes that another node has announced its self-fence; empty: it has not, or that is over.
func Sentence(n *fencingv1.NodeStatus) string {
	s := n.GetSentence()
	switch {
	case s == nil || n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED:
		return ""
	case s.GetOverIn().AsDuration() > 0:
		return n.GetName() + ": announced its self-fence " + Ago(s.GetAge()) + " ago, dead in " + Brief(s.GetOverIn().AsDuration())
	default:
		return n.GetName() + ": announced its self-fence " + Ago(s.GetAge()) + " ago, and must be dead by now"
	}
}

// barTexts describes why a node that should condemn itself would not.
var barTexts = map[fencingv1.SentenceBar]string{
	fencingv1.SentenceBar_SENTENCE_BAR_WATCHDOG: "its timeout is too short",
}

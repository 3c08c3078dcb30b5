package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// A watchdog that is not there has no timeout that could be too short.
func TestFaultyWatchdogIsNotTooShort(t *testing.T) {
	for state, short := range map[fencingv1.WatchdogState]bool{
		fencingv1.WatchdogState_WATCHDOG_STATE_ARMED: true, fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY: false,
	} {
		var p Page
		watchdogItem(&p, &fencingv1.Status{Watchdog: &fencingv1.WatchdogStatus{
			Driver: "device", State: state, SentenceBar: fencingv1.SentenceBar_SENTENCE_BAR_WATCHDOG,
		}})
		if text := fmt.Sprint(p); strings.Contains(text, "its timeout is too short") != short {
			t.Errorf("%v: %s", state, text)
		}
	}
}

// A node that is FENCED is certainly dead already, even if an agent also reports by when time would prove it.
func TestFencedIsNotDueToDie(t *testing.T) {
	for state, due := range map[fencingv1.NodeState]bool{fencingv1.NodeState_NODE_STATE_UNREACHABLE: true, fencingv1.NodeState_NODE_STATE_FENCED: false} {
		st := &fencingv1.Status{Self: &fencingv1.NodeIdentity{Name: "n1"}, Verdict: &fencingv1.Verdict{Quorum: true}, Nodes: []*fencingv1.NodeStatus{
			{Name: "n1"}, {Name: "n4", State: state, ProvenIn: durationpb.New(45 * time.Second)},
		}}
		found := false
		for _, g := range Missing(st) {
			found = found || strings.Contains(g.Text(), "n4") && strings.Contains(g.Text(), "dead for certain")
		}
		if found != due {
			t.Errorf("%v: due to die %v", state, found)
		}
	}
}

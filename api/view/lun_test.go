package view

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// The status describes the LUN as a network: which nodes it does not help, and that it cannot help them.
func TestStatusOfTheLUNAsANetwork(t *testing.T) {
	budget := func(lun time.Duration) *fencingv1.TimeBudget {
		b := &fencingv1.TimeBudget{
			DMax: durationpb.New(4 * time.Second), Arbitration: durationpb.New(10 * time.Second), Grant: durationpb.New(5 * time.Second),
			FeedInterval: durationpb.New(5 * time.Second), WatchdogTimeout: durationpb.New(30 * time.Second), Release: durationpb.New(30 * time.Second),
			Margin: durationpb.New(time.Second), HorizonMajority: durationpb.New(80 * time.Second), HorizonTie: durationpb.New(90 * time.Second),
		}
		if lun > 0 {
			b.LunEvidence = durationpb.New(lun)
		} else {
			b.HorizonMajority, b.HorizonTie = durationpb.New(70*time.Second), durationpb.New(80*time.Second)
		}
		return b
	}
	nodes := func(byLUN ...bool) (all []*fencingv1.NodeStatus) {
		for i, by := range byLUN {
			all = append(all, &fencingv1.NodeStatus{Name: "n" + string(rune('1'+i)), CountedByLun: by})
		}
		return all
	}
	for _, c := range []struct {
		name      string
		st        *fencingv1.Status
		want, not string
	}{
		{"another mode", &fencingv1.Status{TimeBudget: budget(0), Nodes: nodes(false, false)}, "4s evidence + 5s feed + 30s watchdog + 30s release + 1s margin = 1m10s", "lun.mode"},
		{"all", &fencingv1.Status{TimeBudget: budget(14 * time.Second), Nodes: nodes(false, true, true)}, "all others are counted by the LUN, too", "not counted"},
		{"some", &fencingv1.Status{TimeBudget: budget(14 * time.Second), Nodes: nodes(false, true, false)}, "not counted by the LUN: n3", "too"},
		{"budget", &fencingv1.Status{TimeBudget: budget(14 * time.Second)}, "14s evidence on the LUN + 10s arbitration + 5s feed + 30s watchdog + 30s release + 1s margin = 1m30s", "in all"},
	} {
		c.st.Self = &fencingv1.NodeIdentity{Name: "n1"}
		p := &Page{}
		lunItems(p, c.st)
		budgetItems(p, c.st)
		got := strings.Join(strings.Fields(p.buf.String()), " ")
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

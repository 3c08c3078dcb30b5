package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Guards: a program was told of a death and then restarted. If that boot answers, the program is told, once and without
// quorum, that the death was wrong. It is told this about no other boot.
func TestDeathsOfBeforeARestartAreWithdrawn(t *testing.T) {
	before := []NodeDeath{{Node: "n3", Boot: bootA}, {Node: "n3", Boot: bootB}, {Node: "n9", Boot: bootA}} // n9 is not a member
	for _, c := range []struct {
		name string
		do   func(*fencingv1.Status)
		want string
	}{
		{"the boot answers", back(2, bootA, false), "[-n3/" + bootA + "]"},
		{"the other boot answers", back(2, bootB, false), "[-n3/" + bootB + "]"},
		{"another boot answers", back(2, "00000000000000c1", false), "[]"},
		{"nobody answers, and the agent has forgotten", func(st *fencingv1.Status) {
			st.Nodes[2].Reachable, st.Nodes[2].State = false, fencingv1.NodeState_NODE_STATE_UNKNOWN
		}, "[]"},
		{"it is told again", fence(2, bootA), "[+n3/" + bootA + "]"},
	} {
		for _, quorum := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				a, _ := runsWith(t, c.do, func(st *fencingv1.Status) { st.Verdict.Quorum = quorum })
				var told []string
				followDeaths(t, a, &told, before...)
				time.Sleep(30 * time.Second) // in the bubble's time; the status is repeated meanwhile
				synctest.Wait()
				want := c.want
				if !quorum && c.name == "it is told again" {
					want = "[]"
				}
				if fmt.Sprint(told) != want {
					t.Errorf("%s, quorum %v: told %v, want %s", c.name, quorum, told, want)
				}
			})
		}
	}
}

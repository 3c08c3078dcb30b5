package kube

import (
	"os"
	"regexp"
	"testing"
)

var confirmation = regexp.MustCompile(`fencing-agent\.io/members-confirmed=([0-9a-f]+)`)

// Most of a group loses its label, by mistake or on purpose. Nothing changes until an operator confirms that with the
// command from the log. Then the nodes that are removed are disarmed.
func TestALargeRemovalIsConfirmed(t *testing.T) {
	a := startAgents(t, checkOften)
	a.settled(t, 3)
	stays, gone := a.group[0], a.group[1:]
	listens := a.listen(t, stays)
	before := a.verdicts(t)
	for _, r := range gone {
		if err := patchNode(a.admin, r.node, `{"metadata":{"labels":{"`+groupLabel+`":null}}}`); err != nil {
			t.Fatal(err)
		}
	}
	var argument string
	await(t, stays.node+" asks for a confirmation in its log", func() bool {
		text, err := os.ReadFile(stays.log)
		if err != nil {
			t.Fatal(err)
		}
		argument = string(confirmation.Find(text))
		return argument != ""
	})
	// The confirmation is requested at each check of the Nodes. After several checks the removal has still not been
	// believed.
	looks := a.requests(t)[stays.node]["list nodes exactly"]
	await(t, stays.node+" has looked again", func() bool { return a.requests(t)[stays.node]["list nodes exactly"] >= looks+2 })
	a.compare(t, before)
	listens.calm(t)

	if _, err := a.plane.Kubectl(t.Context(), "", "annotate", "node", stays.node, argument); err != nil {
		t.Fatal(err)
	}
	for _, r := range gone {
		r.shows(t, "that it was removed", func(s agentStatus) bool {
			return s.Verdict.Reason == "REASON_MAINTENANCE" && s.Watchdog.State == "WATCHDOG_STATE_DISARMED"
		})
	}
	a.settled(t, 1)
	for _, s := range listens.seen() {
		if s.Verdict.Permission != "PERMISSION_FEED" {
			t.Errorf("%s: %+v", stays.node, s)
		}
	}
	if _, err := a.plane.Kubectl(t.Context(), "", "annotate", "node", stays.node, "fencing-agent.io/members-confirmed-"); err != nil {
		t.Fatal(err)
	}
}

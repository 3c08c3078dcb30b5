package config

import (
	"strings"
	"testing"
	"time"
)

// Guard: lease.md N4. If the LUN counts for quorum, the horizon includes it; otherwise, or without a LUN, it does not.
func TestBudgetOfTheLUNAsANetwork(t *testing.T) {
	c := Default()
	with := func(mode LUNMode, devices ...string) (majority, tie time.Duration) {
		c.LUN.Mode, c.LUN.Devices = mode, devices
		b := c.Budget(30 * time.Second)
		return b.Majority(), b.Tie()
	}
	usual, usualTie := with(LUNTieBreaker, "/dev/a")
	if m, tie := with(LUNOr, "/dev/a"); m != usual+c.ArbitrationBudget() || tie != usualTie+c.ArbitrationBudget() {
		t.Errorf("horizons of %v and %v", m, tie)
	}
	if v := c.LUNEvidence(3); v != c.EvidenceMaxAge()+c.ArbitrationBudget() {
		t.Errorf("a word counts for %v", v)
	}
	for _, mode := range []LUNMode{LUNTieBreaker, LUNAnd} {
		if m, tie := with(mode, "/dev/a"); m != usual || tie != usualTie || c.LUNEvidence(3) != 0 {
			t.Errorf("%s: horizons of %v and %v", mode, m, tie)
		}
	}
	if m, tie := with(LUNOr); m != usual || tie != usualTie {
		t.Errorf("without a LUN: horizons of %v and %v", m, tie)
	}
}

// A check of the file shows the cost of the mode. The agent does not warn of it at each start.
func TestPriceOfTheLUNAsANetwork(t *testing.T) {
	const file = `
nodeName: n1
nodeGroup: storage
systemNetworks: [{name: mgmt, at: 10.0.0.0/24}]
members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.2}}, {name: n3, addresses: {mgmt: 10.0.0.3}}]}
lun: {devices: [/dev/mapper/fence], mode: MODE}
`
	for mode, want := range map[string]string{"or": "has a price", "tiebreaker": "", "and": ""} {
		r, err := Review("agent.yaml", []byte(strings.ReplaceAll(file, "MODE", mode)), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, a := range r.Advice {
			if a.Path == "lun.mode" {
				said = a.String()
			}
		}
		if !strings.Contains(said, want) || (want == "") != (said == "") || want != "" && !strings.Contains(said, "some 20s later") || len(r.Warnings) > 0 {
			t.Errorf("%s: advice %q, warnings %v", mode, said, r.Warnings)
		}
	}
}

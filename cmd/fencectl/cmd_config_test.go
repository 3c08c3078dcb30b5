package main

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// The table shows what decides an equal split, for each value of quorum.tieBreak.
func TestTieBreakerText(t *testing.T) {
	for says, want := range map[config.TieBreak]string{
		config.TieBreakNone:    "none: in an equal split both halves stop",
		config.TieBreakLUN:     "lun: exactly one half lives",
		config.TieBreakAPI:     "kubernetes: a node that reaches the API server lives, which may be both halves",
		config.TieBreakLease:   "kubernetes, by a Lease: exactly one half lives",
		config.TieBreakAuto:    "lun decides; kubernetes only says which half goes first",
		config.TieBreakLUNThen: "lun decides; kubernetes says which half goes first, and decides where the LUN cannot be read",
	} {
		c := config.Default()
		c.LUN.Devices, c.Kubernetes.Kubeconfig, c.Quorum.TieBreak = []string{"/dev/sda"}, "/k", says
		if got := c.TieBreakText(); got != want {
			t.Errorf("%s: %q, want %q", says, got, want)
		}
	}
}

package main

import (
	"slices"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// The order of quorum.tieBreakers has no effect, and the table says what decides.
func TestTieBreakerText(t *testing.T) {
	const lun, api = config.BreakerLUN, config.BreakerKubernetes
	for _, tt := range []struct {
		name     string
		breakers []config.Breaker
		set      func(c *config.Config)
		want     string
	}{
		{"none", nil, nil, "none: in an equal split both halves stop"},
		{"lun", []config.Breaker{lun}, nil, "lun: exactly one half lives"},
		{"kubernetes", []config.Breaker{api}, nil, "kubernetes: a node that reaches the API server lives, which may be both halves"},
		{"lease", []config.Breaker{api}, func(c *config.Config) { c.Kubernetes.TieBreak = config.TieBreakLease },
			"kubernetes, by a Lease: exactly one half lives"},
		{"both", []config.Breaker{lun, api}, nil, "lun decides; kubernetes only says which half goes first"},
		{"both, the API without a LUN", []config.Breaker{lun, api}, func(c *config.Config) { c.LUN.UnavailableAtTie = config.AtTieKubernetes },
			"lun decides; kubernetes says which half goes first, and decides where the LUN cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config.Default()
			c.LUN.Devices, c.Kubernetes.Kubeconfig, c.Quorum.TieBreakers = []string{"/dev/sda"}, "/k", tt.breakers
			if tt.set != nil {
				tt.set(c)
			}
			terms := c.Terms()
			for range 2 {
				if got := c.TieBreakText(); got != tt.want {
					t.Errorf("%v: %q, want %q", c.Quorum.TieBreakers, got, tt.want)
				}
				if c.Terms() != terms {
					t.Errorf("%v: other terms than in the other order", c.Quorum.TieBreakers)
				}
				c.Quorum.TieBreakers = slices.Clone(c.Quorum.TieBreakers)
				slices.Reverse(c.Quorum.TieBreakers)
			}
		})
	}
}

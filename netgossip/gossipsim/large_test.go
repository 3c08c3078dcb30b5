package gossipsim

import (
	"testing"
	"time"
)

// A large group costs a node no more than a small one, and its isolated node, or half, knows
// in time.
func TestLargeGroup(t *testing.T) {
	nodes, bound := 60, 4*time.Second
	if !testing.Short() {
		nodes, bound = 300, 8*time.Second
	}
	brief := func(c *Config) { c.Warmup = Duration(time.Second) }
	r := run(t, config(nodes, "auto", "isolate", brief, lasting(bound), seeded(3)))
	expectAll(t, "isolated node below quorum", r.BelowQuorum, 1, bound)
	expectNoneFalse(t, r)
}

package gossipsim

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Config describes one simulation completely. Two simulations of one Config differ only by chance.
type Config struct {
	Nodes     int
	Networks  int
	All       bool   // a peer must be reachable on all networks
	AtLeast   int    // a peer must be reachable on this many networks; 0: not set
	Set       string // name of a parameter set
	Overrides []string
	Scenario  string
	Parts     int           // number of parts of a split
	Stall     time.Duration // time for which a slow node stalls
	Every     time.Duration // time from one fault of a series to the next
	Seed      uint64
	Warmup    time.Duration // time between the boot and the schedule
	Duration  time.Duration // length of the schedule
	// Settle ends the simulation this long after every node has noticed the change; 0: it continues for Duration.
	Settle time.Duration
	Link   Link // all networks, before the first fault
}

// DefaultConfig is a local network of n nodes on two networks without any fault.
func DefaultConfig(n int) Config {
	return Config{
		Nodes: n, Networks: 2, Set: "auto", Scenario: "idle", Parts: 2, Stall: 2 * time.Second, Every: 6 * time.Second, Seed: 1,
		Warmup: 5 * time.Second, Duration: 60 * time.Second,
		Link: Link{Delay: 100 * time.Microsecond, Jitter: 400 * time.Microsecond},
	}
}

// MaxNodes and MaxNetworks limit a simulation.
const (
	MaxNodes    = 1000
	MaxNetworks = 8
)

// Validate reports all problems at once.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Nodes >= 2 && c.Nodes <= MaxNodes, "nodes must be 2 to %d, not %d", MaxNodes, c.Nodes)
	check(c.Networks >= 1 && c.Networks <= MaxNetworks, "networks must be 1 to %d, not %d", MaxNetworks, c.Networks)
	check(c.Parts >= 2 && c.Parts <= max(2, c.Nodes), "parts must be 2 up to the number of nodes, not %d", c.Parts)
	check(c.Duration > 0 && c.Duration <= 24*time.Hour, "duration must be more than 0 and at most 24h, not %v", c.Duration)
	check(c.Stall > 0, "stall must be positive, not %v", c.Stall)
	check(c.Every > 0, "every must be positive, not %v", c.Every)
	check(c.AtLeast >= 0 && c.AtLeast <= c.Networks && (c.AtLeast == 0 || !c.All), "reachability must be any, all or 1 to %d, not %d", c.Networks, c.AtLeast)
	check(c.Settle >= 0, "settle must not be negative, but is %v", c.Settle)
	check(c.Warmup > 0, "warmup must be positive, not %v", c.Warmup)
	check(c.Link.Loss >= 0 && c.Link.Loss < 1, "loss must be at least 0 and below 1, not %v", c.Link.Loss)
	check(c.Link.Duplicate >= 0 && c.Link.Duplicate <= 1, "duplicate must be 0 to 1, not %v", c.Link.Duplicate)
	check(c.Link.Delay >= 0 && c.Link.Jitter >= 0, "delay and jitter must not be negative")
	if _, err := FindScenario(c.Scenario); err != nil {
		errs = append(errs, err)
	}
	if _, _, err := c.params(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// params resolves the parameter set and the overrides.
func (c *Config) params() (Set, netgossip.Params, error) {
	s, err := FindSet(c.Set)
	if err != nil {
		return s, netgossip.Params{}, err
	}
	p := s.Params(c.Nodes)
	for _, o := range c.Overrides {
		if err := Override(&p, o); err != nil {
			return s, p, err
		}
	}
	return s, p, nil
}

// needed returns the number of networks on which a peer must be reachable.
func (c *Config) needed() int { return c.policy().Needed(c.Networks) }

func (c *Config) policy() netgossip.Policy {
	if c.All {
		return netgossip.All()
	}
	if c.AtLeast > 0 {
		return netgossip.AtLeast(c.AtLeast)
	}
	return netgossip.Any()
}

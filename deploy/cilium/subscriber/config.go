package subscriber

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/fencing-agent/fencing-agent/api/client"
)

// The choices for a frontend whose usable backends are all on LEFT nodes.
const (
	allLeftKeep = "keep" // its backends stay: connections to dead ones time out
	allLeftDrop = "drop" // it loses its backends: connections are refused at once
)

// Config holds the flags of the cell.
type Config struct {
	FencingAgentSocket         string        // empty: the cell does nothing
	FencingAgentHold           time.Duration // how long an agent may be silent
	FencingAgentAllLeft        string        // keep or drop
	FencingAgentMaxLeftPercent int           // percentage of the nodes; if more are LEFT, that is not believed
}

var defaultConfig = Config{
	FencingAgentHold:           client.DefaultHold,
	FencingAgentAllLeft:        allLeftKeep,
	FencingAgentMaxLeftPercent: 50,
}

// Flags implements cell.Flagger.
func (c Config) Flags(flags *pflag.FlagSet) {
	flags.String("fencing-agent-socket", c.FencingAgentSocket,
		"Path of the fencing agent's socket; backends on nodes that it calls LEFT are taken out of the load balancer (empty: off)")
	flags.Duration("fencing-agent-hold", c.FencingAgentHold,
		"How long the fencing agent may be silent until Kubernetes' view of the backends applies again")
	flags.String("fencing-agent-all-left", c.FencingAgentAllLeft,
		`What to do with a frontend whose usable backends are all on LEFT nodes: "keep" them or "drop" them`)
	flags.Int("fencing-agent-max-left-percent", c.FencingAgentMaxLeftPercent,
		"Ignore the fencing agent while more than this share of the nodes it knows is LEFT")
}

// validate refuses what cannot work.
func (c Config) validate() error {
	switch {
	case !filepath.IsAbs(c.FencingAgentSocket):
		return fmt.Errorf("--fencing-agent-socket=%s: the path must be absolute", c.FencingAgentSocket)
	case c.FencingAgentHold < client.MinHold:
		return fmt.Errorf("--fencing-agent-hold=%v: at least %v is needed", c.FencingAgentHold, client.MinHold)
	case c.FencingAgentAllLeft != allLeftKeep && c.FencingAgentAllLeft != allLeftDrop:
		return fmt.Errorf("--fencing-agent-all-left=%s: %q or %q is allowed", c.FencingAgentAllLeft, allLeftKeep, allLeftDrop)
	case c.FencingAgentMaxLeftPercent < 1 || c.FencingAgentMaxLeftPercent > 99:
		return fmt.Errorf("--fencing-agent-max-left-percent=%d: 1 to 99 is allowed", c.FencingAgentMaxLeftPercent)
	}
	return nil
}

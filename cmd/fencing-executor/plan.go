package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

const actionPlan = "plan"

// plan checks whether each method of a node is possible: its agent exists and runs, knows all its parameters and gets
// those that it needs, and each Secret exists. No device is asked. It reports everything that is missing at once.
func plan(ctx context.Context, f flags) result {
	r := result{Action: actionPlan}
	var methods []fenceconfig.Method
	var missing []string
	known := map[string]fenceconfig.Agent{}
	for i := 0; ; i++ {
		dir := filepath.Join(f.dir, actionPlan, strconv.Itoa(i))
		if _, err := os.Stat(dir); err != nil {
			break
		}
		m, secrets, err := load(flags{dir: dir})
		methods = append(methods, m)
		if err == nil {
			err = possible(ctx, f, m, secrets, known)
		}
		if err != nil {
			missing = append(missing, mask(fmt.Sprintf("%s %s: %v", m.Agent, m.Action, err), m, secrets))
		}
	}
	switch {
	case ctx.Err() != nil:
		r.Message = "not all methods were looked at in time"
	case len(methods) == 0:
		r.Message = "there is no method to look at: were all of their ConfigMaps deleted?"
	case len(missing) > 0:
		r.Message = mask("nothing was switched, since a method of the node is impossible: "+strings.Join(missing, "; "), fenceconfig.Method{}, nil)
	case f.digest != "" && fenceconfig.DigestOf(methods) != f.digest:
		r.Message = changed
	default:
		r.OK = true
	}
	return r
}

// possible returns what keeps a method from being carried out, whatever its device does. known holds the agents whose
// metadata was already read.
func possible(ctx context.Context, f flags, m fenceconfig.Method, secrets map[string]string, known map[string]fenceconfig.Agent) error {
	a := &agent{path: filepath.Join(f.agents, m.Agent), method: m, secrets: secrets, node: f.node}
	if _, asked := known[m.Agent]; !asked {
		k, err := a.metadata(ctx)
		if err != nil {
			return err
		}
		known[m.Agent] = k
	}
	for _, p := range known[m.Agent].Check(m) {
		if !p.Warning {
			return fmt.Errorf("%s", p.Text)
		}
	}
	return a.takes()
}

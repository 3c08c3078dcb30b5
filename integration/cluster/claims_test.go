package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// lookAtClaims is long enough not to disturb the nodes, because each check starts a process in each of them.
const lookAtClaims = 3 * time.Second

// forecasts follows the agents' reports of the time until they can vouch for a death. It falls as time passes. If it
// rises, the agent's claim has begun again, and FENCED comes that much later.
type forecasts struct {
	mu     sync.Mutex // guards the fields below
	ends   map[[2]string]time.Time
	events []string
}

// follow checks until the context ends.
func (f *forecasts) follow(ctx context.Context, d *died) {
	f.ends = map[[2]string]time.Time{}
	verdicts := map[string]string{}
	tick := time.NewTicker(lookAtClaims)
	defer tick.Stop()
	for {
		v, err := d.Look(ctx)
		if err == nil && ctx.Err() == nil {
			f.note(d, v, verdicts)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *forecasts) note(d *died, v *cluster.View, verdicts map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := v.At.Sub(d.at).Seconds()
	for _, by := range d.others {
		s := v.Agents[by]
		if s == nil {
			f.events = append(f.events, fmt.Sprintf("%.1f s: %s does not answer", at, by))
			continue
		}
		if text := s.GetVerdict().GetReason().String(); text != verdicts[by] {
			verdicts[by] = text
			f.events = append(f.events, fmt.Sprintf("%.1f s: %s: %s", at, by, text))
		}
		for _, of := range d.victims {
			n, pair := v.State(by, of), [2]string{by, of}
			if n.GetProvenIn() == nil {
				continue
			}
			end := v.At.Add(n.GetProvenIn().AsDuration())
			before, known := f.ends[pair]
			// A check takes some time, and a claim that has ended gives a forecast of zero.
			if known && n.GetProvenIn().AsDuration() > 0 && end.Sub(before) > lookAtClaims {
				f.events = append(f.events, fmt.Sprintf("%.1f s: the claim of %s by %s has BEGUN AGAIN: %.1f s later", at, of, by, end.Sub(before).Seconds()))
			}
			if !known || n.GetProvenIn().AsDuration() > 0 {
				f.ends[pair] = end
			}
			if !known {
				f.events = append(f.events, fmt.Sprintf("%.1f s: %s can vouch for the death of %s in %.1f s", at, by, of, n.GetProvenIn().AsDuration().Seconds()))
			}
		}
	}
}

// tell logs what was noticed and, if a claim has begun again, what the agents have logged since the fault.
func (f *forecasts) tell(t *testing.T, d *died) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("forecasts:\n%s", strings.Join(f.events, "\n"))
	if !t.Failed() && !strings.Contains(strings.Join(f.events, "\n"), "BEGUN AGAIN") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	v, err := d.Look(ctx)
	if err != nil {
		t.Log(err)
		return
	}
	pods := map[string]string{}
	for _, by := range d.others {
		if p := v.AgentPod(by); p != nil {
			pods[by] = p.Name
		}
	}
	for _, by := range slices.Sorted(maps.Keys(pods)) {
		out, err := d.Plane.Kubectl(ctx, "", "-n", cluster.Space, "logs", pods[by], "--since-time="+d.at.Add(-2*time.Second).Format(time.RFC3339))
		t.Logf("the agent on %s has logged since the fault (%v):\n%s", by, err, out)
	}
}

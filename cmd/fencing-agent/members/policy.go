package members

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

// policyOld is more than passes between two reads of a policy by a controller that is followed.
const policyOld = 2 * time.Minute

// runs is with what this agent runs.
//
// Invariant: it is made of the agent's own configuration, and of nothing that a controller has said.
func runs(c *config.Config) grouppolicy.Policy {
	mode := grouppolicy.Watchdog
	if c.Watchdog.Driver == config.DriverNone {
		mode = grouppolicy.Notify
	}
	return grouppolicy.Policy{Mode: mode, Timeout: c.Watchdog.Timeout, OnQuorumLoss: string(c.OnQuorumLoss)}
}

func policyMessage(p grouppolicy.Policy) *fencingv1.GroupPolicy {
	return &fencingv1.GroupPolicy{Mode: p.Mode, WatchdogTimeoutMs: p.Timeout.Milliseconds(), OnQuorumLoss: p.OnQuorumLoss}
}

// policies is what is remembered of the group's policy. It is of the source's goroutine.
type policies struct {
	want   grouppolicy.Policy
	said   string           // what the log says of it
	saidAt boottime.Instant // when it was; 0: never
}

// policed takes the policy of the group.
//
// Invariant: a policy is compared and shown. Nothing of it is taken up: peers reckon with this node's timeout when they call it dead,
// and who lies, or is behind, would else be believed there (docs/adr/0067).
func (c *controllerSource) policed(p *fencingv1.GroupPolicy) {
	c.policy.want = grouppolicy.Policy{Mode: p.GetMode(), Timeout: time.Duration(p.GetWatchdogTimeoutMs()) * time.Millisecond, OnQuorumLoss: p.GetOnQuorumLoss()}
	differs := grouppolicy.Differ(c.policy.want, runs(c.cfg))
	c.differs.Store(&differs)
	c.metrics.policy(len(differs))
	c.sayPolicy()
}

// dated takes how long ago the controller has read the policy that holds; 0: it does not say.
func (c *controllerSource) dated(ms uint64) {
	if now := c.clock(); ms > 0 {
		c.readAt.Store(int64(now) - min(int64(min(ms, math.MaxInt64/uint64(time.Millisecond)))*int64(time.Millisecond), int64(now)-1))
	}
}

// age is a line about a policy that is old: nobody is followed, or the controller cannot read it. It changes once a minute.
func (c *controllerSource) age() []string {
	at := boottime.Instant(c.readAt.Load())
	if at == 0 {
		return nil
	}
	old := c.clock().Sub(at).Truncate(time.Minute)
	if old < policyOld {
		return nil
	}
	return []string{fmt.Sprintf("the controller read that policy %s ago", strings.TrimSuffix(old.String(), "0s"))}
}

// sayPolicy logs what differs, when that is another thing, and not too often: a controller that lies has any number of policies.
func (c *controllerSource) sayPolicy() {
	text := ""
	if d := c.differs.Load(); d != nil {
		text = strings.Join(*d, "; ")
	}
	now := c.clock()
	if text == c.policy.said || c.policy.saidAt != 0 && now.Sub(c.policy.saidAt) < controllerLines {
		return
	}
	c.policy.said, c.policy.saidAt = text, now
	switch {
	case text == "" && c.policy.want.IsZero():
		c.log.Info("the controller has no policy for the group any more")
		return
	case text == "":
		c.log.Info("this agent runs as the group's policy says")
		return
	}
	c.log.Warn("this agent's configuration differs from the group's policy, and the agent follows its configuration; change one of the two", "differs", text)
}

// PolicyDiffers says in what this agent runs otherwise than the controller's policy of the group; nil: in nothing, or there is none.
// Where that policy is old, the last line says so. Any goroutine may call it.
func (m *Members) PolicyDiffers() []string {
	if m.controller == nil {
		return nil
	}
	d := m.controller.differs.Load()
	switch {
	case d == nil:
		return nil
	case len(*d) == 0:
		return []string{}
	}
	return slices.Concat(*d, m.controller.age())
}

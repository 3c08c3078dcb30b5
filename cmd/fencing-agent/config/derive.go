package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// MarginAfterDeath is added to every time after which a node counts as dead. It covers what the terms of the sum leave
// out: the reset itself, rounding by the driver and the difference in speed of two clocks.
const MarginAfterDeath = time.Second

// A ballot of the tie-break log takes up to seven I/Os: in each of two phases a write to
// both copies of the slot (to one, if no earlier agent's write can still land) and a read,
// and the write that publishes the outcome. The budget allows for one ballot that fails
// against a rival and one that succeeds, with each I/O at a sixth of ioTimeout on average.
// Slower storage costs the half its chance, never safety.
const (
	ballotIOs        = 7
	ballotAttempts   = 2
	ballotIOFraction = 6
	grantIOs         = 5
)

// Params returns the effective gossip parameters for the configured members.
func (c *Config) Params() netgossip.Params { return c.ParamsFor(max(1, len(c.Members.Static))) }

// ParamsFor returns the effective gossip parameters for a roster of n members: those of the timing with the overrides
// applied. Memberlist has no switch for Lifeguard: off means that both of its parameters are at their minimum.
func (c *Config) ParamsFor(n int) netgossip.Params {
	p := c.Gossip.Profile.Params(n)
	if !c.Experimental.Lifeguard {
		p.AwarenessMaxMultiplier, p.SuspicionMaxTimeoutMult = 1, 1
	}
	c.Experimental.Gossip.Apply(&p)
	return p
}

// StaticMembers returns the static list as roster.New takes it.
func (c *Config) StaticMembers() []roster.Member { return c.Members.List() }

// List returns the static list as roster.Of takes it.
func (m *Members) List() []roster.Member {
	list := make([]roster.Member, 0, len(m.Static))
	for _, one := range m.Static {
		addresses := make(map[string]string, len(one.Addresses))
		for network, a := range one.Addresses {
			addresses[network] = a.String()
		}
		list = append(list, roster.Member{Name: one.Name, Addresses: addresses})
	}
	return list
}

// GossipLabel is the label of a system network's packets: nodes of other clusters,
// groups or networks cannot join by mistake. It has at most 200 bytes.
func (c *Config) GossipLabel(network string) string {
	return c.Cluster + "/" + c.NodeGroup + "/" + network
}

// CAFile is the file with the certificates by which the controller's certificate has to be signed.
func (c *Controller) CAFile() string { return filepath.Join(c.Credentials, "ca.crt") }

// TokenFile is the file with the token by which the controller identifies the node.
func (c *Controller) TokenFile() string { return filepath.Join(c.Credentials, "token") }

// UsesKubernetes reports whether there is an API server to talk to. With the controller as the source of members, the
// agent talks to no API server, wherever it runs.
func (c *Config) UsesKubernetes() bool {
	return c.Members.Source != SourceController && (c.Kubernetes.Kubeconfig != "" || c.InCluster)
}

// NodeCacheFile is where the agent remembers the state of this node's Node: next to its lists.
func (c *Config) NodeCacheFile() string {
	return strings.TrimSuffix(c.Members.CacheFile, ".json") + "-node.json"
}

// TermsFile is where the agent remembers the settings by which it broke ties: next to its lists.
func (c *Config) TermsFile() string {
	return strings.TrimSuffix(c.Members.CacheFile, ".json") + "-terms.json"
}

// HistoryFile is where the agent keeps its history: next to its lists.
func (c *Config) HistoryFile() string {
	return strings.TrimSuffix(c.Members.CacheFile, ".json") + "-history"
}

// TrialsFile is where fencectl watchdog test records how late the watchdog fires: next to the lists.
func (c *Config) TrialsFile() string {
	return strings.TrimSuffix(c.Members.CacheFile, ".json") + "-watchdog"
}

// LockFile is locked by the running agent. It is next to its lists.
func (c *Config) LockFile() string {
	return strings.TrimSuffix(c.Members.CacheFile, ".json") + "-running"
}

// EvidenceMaxAge is D_max: older evidence of a peer does not count.
func (c *Config) EvidenceMaxAge() time.Duration { return c.Params().EvidenceMaxAge }

// SamplingDelay is what random samples add to D_max in a group of n nodes, if the group is so large that peers are
// sampled. If the list of members is not in the configuration, the group may be that large.
func (c *Config) SamplingDelay(n int) time.Duration {
	if c.Members.Source != SourceStatic {
		n = roster.MaxNodes
	}
	return c.ParamsFor(n).SamplingDelay(n, len(c.SystemNetworks))
}

// LUNEvidence is D_lun if echoes on the LUN count for the quorum, as answers over a network do for D_max; otherwise 0.
func (c *Config) LUNEvidence(n int) time.Duration {
	if c.LUN.Mode != LUNOr || len(c.LUN.Devices) == 0 {
		return 0
	}
	return c.EvidenceMaxAge() + c.SamplingDelay(n) + c.ArbitrationBudget()
}

// ArbitrationBudget is A: for this long after D_max a half without majority may go on feeding while the LUN has not
// decided (lease rule L8). It covers the preference delay, two heartbeats by which the half is seen, and a ballot with
// one retry.
func (c *Config) ArbitrationBudget() time.Duration {
	return 4*c.LUN.HeartbeatInterval + 3*c.LUN.IOTimeout
}

// GrantLifetime is G: a granted node feeds for no longer than this after the start of its own last write that landed
// (L6). It is longer than three heartbeats, of which the last one is slow, and not shorter than the evidence that the
// grant rests on. Each write is followed by the read that makes it count, so if each I/O takes ioTimeout, a grant is
// renewed after four of them; a fifth is a reserve. The lifetime is no longer than a half may feed undecided, so it
// makes no node's death later.
func (c *Config) GrantLifetime() time.Duration {
	slow := min(grantIOs*c.LUN.IOTimeout, c.EvidenceMaxAge()+c.ArbitrationBudget())
	return max(c.EvidenceMaxAge(), 3*c.LUN.HeartbeatInterval+c.LUN.IOTimeout, slow)
}

// TakeoverDelay is how long an excluded half leaves the LUN to the holders after they have released the grant: long
// enough for an agent to restart, publish its new token and seek the grant again.
func (c *Config) TakeoverDelay() time.Duration {
	return max(c.EvidenceMaxAge(), 3*c.LUN.HeartbeatInterval+c.LUN.IOTimeout) + 10*c.LUN.HeartbeatInterval
}

// SlowestIO is how long each I/O on the LUN may take at most if an equal split is to be decided within A. It assumes
// agents that continue the slot of an earlier agent: their ballots go to both copies. A half that lets the half with
// the API server go first has less time.
func (c *Config) SlowestIO() time.Duration {
	t := diskquorum.Timing{Heartbeat: c.LUN.HeartbeatInterval, Arbitrate: c.ArbitrationBudget()}
	return (t.SlowestRound(2, false) / 2).Truncate(10 * time.Millisecond)
}

// PreferenceDelay is how long a half that does not reach the Kubernetes API leaves the
// LUN to the other half (L12).
func (c *Config) PreferenceDelay() time.Duration { return 2 * c.LUN.HeartbeatInterval }

// RankStagger is how long, inside a half, each node waits for the previous one to propose (L12): one heartbeat, within
// which a proposal is seen.
func (c *Config) RankStagger() time.Duration { return c.LUN.HeartbeatInterval }

// BallotBudget is the time reserved for a ballot and one retry.
func (c *Config) BallotBudget() time.Duration {
	return (ballotAttempts * ballotIOs * c.LUN.IOTimeout / ballotIOFraction).Round(100 * time.Millisecond)
}

// LatestReset is the latest time after its last feed at which the watchdog fires: every sum uses it. It is later than
// watchdog.timeout if the driver is known to be late.
func (c *Config) LatestReset() time.Duration { return c.driver().Latest(c.Watchdog.Timeout) }

// driver is the watchdog's driver. It is identified by its own name for itself, or by watchdog.device.
func (c *Config) driver() watchdog.Driver {
	named, _ := strings.CutPrefix(c.Watchdog.Device, identityPrefix) // otherwise the device is a path, not a driver's name
	driver := c.WatchdogDriver
	driver.Identity = cmp.Or(driver.Identity, named)
	return driver
}

// Budget is the time budget with the watchdog timeout w, as read back from the driver. A is part of it even if no
// tie-breaker is configured: the budget is a promise to nodes that may be configured otherwise.
func (c *Config) Budget(w time.Duration) watchdog.Budget {
	return c.BudgetFor(w, max(1, len(c.Members.Static)))
}

// BudgetFor is Budget for a group of n members.
func (c *Config) BudgetFor(w time.Duration, n int) watchdog.Budget {
	return watchdog.Budget{
		MaxAge: c.EvidenceMaxAge(), Sampling: c.SamplingDelay(n), Voices: c.LUNEvidence(n), Arbitrate: c.ArbitrationBudget(), Grant: c.GrantLifetime(),
		Feed: c.Watchdog.FeedInterval, Margin: MarginAfterDeath,
	}.WithWatchdog(w)
}

// GrantExpiry is T_expire: a holder whose slot has not changed for this long between two completed reads no longer
// holds its grant (L5). w is the holder's watchdog timeout.
func (c *Config) GrantExpiry(w time.Duration) time.Duration {
	return c.GrantLifetime() + c.Watchdog.FeedInterval + w + MarginAfterDeath
}

// SentenceTimeout is the watchdog's timeout once a node has condemned itself. If the driver refuses it, the agent
// tries the next longer one.
const SentenceTimeout = time.Second

// SentencePatience is the shortest time after which a node condemns itself: two heartbeats, a write and a read, in
// which the others have shown twice that they live.
func (c *Config) SentencePatience() time.Duration {
	return 2*c.LUN.HeartbeatInterval + c.LUN.IOTimeout/4
}

// Sentencing says when a node condemns itself. By its own evidence a node does so only where a LUN shows that others
// live; by an order it does so anywhere, and then has time to tell the others.
func (c *Config) Sentencing() watchdog.Sentencing {
	if c.sparesItself() != "" {
		return watchdog.Sentencing{Timeout: SentenceTimeout, Strike: max(c.LUN.IOTimeout, time.Second)}
	}
	after := c.Watchdog.SentenceAfter
	if after > 0 {
		after = max(after, c.SentencePatience())
	}
	return watchdog.Sentencing{After: after, Timeout: SentenceTimeout, Strike: c.LUN.IOTimeout, LUNLoss: c.Watchdog.SelfFence == SelfFenceLUN}
}

// Announced is how long after a cut the others know at the latest that this node is dead, if it reads on the LUN that
// they live: the evidence of its last majority runs out, its loss becomes certain, it tells them that the watchdog will
// have fired after twice the countdown, and they read that. 0: no node condemns itself, by the configuration or because
// the driver, if it is known, cannot count so short a time. A dry run is judged as if it armed the watchdog.
func (c *Config) Announced() time.Duration {
	armed := *c
	if armed.Watchdog.Driver == DriverNone {
		armed.Watchdog.Driver = DriverDevice
	}
	after, countdown := armed.Sentencing().After, c.driver().Shortest(SentenceTimeout)
	if after == 0 || countdown > watchdog.MaxSentence || c.Watchdog.Timeout <= watchdog.MaxSentence {
		return 0
	}
	return c.EvidenceMaxAge() + c.SamplingDelay(len(c.Members.Static)) + after + 2*countdown + MarginAfterDeath + c.LUN.HeartbeatInterval
}

// sparesItself says what in the configuration keeps this node from condemning itself, or "".
func (c *Config) sparesItself() string {
	switch {
	case len(c.LUN.Devices) == 0:
		return "there is no LUN (lun.devices) to show that others live"
	case !c.LUN.Hold:
		return "lun.hold is false, and only a node that would hold can tell that it has lost"
	case c.OnQuorumLoss != LossFence:
		return fmt.Sprintf("onQuorumLoss is %s, and a node only condemns itself to be fenced", c.OnQuorumLoss)
	case c.Watchdog.Driver == DriverNone:
		return "watchdog.driver is none, and there is no countdown to shorten"
	}
	return ""
}

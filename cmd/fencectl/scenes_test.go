package main

import (
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// scenes are the situations an operator meets.
var scenes = []struct {
	name string
	size int
	make func(st *fencingv1.Status)

	late time.Duration // between the status and the look at it
}{
	{name: "healthy", size: 4},
	{name: "network-lost", size: 4, make: networkLost},
	{name: "peer-lost", size: 4, make: peerLost},
	{name: "split-pending", size: 4, make: splitPending},
	{name: "split-won", size: 4, make: splitWon},
	{name: "split-lost", size: 4, make: splitLost},
	{name: "overdue", size: 4, make: overdue},
	{name: "exclude", size: 4, make: exclude},
	{name: "starting", size: 4, make: starting},
	{name: "maintenance", size: 4, make: maintenance},
	{name: "lun-failed", size: 4, make: lunFailed},
	{name: "dry-run-starved", size: 4, make: dryRun},
	{name: "kubernetes", size: 4, make: kubernetes},
	{name: "standing-still", size: 4, late: 12 * time.Second},
	{name: "alarms", size: 4, make: alarms},
	{name: "hostile-names", size: 4, make: hostile},
	{name: "nodes-300", size: 300, make: largeGroup},
	{name: "nodes-300-network-down", size: 300, make: largeDown},
	{name: "nodes-300-cut-off", size: 300, make: largeCut},
}

func networkLost(st *fencingv1.Status) {
	st.Networks[1].Up, st.Networks[1].HealthScore = false, 3
	for _, n := range []string{"n2", "n3", "n4"} {
		lose(st, "data", n, 12.4)
	}
}

func peerLost(st *fencingv1.Status) {
	loseAll(st, 45.8, "n4")
	nodeOf(st, "n4").State = fencingv1.NodeState_NODE_STATE_FENCED
	lose(st, "data", "n3", 7.3)
	st.Networks[1].Members[1].Alive = true // n3 on data: heard of, but the answer is old
	n2 := nodeOf(st, "n2")
	n2.SeesThisNode, n2.Counted, n2.SameRoster = false, false, false
	st.Verdict.Tally.Counted = 2
	decide(st, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_QUORUM_LOST, false, 0, 2, "less than half of the group is in contact")
	st.Watchdog.State, st.Watchdog.LastFeedAge = fencingv1.WatchdogState_WATCHDOG_STATE_STARVED, secs(6)
}

func splitPending(st *fencingv1.Status) {
	loseAll(st, 6, "n3", "n4")
	nodeOf(st, "n3").HeardAge = secs(0.2)
	decide(st, fencingv1.Permission_PERMISSION_HOLD, fencingv1.Reason_REASON_SPLIT_PENDING, true, 7.15, 2.85,
		"equal split, being decided: 2 of 4 nodes counted, 3 needed; waiting for: the holders' grant of decision 6 to expire")
	st.LunLease = &fencingv1.LunLease{Instance: 6, Holders: []string{"n3", "n4"}, Pending: true}
	st.Luns[0].InFlightAge = secs(0.1)
}

func splitWon(st *fencingv1.Status) {
	loseAll(st, 75, "n3", "n4")
	decide(st, fencingv1.Permission_PERMISSION_FEED, fencingv1.Reason_REASON_SPLIT_WON, true, 6.4, 65, "equal split, won")
	st.LunLease = &fencingv1.LunLease{Instance: 7, Holders: []string{"n1", "n2"}, Held: true, GrantedFor: secs(6.4)}
	for _, n := range []string{"n3", "n4"} {
		nodeOf(st, n).State = fencingv1.NodeState_NODE_STATE_FENCED
	}
}

func splitLost(st *fencingv1.Status) {
	loseAll(st, 12.7, "n3", "n4")
	decide(st, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_SPLIT_LOST, false, 0, 8.7, "equal split, lost: the grant on the LUN names the other half")
	st.LunLease = &fencingv1.LunLease{Instance: 7, Holders: []string{"n3", "n4"}}
	st.Watchdog.State, st.Watchdog.LastFeedAge = fencingv1.WatchdogState_WATCHDOG_STATE_STARVED, secs(8.9)
	nodeOf(st, "n2").Feeding = false
}

func overdue(st *fencingv1.Status) {
	splitLost(st)
	st.Watchdog.State, st.Watchdog.LastFeedAge = fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY, secs(34.2)
	st.Watchdog.Error = "the countdown ran out and the node was not reset"
}

func exclude(st *fencingv1.Status) {
	loseAll(st, 31, "n2", "n3", "n4")
	st.Verdict.OnQuorumLoss = "exclude"
	decide(st, fencingv1.Permission_PERMISSION_FEED, fencingv1.Reason_REASON_QUORUM_LOST, false, 4, 27, "less than half of the group is in contact")
	nodeOf(st, "n1").Available = false
}

func starting(st *fencingv1.Status) {
	loseAll(st, 0, "n2", "n3", "n4")
	for _, name := range []string{"n2", "n3", "n4"} {
		for _, network := range st.Networks {
			for _, m := range network.Members {
				m.EvidenceAge = nil
			}
		}
		*nodeOf(st, name) = fencingv1.NodeStatus{Name: name, State: fencingv1.NodeState_NODE_STATE_UNKNOWN}
	}
	decide(st, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_STARTING, false, 0, 1.5, "no quorum seen since the agent started")
	st.Self.Uptime = secs(1.5)
	st.Watchdog = &fencingv1.WatchdogStatus{
		Driver: "device", Device: "/dev/watchdog", State: fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED, LastBootReset: true,
	}
	nodeOf(st, "n1").WatchdogArmed = false
	st.Luns[0] = &fencingv1.LunStatus{Path: "/dev/mapper/fence", Device: "dm-3", Error: "not opened yet"}
	nodeOf(st, "n1").LunHealthy = false
}

func maintenance(st *fencingv1.Status) {
	decide(st, fencingv1.Permission_PERMISSION_DISARM, fencingv1.Reason_REASON_MAINTENANCE, true, 0, 600, "disarmed for maintenance")
	st.Watchdog.State, st.Watchdog.Armed, st.Watchdog.DisarmReason = fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED, false, "maintenance"
	nodeOf(st, "n1").WatchdogArmed = false
}

func lunFailed(st *fencingv1.Status) {
	l := st.Luns[0]
	l.Healthy, l.LastWriteAge, l.LastReadAge, l.InFlightAge = false, secs(187), secs(188), secs(186)
	l.Error = "write /dev/mapper/fence: no answer within 2s: the LUN or the path to it hangs"
	nodeOf(st, "n1").LunHealthy, nodeOf(st, "n3").LunHealthy = false, false
}

func dryRun(st *fencingv1.Status) {
	splitLost(st)
	w := st.Watchdog
	w.Driver, w.Device, w.Identity, w.Armed = "none", "", "none (dry run)", false
	for _, n := range st.Nodes {
		n.WatchdogArmed = false
	}
}

func kubernetes(st *fencingv1.Status) {
	loseAll(st, 15, "n3", "n4")
	st.Luns, st.LunLease = nil, nil
	st.Api = &fencingv1.ApiStatus{Configured: true, Reachable: true, Age: secs(1.2)}
	nodeOf(st, "n1").ApiReachable = true
	st.TimeBudget.Grant = secs(20)
	st.TimeBudget.HorizonTie = secs(86)
	decide(st, fencingv1.Permission_PERMISSION_FEED, fencingv1.Reason_REASON_API_REACHABLE, true, 2.8, 5, "")
}

// alarms is everything at once that a person should see while the node is fed.
func alarms(st *fencingv1.Status) {
	st.Watchdog.State, st.Watchdog.Nowayout = fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY, true
	st.Watchdog.Error = "feed /dev/watchdog: input/output error"
	st.Watchdog.Slack = secs(-1.5)
	st.Luns[0].ForeignWriter, st.Luns[0].Healthy, st.Luns[0].Claimed = true, false, false
	st.Api = &fencingv1.ApiStatus{Configured: true, Age: secs(7)}
	st.TimeBudget.HorizonMajority = secs(99)
	loseAll(st, 20, "n4")
	nodeOf(st, "n4").State = fencingv1.NodeState_NODE_STATE_STOPPED
	st.Networks[1].Members = st.Networks[1].Members[1:] // of another roster for a moment
}

// hostile is what could be done to a terminal by a peer that controls its own words.
func hostile(st *fencingv1.Status) {
	nodeOf(st, "n2").Version = "v\x1b[2J\x07\u202e"
	st.Luns[0].Healthy, st.Luns[0].Error = false, "two\nlines and \x1b]0;a title\x07"
	st.Networks[0].Name = "mgm\u00fc"
}

func largeGroup(st *fencingv1.Status) {
	st.TimeBudget.Sampling, st.TimeBudget.HorizonMajority, st.TimeBudget.HorizonTie = secs(4), secs(74), secs(84)
	st.Watchdog.Pretimeout = secs(10)
	loseAll(st, 3721, "n77")
	nodeOf(st, "n77").State = fencingv1.NodeState_NODE_STATE_FENCED
	loseAll(st, 9.1, "n204")
	lose(st, "mgmt", "n33", 6.2)
	nodeOf(st, "n150").LunHealthy = false
	nodeOf(st, "n151").WatchdogArmed = false
	nodeOf(st, "n152").Stopping = true
}

// largeDown: the network that is down here is no trouble of 299 others.
func largeDown(st *fencingv1.Status) {
	st.Networks[1].Up = false
	for _, n := range st.Nodes[1:] {
		lose(st, "data", n.Name, 30)
	}
}

func largeCut(st *fencingv1.Status) {
	for _, n := range st.Nodes[1:] {
		loseAll(st, 5.5, n.Name)
		n.HeardAge = secs(0.4)
	}
	decide(st, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_QUORUM_LOST, false, 0, 1, "")
	st.Watchdog.LastFeedAge = secs(3)
}

// scene makes the status of a scene.
func scene(t testing.TB, name string) *fencingv1.Status {
	t.Helper()
	for _, s := range scenes {
		if s.name == name {
			st := group(s.size)
			if s.make != nil {
				s.make(st)
			}
			return st
		}
	}
	t.Fatalf("no scene %s", name)
	return nil
}

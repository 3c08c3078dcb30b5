package main

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/agentsim"
)

// situation is a situation that an operator meets, as an agent reports it. Whole agents run through the schedule on
// virtual time. The first answer that meets the condition is kept in testdata/scenes.
type situation struct {
	name   string
	s      agentsim.Schedule
	during [2]time.Duration // the agents are asked in this period, after the group has settled
	of     []int            // which agents are asked; the first one if nil
	is     func(*fencingv1.Status) bool
	varies []string // the lines that differ from run to run
	slow   bool     // takes long to record, so short tests leave it out
}

// settled is when a group that has booted comes to rest and the events of the scene begin.
const settled = 45 * time.Second

// each is the pause between two requests to the agents.
const each = 200 * time.Millisecond

// ordinary is a group with the times of docs/configuration.md. The events begin when it has settled.
func ordinary(nodes int, change func(*agentsim.Schedule), events ...agentsim.Event) agentsim.Schedule {
	s := agentsim.Schedule{
		Seed: uint64(nodes), Nodes: nodes, Networks: 2, LUN: true, OnLoss: "fence", Watchdog: 30 * time.Second, Feed: 5 * time.Second,
		Reboot: time.Hour, Events: events, Unjudged: true,
	}
	if change != nil {
		change(&s)
	}
	for i := range s.Events {
		s.Events[i].At += settled
	}
	return s
}

func reason(r fencingv1.Reason) func(*fencingv1.Status) bool {
	return func(st *fencingv1.Status) bool { return st.GetVerdict().GetReason() == r }
}

// peer reports whether a node is in this state.
func peer(name string, state fencingv1.NodeState) func(*fencingv1.Status) bool {
	return func(st *fencingv1.Status) bool { return nodeOf(st, name).GetState() == state }
}

// told reports whether the status has the sentence of a node.
func told(name string) func(*fencingv1.Status) bool {
	return func(st *fencingv1.Status) bool { return nodeOf(st, name).GetSentence().GetTimeout().AsDuration() > 0 }
}

// aliveAndOld is true while memberlist still counts a peer as alive whose answers have become too old.
func aliveAndOld(st *fencingv1.Status) bool {
	return slices.ContainsFunc(st.GetNetworks()[0].GetMembers(), func(m *fencingv1.NetworkMember) bool { return m.GetAlive() && !m.GetReachable() })
}

// fenced reports whether this many nodes are fenced: the nodes of a half are not proven dead at the same moment.
func fenced(n int) func(*fencingv1.Status) bool {
	return func(st *fencingv1.Status) bool {
		count := 0
		for _, node := range st.GetNodes() {
			if node.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
				count++
			}
		}
		return count == n
	}
}

func all(of ...func(*fencingv1.Status) bool) func(*fencingv1.Status) bool {
	return func(st *fencingv1.Status) bool {
		for _, is := range of {
			if !is(st) {
				return false
			}
		}
		return true
	}
}

var bothNetworks = []int{0, 1}

func halves(a, b []int) agentsim.Event {
	return agentsim.Event{Kind: agentsim.Split, Parts: [][]int{a, b}, Networks: bothNetworks}
}

func of(kind agentsim.Kind, nodes ...int) agentsim.Event {
	return agentsim.Event{Kind: kind, Nodes: nodes, Networks: bothNetworks}
}

// broken makes every I/O of these nodes on the LUN fail.
func broken(nodes ...int) agentsim.Event {
	return agentsim.Event{Kind: agentsim.LUNError, Nodes: nodes, Share: 1}
}

func after(d time.Duration, e agentsim.Event) agentsim.Event {
	e.At = d
	return e
}

// from asks once, this long after the events.
func from(d time.Duration) [2]time.Duration { return [2]time.Duration{d, d} }

func between(a, b time.Duration) [2]time.Duration { return [2]time.Duration{a, b} }

// many is a group with more nodes than are shown one by one.
const many = 24

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// inHalves is the equal split of four nodes that most scenes of a tie use.
var inHalves = halves([]int{0, 1}, []int{2, 3})

// apart splits five nodes so that none of them reaches another.
var apart = agentsim.Event{Kind: agentsim.Split, Parts: [][]int{{0}, {1}, {2}, {3}, {4}}, Networks: bothNetworks}

const (
	sec = time.Second
	// horizon is later than T_dead of these groups, 81 s, after both have lost sight of each other.
	horizon = 100 * sec
)

var scenes = []situation{
	{name: "healthy", s: ordinary(4, nil), during: from(sec)},
	{name: "network-cut", s: ordinary(4, nil, agentsim.Event{Kind: agentsim.Split, Parts: [][]int{{0, 1}, {2, 3}}, Networks: []int{1}}), during: from(12 * sec)},
	{name: "network-down", s: ordinary(4, nil, agentsim.Event{Kind: agentsim.Carrier, Nodes: []int{0}, Networks: []int{1}}), during: from(12 * sec)},
	{name: "one-way", s: ordinary(4, nil, of(agentsim.OneWay, 0, 1)), during: from(12 * sec)},
	{name: "stale", s: ordinary(4, nil, agentsim.Event{Kind: agentsim.Freeze, Nodes: []int{2}, Span: time.Minute}), during: between(3*sec, 9*sec), is: all(aliveAndOld, peer("n3", fencingv1.NodeState_NODE_STATE_UNREACHABLE))},
	{name: "peer-dead", s: ordinary(4, nil, of(agentsim.Kill, 3)), during: from(20 * sec)},
	{name: "peer-fenced", s: ordinary(4, nil, of(agentsim.Kill, 3)), during: between(30*sec, horizon+30*sec), is: peer("n4", fencingv1.NodeState_NODE_STATE_FENCED), slow: true},
	{name: "peer-upgrade", s: ordinary(4, nil, agentsim.Event{Kind: agentsim.Upgrade, Nodes: []int{1}, Span: 20 * sec}), during: from(10 * sec)},
	{name: "split-pending", s: ordinary(4, nil, inHalves), during: between(0, 20*sec),
		is: reason(fencingv1.Reason_REASON_SPLIT_PENDING), varies: []string{".watchdog.state = "}}, // STARVED until it is fed again
	{name: "split-won", s: ordinary(4, nil, inHalves), during: from(8 * sec), of: upTo(4), is: reason(fencingv1.Reason_REASON_SPLIT_WON)},
	{name: "split-won-fenced", s: ordinary(4, nil, inHalves), during: between(12*sec, 25*sec), of: upTo(4),
		is: all(reason(fencingv1.Reason_REASON_SPLIT_WON), fenced(2))},
	{name: "split-lost", s: ordinary(4, nil, inHalves), during: from(8 * sec), of: upTo(4), is: reason(fencingv1.Reason_REASON_SPLIT_LOST)},
	{name: "split-no-lun", s: ordinary(4, nil, broken(0, 1), after(8*sec, inHalves)), during: from(24 * sec)},
	{name: "split-no-tiebreaker", s: ordinary(4, func(s *agentsim.Schedule) { s.LUN = false }, inHalves), during: from(10 * sec)},
	{name: "alone", s: ordinary(4, nil, halves([]int{0}, []int{1, 2, 3})), during: between(6*sec, 9*sec), is: reason(fencingv1.Reason_REASON_ISOLATED)},
	{name: "condemned", s: ordinary(4, nil, halves([]int{0}, []int{1, 2, 3})), during: between(9*sec, 11*sec), is: all(reason(fencingv1.Reason_REASON_CONDEMNED), told("n1"))},
	{name: "peer-condemned", s: ordinary(4, nil, halves([]int{3}, []int{0, 1, 2})), during: between(9*sec, 13*sec), is: all(peer("n4", fencingv1.NodeState_NODE_STATE_UNREACHABLE), told("n4"))},
	{name: "lun-asking", s: ordinary(5, nil, apart), during: between(3*sec, 12*sec), is: reason(fencingv1.Reason_REASON_LUN_ASKING),
		varies: []string{".watchdog.state = ", ".networks.members.reachable = "}}, // the cut is not noticed on both networks at the same moment,
	{name: "nobody-lives", s: ordinary(5, nil, apart), during: from(90 * sec), slow: true},
	{name: "lun-quorum", s: ordinary(5, func(s *agentsim.Schedule) { s.LUNMode = "or" }, apart), during: from(60 * sec), is: reason(fencingv1.Reason_REASON_LUN_QUORUM)},
	{name: "exclude", s: ordinary(4, func(s *agentsim.Schedule) { s.OnLoss = "exclude" }, halves([]int{0}, []int{1, 2, 3})), during: from(10 * sec)},
	{name: "starting", s: ordinary(4, func(s *agentsim.Schedule) { s.Reboot = 5 * sec }, halves([]int{0}, []int{1, 2, 3})),
		during: between(35*sec, 70*sec), is: reason(fencingv1.Reason_REASON_STARTING), slow: true},
	{name: "maintenance", s: ordinary(4, nil, of(agentsim.Disable, 0)), during: between(5*sec, 40*sec),
		is: func(st *fencingv1.Status) bool {
			return st.GetWatchdog().GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED
		}},
	{name: "lun-hangs", s: ordinary(4, nil, of(agentsim.LUNHang, 0)), during: from(20 * sec)},
	{name: "lun-failed", s: ordinary(4, nil, broken(upTo(4)...)), during: from(10 * sec)},
	{name: "watchdog-fails", s: ordinary(4, nil, of(agentsim.FeedFails, 0)), during: from(12 * sec)},
	{name: "dry-run", s: ordinary(4, func(s *agentsim.Schedule) { s.DryRun = true }), during: from(sec)},
	{name: "dry-run-alone", s: ordinary(4, func(s *agentsim.Schedule) { s.DryRun = true }, halves([]int{0}, []int{1, 2, 3})), during: from(15 * sec)},
	{name: "kubernetes", s: ordinary(4, func(s *agentsim.Schedule) { s.LUN, s.API = false, true }, inHalves), during: from(15 * sec)},
	{name: "lease", s: ordinary(4, func(s *agentsim.Schedule) { s.LUN, s.API, s.Lease = false, true, true }), during: from(sec)},
	{name: "roster-change", s: ordinary(4, func(s *agentsim.Schedule) { s.Members = []int{0, 1, 2} },
		agentsim.Event{Kind: agentsim.NewMembers, Nodes: upTo(4), Parts: [][]int{{0}}}), during: from(15 * sec)},
	{name: "standing-still", s: ordinary(4, nil, agentsim.Event{Kind: agentsim.HangLoop, Nodes: []int{0}, Span: time.Minute}), during: from(12 * sec)},
	{name: "large", s: ordinary(many, nil, of(agentsim.Kill, 19), broken(7), agentsim.Event{Kind: agentsim.Carrier, Nodes: []int{4}, Networks: []int{0}}),
		during: from(15 * sec), slow: true},
	{name: "large-network-down", s: ordinary(many, nil, agentsim.Event{Kind: agentsim.Carrier, Nodes: []int{0}, Networks: []int{1}}), during: from(15 * sec), slow: true},
	{name: "large-cut-off", s: ordinary(many, nil, halves([]int{0}, upTo(many)[1:])), during: between(6*sec, 9*sec), slow: true,
		is: all(reason(fencingv1.Reason_REASON_ISOLATED), func(st *fencingv1.Status) bool { // the feeder receives the verdict a moment later
			return st.GetWatchdog().GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_STARVED
		})},
}

func sceneNamed(t testing.TB, name string) *situation {
	t.Helper()
	for i := range scenes {
		if scenes[i].name == name {
			return &scenes[i]
		}
	}
	t.Fatalf("no scene %s", name)
	return nil
}

// scene returns the status of a scene, as if its agent had been asked at noon.
func scene(t testing.TB, name string) *fencingv1.Status {
	t.Helper()
	return readScene(t, sceneNamed(t, name))
}

// shift moves all values that depend on the wall clock.
func shift(st *fencingv1.Status, by time.Duration) {
	move := func(at *timestamppb.Timestamp) {
		if at != nil {
			moved := timestamppb.New(at.AsTime().Add(by))
			at.Seconds, at.Nanos = moved.Seconds, moved.Nanos
		}
	}
	move(st.GetTime())
	move(st.GetVerdict().GetSince())
	for _, n := range st.GetNodes() {
		move(n.GetPrevDisconnect())
		move(n.GetDeath().GetTime())
	}
}

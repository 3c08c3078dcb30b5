package vms

import (
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
)

// The stories in this file are about the networks and the LUN.

// lunChecked: fencectl can use the LUN.
func (s *story) lunChecked() {
	out := s.run("n1", "/disk/bin/fencectl lun check /dev/sda -n 20")
	for _, want := range []string{"verified", "20 rounds", "superblock and slots can be read"} {
		if !strings.Contains(out, want) {
			s.t.Errorf("fencectl lun check does not say %q:\n%s", want, out)
		}
	}
	s.logf("fencectl lun check:\n%s", out)
}

// equalSplit: with a LUN that all can read, exactly one half lives.
func (s *story) equalSplit() {
	at := s.cut(networks, s.nodes[:2], s.nodes[2:])
	lost, won := s.oneHalf(at, s.nodes[:2], s.nodes[2:])
	s.fenced(lost, won)
}

// minority: two of five are not half of the group, so there is nothing to decide.
func (s *story) minority() {
	two, three := s.nodes[:2], s.nodes[2:]
	at := s.cut(networks, two, three)
	s.alive(three, at, s.reset(two, at, s.budget.GetHorizonMajority().AsDuration()))
}

// isolated: three of four live, and the fourth is reset although it reaches the LUN.
func (s *story) isolated() {
	lone := "n2"
	rest := without(s.nodes, lone)
	at := s.cut(networks, []string{lone}, rest)
	s.alive(rest, at, s.reset([]string{lone}, at, s.budget.GetHorizonMajority().AsDuration()))
}

// silence cuts all networks between any two nodes except the network of the LUN, and waits until the nodes hold by the
// LUN.
func (s *story) silence() (at time.Time) {
	at = s.drop(apart(s.nodes)...)
	s.logf("all networks cut")
	s.await(s.lost()+patience, "all hold by the LUN", s.nodes, held(s.nodes...))
	return at
}

// allNetworks: no two nodes reach each other, and all reach the LUN. No part could have quorum, so no watchdog may
// fire.
func (s *story) allNetworks() { s.rideOut(*outage) }

// apart returns all traffic between any two of the nodes. The network of the LUN is not part of it.
func apart(nodes []string) (hops []fabric.Hop) {
	for i, node := range nodes {
		hops = append(hops, between(networks, []string{node}, nodes[i+1:])...)
	}
	return hops
}

// threeFirst: four nodes hold by the LUN. Three of them become a majority again, and the fourth has lost.
func (s *story) threeFirst() {
	at := s.silence()
	s.alive(s.nodes, at, at.Add(watchdogTimeout+feedInterval))
	lone, rest := s.nodes[3:], s.nodes[:3]
	s.dropped = nil
	healed := s.cut(networks, lone, rest)
	s.alive(rest, at, s.reset(lone, healed, s.budget.GetHorizonMajority().AsDuration()))
	s.fenced(lone, rest)
}

// held holds when these nodes are fed without quorum, because the LUN shows that no part of the group can live.
func held(nodes ...string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			p := v.Status[node].GetVerdict()
			if p.GetPermission() != fencingv1.Permission_PERMISSION_HOLD || p.GetReason() != fencingv1.Reason_REASON_NOBODY_LIVES || p.GetQuorum() {
				return node + " is at " + observe.Verdict(v.Status[node])
			}
		}
		return ""
	}
}

// oneNetwork: one network is lost, and the other one is enough.
func (s *story) oneNetwork() {
	at := s.cut(networks[1:], s.nodes[:2], s.nodes[2:])
	s.await(s.lost(), "the network is lost between the halves", s.nodes, observe.Networks(false, networks[1:], []string{"n1", "n3"}))
	s.unharmed(s.nodes, at)
}

// lost is the time after a fault within which the agents must have noticed it.
func (s *story) lost() time.Duration { return s.budget.GetDMax().AsDuration() + patience }

// oneWay: what is heard in only one direction does not count, and three of four still count each other.
func (s *story) oneWay() {
	var hops []fabric.Hop
	for _, network := range networks {
		hops = append(hops, fabric.Hop{Network: network, From: "n1", To: "n2"})
	}
	at := s.drop(hops...)
	s.logf("cut from n1 to n2")
	s.await(s.lost(), "the two do not count each other", s.nodes, doesNotCount("n1", "n2"), doesNotCount("n2", "n1"))
	s.unharmed(s.nodes, at)
}

// doesNotCount holds when the observer does not count the node.
func doesNotCount(observer, node string) observe.Condition {
	return func(v *observe.View) string {
		if v.Status[observer] == nil {
			return observer + " does not answer"
		}
		for _, n := range v.Status[observer].GetNodes() {
			if n.GetName() == node && n.GetCounted() {
				return observer + " counts " + node
			}
		}
		return ""
	}
}

// noLUN holds when none of the nodes can use the LUN.
func noLUN(of []string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range of {
			if v.Status[node] == nil {
				return node + " does not answer"
			}
			for _, l := range v.Status[node].GetLuns() {
				if l.GetHealthy() {
					return node + " still has the LUN"
				}
			}
		}
		return ""
	}
}

// sessionLimit is the time after which the initiator gives up a session: interval and timeout of its own probes, and
// the wait for another session.
const sessionLimit = 15 * time.Second

// lunLimit is the longest time until a node notices that the LUN is lost or back: session and commands have separate
// timeouts.
const lunLimit = time.Minute

// lunLostByAll: the target goes away for everybody and comes back. While the networks work, that must reset nobody.
func (s *story) lunLostByAll() {
	at := time.Now()
	target := "/sys/kernel/config/target/iscsi/" + targetName + "/tpgt_1/enable"
	s.run(storage, "echo 0 > "+target)
	s.logf("target stopped")
	s.await(lunLimit, "all miss the LUN", s.nodes, noLUN(s.nodes))
	s.unharmed(s.nodes, latest(at, time.Now()))
	s.run(storage, "echo 1 > "+target)
	s.logf("target started")
	s.await(upLimit, "the LUN is back", s.nodes, observe.LUNReady(s.nodes...))
	s.unharmed(s.nodes, at)
}

// lunBlinks: all nodes lose the LUN for a moment, and again for longer than a session lasts. No node is reset or LEFT,
// and the verdict does not change.
func (s *story) lunBlinks() {
	at := time.Now()
	for _, length := range []time.Duration{3 * time.Second, sessionLimit + 5*time.Second} {
		blink := s.cut([]string{san}, s.nodes, []string{storage})
		s.until(blink.Add(length))
		s.heal()
		s.await(upLimit, "the LUN is back", s.nodes, observe.LUNReady(s.nodes...))
	}
	s.unharmed(s.nodes, at)
	for _, node := range s.nodes {
		if text, ok := s.saidLeft(node, at); ok {
			s.fatal("%s reported LEFT while the networks were healthy: %s", node, text)
		}
		if when, ok := s.decidedAt(node, at, func(d decision) bool { return d.Action != "feed" }); ok {
			s.fatal("%s changed its verdict %v after the LUN was lost", node, when.Sub(at))
		}
	}
}

// lunPath: I/O on one path hangs and then continues, once before the session gives it up and once after that.
func (s *story) lunPath() {
	for _, length := range []time.Duration{4 * time.Second, 30 * time.Second} {
		at := s.cut([]string{san}, []string{"n1"}, []string{storage})
		if length > sessionLimit {
			s.await(lunLimit, "n1 misses the LUN", s.nodes, noLUN(s.nodes[:1]), observe.LUNReady(s.nodes[1:]...))
		}
		s.alive(s.nodes, at, at.Add(length))
		s.heal()
		s.await(upLimit, "the LUN is back", s.nodes, observe.LUNReady(s.nodes...))
		s.unharmed(s.nodes, at)
	}
}

// splitWithoutLUN: the half that has the LUN lives.
func (s *story) splitWithoutLUN() {
	with, without := s.nodes[2:], s.nodes[:2]
	s.cut([]string{san}, without, []string{storage})
	s.await(lunLimit, strings.Join(without, " ")+" miss the LUN", s.nodes, noLUN(without), observe.LUNReady(with...))
	s.await(lunLimit, "nobody minds", s.nodes, observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, s.nodes...))
	at := s.cut(networks, without, with)
	if lost, _ := s.oneHalf(at, without, with); !slices.Equal(lost, without) {
		s.t.Fatalf("%v were reset although they have the LUN", lost)
	}
}

// splitLUNLostByAll: with quorum.tieBreak: lun neither half may live.
func (s *story) splitLUNLostByAll() {
	s.cut([]string{san}, s.nodes, []string{storage})
	s.await(lunLimit, "all miss the LUN", s.nodes, noLUN(s.nodes))
	at := s.cut(networks, s.nodes[:2], s.nodes[2:])
	s.reset(s.nodes, at, s.budget.GetHorizonTie().AsDuration())
}

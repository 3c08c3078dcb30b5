package vms

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/fabric"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

// slowdown is the factor by which a split may be decided later if a path is lost during it.
const slowdown = 1.5

// TestPathsInASplit splits two agents while all paths are whole, and again while both lose one path of the LUN at that
// moment. With the settings that docs/operations.md advises, one of them must be granted the LUN in time in both cases.
func TestPathsInASplit(t *testing.T) {
	need(t)
	c := &contender{name: "paths", packages: pathPackages}
	if _, err := c.fetch(t.Context(), t.Logf); err != nil {
		t.Fatal(err)
	}
	crew, err := pathsCrew(c.tree, 2)
	if err != nil {
		t.Fatal(err)
	}
	alone := crew.node
	crew.node = func(i int) (image.Machine, error) {
		with, err := agentMachine(nodesNamed(2), i, splitConfig())
		m, _ := alone(i)
		maps.Copy(m.Boot.Files, with.Boot.Files)
		m.Boot.Service, m.Boot.Env = with.Boot.Service, with.Boot.Env
		return m, err
	}
	s := &story{t: t, name: "split in the middle of a path loss", began: time.Now(), stalls: observe.NewStalls()}
	defer s.stalls.Close()
	l, err := newLab(t, crew)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t)
	s.begin(l)
	s.offerAll()
	for _, node := range s.nodes {
		s.joinPaths(node)
	}
	whole := s.partAndMeet("all paths whole", -1)
	for _, after := range []time.Duration{0, whole / 2} {
		lost := s.partAndMeet(fmt.Sprintf("one path lost %s after the networks", seconds(after)), after)
		s.logf("granted %s after the split with all paths whole, %s with one lost %s after it", seconds(whole), seconds(lost), seconds(after))
		if float64(lost) > slowdown*float64(whole) {
			s.fatal("with one path lost the split was decided after %v, more than %.1f times as late as without, %v", lost, slowdown, whole)
		}
	}
}

func splitConfig() map[string]any {
	config := scenarioConfig()
	config["lun"] = map[string]any{"devices": []string{"/dev/mapper/fence"}}
	return config
}

// joinPaths creates the LUN's multipath device on a node that has booted, as docs/operations.md advises.
func (s *story) joinPaths(node string) {
	s.holds("the node is up", fmt.Sprintf("[ -x /disk/bin/fencectl ] && ip addr show %s | grep -q 10.88.4", san2), node)
	s.startUdev(node, true)
	s.logins(node)
	wwid := s.wwid(node)
	s.advise(node, wwid)
	s.run(node, "multipath -a "+wwid+" && multipathd reconfigure")
	s.holds("the paths are joined", "[ -b /dev/mapper/fence ] && multipathd show maps raw format '%N' | grep -q 2", node)
}

// partAndMeet cuts the nodes' networks. After the given time it also cuts, from each node, the path of the LUN in use;
// a negative time cuts no path. It waits until one node was reset and is back, and returns the time until the other was
// granted the LUN.
func (s *story) partAndMeet(what string, after time.Duration) time.Duration {
	s.noteBoots(s.allWell("all well"))
	var paths []fabric.Hop
	for _, node := range s.nodes {
		paths = append(paths, between([]string{s.busiest(node)}, []string{node}, []string{storage})...)
	}
	cut := s.cut(networks, s.nodes[:1], s.nodes[1:])
	if after >= 0 {
		s.until(cut.Add(after))
		s.drop(paths...)
		s.logf("cut the paths in use: %v", paths)
	}
	loser, winner := s.oneHalf(cut, s.nodes[:1], s.nodes[1:])
	at, ok := s.decidedAt(winner[0], cut, wonSplit)
	if !ok {
		s.fatal("%s: %s feeds and does not say that it won the split", what, winner[0])
	}
	s.logf("%s: %s won after %s", what, winner[0], seconds(at.Sub(cut)))
	s.heal()
	s.joinPaths(loser[0])
	return at.Sub(cut)
}

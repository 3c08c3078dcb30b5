package agentsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// breaking is how a machine's agent breaks ties, if it differs from the others in the schedule.
type breaking int

const (
	asAll      breaking = iota
	otherLUN            // another LUN
	clonedLUN           // a clone of the LUN, with the same superblock, under the same path
	otherLease          // a Lease with another name
	apiAlone            // whether it reaches the API server
)

var breakingNames = [...]string{"the schedule's way", "another LUN", "a clone of the LUN", "another Lease", "reaching the API server"}

func (b breaking) String() string { return breakingNames[b] }

const otherDevicePath = "/dev/mapper/other"

func (b breaking) path() string {
	if b == otherLUN {
		return otherDevicePath
	}
	return lunPathName
}

// formatLUNs formats the LUN, another one, and a clone of the first.
func (w *world) formatLUNs() {
	for _, b := range []breaking{asAll, otherLUN, clonedLUN} {
		id := [16]byte{7}
		if b == otherLUN {
			id[0] = 8
		}
		lun, err := diskquorumtest.NewFormattedLUN(&diskquorum.Superblock{
			Version: diskquorum.FormatVersion, ID: id, Cluster: clusterName, NodeGroup: groupName, Slots: w.s.Nodes, Created: 1,
		}, w.s.Seed+uint64(b))
		if err != nil {
			panic("agentsim: format LUN: " + err.Error())
		}
		w.luns[b] = lun
	}
}

// lunOf returns the LUN to which a machine's path leads. The caller holds mu.
func (m *machine) lunOf() *diskquorumtest.LUN {
	if m.breaks == otherLUN || m.breaks == clonedLUN {
		return m.w.luns[m.breaks]
	}
	return m.w.luns[asAll]
}

// WWID returns the identifier that the storage gives the LUN.
func (c *lunClient) WWID() string { return fmt.Sprintf("naa.%d", c.breaks) }

// reconfigure makes agents break ties in another way after a restart, one agent after the other.
func (w *world) reconfigure(e Event) {
	for n, i := range e.Nodes {
		m := w.machines[i]
		change := func() {
			w.mu.Lock()
			m.breaks = breaking(e.Pick)
			w.mu.Unlock()
			w.writeConfig(i)
			if e.Span > 0 {
				m.upgrade(e.Span)
			} else {
				m.kill(true)
			}
		}
		w.after(time.Duration(n)*reconfigurePause, change)
	}
}

// changeBreaking makes nodes of some groups break ties in another way from some moment on, and later in the first way
// again. Other groups begin with two ways.
func (s *Schedule) changeBreaking(rng *rand.Rand) {
	if rng.IntN(5) > 0 || !s.oneHalf() {
		return
	}
	ways := []breaking{otherLUN, clonedLUN, apiAlone}
	if s.Lease {
		ways = []breaking{otherLease}
	}
	if rng.IntN(4) == 0 {
		s.Mixed = ways[rng.IntN(len(ways))]
	}
	for i := range s.Events {
		if rng.IntN(3) > 0 {
			continue
		}
		e := Event{At: s.Events[i].At + time.Duration(rng.Int64N(int64(10*time.Second))), Kind: Reconfigure, Nodes: rng.Perm(s.Nodes)[:1+rng.IntN(s.Nodes)]}
		if rng.IntN(3) > 0 {
			e.Pick = int(ways[rng.IntN(len(ways))])
		}
		if rng.IntN(2) == 0 {
			e.Span = time.Duration(1+rng.IntN(4)) * time.Second
		}
		s.Events = append(s.Events, e)
	}
	s.inOrder(0)
	s.End = max(s.End, s.Events[len(s.Events)-1].At+15*time.Second)
}

// reconfigurePause is the time between the restarts of two agents.
const reconfigurePause = 3 * time.Second

// way returns how a machine's agent breaks ties: by the configuration with which it began, whatever the file contains
// now. The caller holds mu.
func (m *machine) way() breaking {
	if m.proc != nil {
		return m.proc.breaks
	}
	return m.breaks
}

// allAlike reports whether the agents of all machines break ties in the same way. The caller holds mu.
func (w *world) allAlike() bool {
	for _, m := range w.machines {
		if m.way() != w.machines[0].way() {
			return false
		}
	}
	return true
}

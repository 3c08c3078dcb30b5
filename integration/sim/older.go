package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// older is a LUN that goes back under all nodes. diskquorum's TestStorageThatLies states what can be promised then. Its
// oracle knows what each agent has read; less is promised here.
type older struct {
	kept       [][]byte // snapshots, by device
	at         boottime.Instant
	known      int  // how often all nodes could know that the LUN went back
	began      bool // a device has gone back
	unpromised bool // in a way that some node cannot know: from then on no decision of the LUN is checked
}

// Snapshot saves the content of all devices.
func (c *Cluster) Snapshot() {
	c.trace("a snapshot is taken of the LUN")
	c.older.kept, c.older.at = nil, c.now
	for _, image := range c.lun.images {
		c.older.kept = append(c.older.kept, slices.Clone(image))
	}
}

// Restore writes the snapshot back to these devices. If there is none, it writes zeros to the slots.
func (c *Cluster) Restore(devices ...int) {
	c.trace("devices %v go back", devices)
	o := &c.older
	for _, n := range c.nodes {
		// The agent must have written its slot and read the others' since, and must run on: the next agent cannot know.
		knows := n.up && !n.paused && n.resumed <= o.at && c.now.Sub(o.at) >= 15*c.times(n).Timing.Heartbeat
		o.unpromised = o.unpromised || !knows || len(c.lun.faults) > 0
	}
	if o.began = true; !o.unpromised {
		o.known++
	}
	for _, d := range devices {
		image := c.lun.images[d]
		clear(image[diskquorum.OwnSize:])
		if o.kept != nil {
			copy(image[diskquorum.OwnSize:], o.kept[d][diskquorum.OwnSize:])
		}
	}
}

// calm ends all faults until all nodes count each other and write the LUN. Then all of them know what the LUN has, and
// from then on it is promised again. There is one exception: two decisions of one instance may be left, in a slot and
// in the memory of a node. Then all report this and feed by neither, until a new format (B7).
func (c *Cluster) calm() {
	c.Heal()
	for k := range c.cfg.Networks {
		c.SetWeather(k, Weather{})
	}
	for i := range c.nodes {
		c.Resume(i)
		c.LUNFaults(i, nil)
		c.Start(i)
	}
	for d := range c.lun.images {
		c.GiveBack(d)
	}
	c.Run(time.Minute)
	if !c.settled() {
		return
	}
	c.older.began, c.older.unpromised, c.check.decided = false, false, map[uint64]*diskquorum.Grant{}
	for _, n := range c.nodes {
		n.logged = logged{}
	}
	c.check.due = c.now
}

// settled reports whether all nodes count each other, have the LUN, and find no fault in it. Then they know one
// decision.
func (c *Cluster) settled() bool {
	for _, n := range c.nodes {
		if a := n.core.Arbiter(); !n.up || n.paused || n.counts.Len() < len(c.nodes) || a == nil || !a.Status(c.now).Healthy {
			return false
		}
	}
	first, agreed := c.nodes[0].core.Arbiter().Decision()
	for _, n := range c.nodes[1:] {
		if inst, grant := n.core.Arbiter().Decision(); inst != first || !grant.Equal(agreed) {
			c.check.add("%v: after a calm %s knows the decision of instance %d, %+v, and %s that of %d, %+v, and both call the LUN healthy",
				c.Now(), c.nodes[0].Name, first, agreed, n.Name, inst, grant)
		}
	}
	return true
}

// goesBack takes a snapshot of the LUN or restores it, on all devices or on one.
func (c *Cluster) goesBack(rng *rand.Rand) {
	if c.lun == nil || rng.IntN(5) > 0 {
		return
	}
	devices := rng.Perm(len(c.lun.images))
	switch rng.IntN(6) {
	case 0, 1:
		c.calm()
		c.Snapshot()
		c.Run(20 * time.Second)
	case 2:
		c.Restore(devices...)
	case 3, 4:
		c.Restore(devices[0])
	case 5:
		c.older.kept, c.older.at = nil, c.now.Add(-15*c.cfg.Timing.Heartbeat) // the device is zeroed
		c.Restore(devices[0])
	}
}

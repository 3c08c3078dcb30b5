package diskquorum

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// What the slots say of the others counts only while they move, by the same roster, and by
// a read that is fresh itself.
func TestWitness(t *testing.T) {
	none := roster.Set{}
	for _, c := range []struct {
		name            string
		change          func(r *rig)
		alive, counting roster.Set
	}{
		{"all is well", func(*rig) {}, roster.SetOf(1, 2, 3), roster.SetOf(1, 2, 3)},
		{"they do not count it", func(r *rig) {
			for i := range 3 {
				r.setView(1+i, 1, 2, 3)
			}
			r.run(3 * time.Second)
		}, roster.SetOf(1, 2, 3), none},
		{"one is dead", func(r *rig) { r.kill(1); r.run(6 * time.Second) }, roster.SetOf(2, 3), roster.SetOf(2, 3)},
		{"one stops", func(r *rig) { r.nodes[1].stop = true; r.run(2 * time.Second) }, roster.SetOf(2, 3), roster.SetOf(2, 3)},
		{"one goes by another roster", func(r *rig) {
			roster := *r.nodes[1].roster
			roster.Digest++
			r.nodes[1].roster = &roster
			r.run(2 * time.Second)
		}, roster.SetOf(2, 3), roster.SetOf(2, 3)},
		{"this node's reads have stopped", func(r *rig) { r.now = r.now.Add(5 * time.Second) }, none, none},
	} {
		r := startedRig(t, 4)
		r.setView(0, 0, 1) // a node that is missed is looked for at every heartbeat
		r.run(3 * time.Second)
		c.change(r)
		if w := r.nodes[0].arb.Witness(r.now); w.Alive != c.alive || w.Counting != c.counting {
			t.Errorf("%s: alive %v, counting %v", c.name, members(w.Alive), members(w.Counting))
		}
	}
}

// Guard: two groups that share a LUN are noticed: whose slot moves and who is on no list is named, as
// long as it moves.
func TestStrangers(t *testing.T) {
	r := startedRig(t, 4)
	a := r.nodes[0].arb
	if names := a.Strangers(); names != nil {
		t.Errorf("members are named: %v", names)
	}
	all := r.nodes[0].roster
	fewer, err := roster.New(all.Epoch, all.Members[:2], all.Name(0))
	if err != nil {
		t.Fatal(err)
	}
	a.SetRoster(fewer, 2)
	r.nodes[0].roster = fewer
	r.setView(0, 0) // a node that is missed is looked for at every heartbeat
	r.run(6 * time.Second)
	if names := a.Strangers(); !slices.Equal(names, []string{all.Name(2), all.Name(3)}) {
		t.Errorf("named %v", names)
	}
	r.kill(2)
	r.nodes[3].stop = true
	r.run(12 * time.Second)
	if names := a.Strangers(); names != nil {
		t.Errorf("dead and stopped nodes are named: %v", names)
	}
}

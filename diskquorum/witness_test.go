package diskquorum

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: two groups that use the same LUN are noticed: a node whose slot moves and that is not on the list is named, as
// long as its slot moves.
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
	r.setView(0, 0) // while a node is missing, the table is read at every heartbeat
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

package belief

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// Guard (two writers): a boot that agents see run is not believed dead by any proof. Without a proof the agents are not
// asked.
func TestSeen(t *testing.T) {
	q := Question{Node: "n4", Group: "worker", Boot: dead, GroupSize: 5, Power: true, Seen: []string{"n1", "n2"}}
	n4 := deaths.Death{Node: "n4", Boot: dead}
	for name, nodes := range map[string][]Node{"power": nil, "reporters": {says("n3", n4), says("n5", n4)}} {
		q.Power = name == "power"
		if v := Judge(Settings{MinReporters: 2}, q, nodes); v.Believed || v.By != "" || len(v.Seen) != 2 || v.Missing != "the agents of n1, n2 see this boot run" {
			t.Errorf("%s: %+v", name, v)
		}
		free := q
		if free.Seen = nil; !Judge(Settings{MinReporters: 2}, free, nodes).Believed {
			t.Errorf("%s: it is not believed without", name)
		}
	}
	q.Power, q.Group = true, ""
	if v := Judge(Settings{}, q, nil); v.Believed {
		t.Errorf("without a group: %+v", v)
	}
	q.Power = false
	if v := Judge(Settings{}, q, nil); len(v.Seen) != 0 {
		t.Errorf("nobody calls it dead: %+v", v)
	}
}

package belief

import "testing"

// A confirmed off needs no reporter, and a reporter that takes its report back outweighs it.
func TestPower(t *testing.T) {
	s := Settings{MinReporters: 2}
	q := Question{Node: "n4", Group: "worker", Boot: dead, GroupSize: 4, Power: true}
	if v := Judge(s, q, nil); !v.Believed || v.By != "power" {
		t.Errorf("nobody else: %+v", v)
	}
	q.Group = ""
	if v := Judge(s, q, nil); !v.Believed || v.By != "power" {
		t.Errorf("no group: %+v", v)
	}
	q.Group, q.Before = "worker", []string{"n1"}
	if v := Judge(s, q, []Node{says("n1")}); v.Believed {
		t.Errorf("taken back: %+v", v)
	}
	q.Boot, q.Before = "", nil
	if v := Judge(s, q, nil); v.Believed {
		t.Errorf("no boot: %+v", v)
	}
	q.Boot, q.Power = dead, false
	if v := Judge(s, q, nil); v.Believed {
		t.Errorf("no proof: %+v", v)
	}
}

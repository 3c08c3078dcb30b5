package nodefence

import (
	"strings"
	"testing"
	"time"
)

// offs counts how often a supply was switched off.
func (d *desk) offs() int { return strings.Count(strings.Join(d.created, " "), "main:a-off") }

// Guard: the power of a node is cut for the boot that failed. If the node shows another boot, and its kubelet or agents
// are heard, it is not cut again because it is not Ready: another try would change nothing.
func TestAnotherBootThatRunsIsNotCut(t *testing.T) {
	for how, shows := range map[string]func(n *Node){
		"its kubelet is heard": func(n *Node) { n.Silent = false },
		"its agents see it":    func(n *Node) { n.Seen = []string{"n1", "n2"} },
	} {
		d := begun(t, Power, New).settle()
		d.finish(good)
		for range 60 { // it is on again, in another boot, and is not Ready
			d.f.Node.Boot, d.f.Node.Heartbeat = newBoot, d.f.Now.String()
			shows(&d.f.Node)
			d.after(20 * time.Second).through(good)
		}
		if d.is(Power, Error); d.offs() != 1 {
			t.Errorf("%s: its power was cut %d times: %v", how, d.offs(), d.log)
		}
		if m := d.status().Message; !strings.Contains(m, "another boot") {
			t.Errorf("%s: nobody is told why: %s", how, m)
		}
		d.f.Node.Silent, d.f.Node.Seen = true, nil // that boot has failed as well
		if d.after(20 * time.Second).through(good); d.offs() != 2 {
			t.Errorf("%s: and then it is left alone: %d, %v", how, d.offs(), d.log)
		}
		d.ready(newBoot).through(good)
		d.is(Recovery, Done)
	}
}

// Guard: a node that has rebooted by itself before its turn is neither isolated nor cut, not even by an order.
func TestARebootByItselfIsEnough(t *testing.T) {
	for _, step := range []Step{Isolation, Power} {
		for _, ordered := range []Step{"", step} {
			d := begun(t, step, New)
			d.status().Ordered = ordered
			d.f.Node.Boot, d.f.Node.Silent = newBoot, false
			if d.settle().through(good).after(time.Hour).through(good); len(d.created) > 0 {
				t.Errorf("%s, ordered %q: %v", step, ordered, d.created)
			}
			d.ready(newBoot).through(good)
			d.is(Recovery, Done)
		}
		// The same in the middle of a step: it is not continued for a boot that has ended.
		d := begun(t, step, New).settle()
		d.f.Node.Boot, d.f.Node.Silent = newBoot, false
		began := strings.Count(strings.Join(d.created, " "), "main:")
		if d.through(good).after(time.Hour).through(good); strings.Count(strings.Join(d.created, " "), "main:") > began {
			t.Errorf("%s, in the middle: %v", step, d.created)
		}
	}
}

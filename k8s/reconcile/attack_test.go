package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Guard: a Node's heartbeat, which does not change the deaths that it names, queues no Node.
func TestHeartbeatsTouchNobody(t *testing.T) {
	x := newIndex()
	list := []deaths.Death{{Node: "n4", Boot: deadBoot, At: noon, Said: deadBoot}}
	x.put("n1", "g", list)
	if got := x.put("n1", "g", slices.Clone(list)); len(got) != 0 || !slices.Equal(x.tellers("n4"), []string{"n1"}) || x.size("g") != 1 {
		t.Errorf("the same again touches %q", got)
	}
	if got := x.put("n1", "h", list); !slices.Equal(got, []string{"n4"}) || x.size("h") != 1 {
		t.Errorf("another group touches %q", got)
	}
	list = slices.Clone(list)
	list[0].Said = "earlier"
	if got := x.put("n1", "h", list); !slices.Equal(got, []string{"n4"}) {
		t.Errorf("another boot of the agent touches %q", got)
	}
}

// Guard: storm.maxDeadPercent applies to a replica that has just started: a Node that is called dead, and was not
// looked at yet, counts until then.
func TestAReplicaThatStartsKnowsOfTheStorm(t *testing.T) {
	for _, tainted := range []bool{true, false} {
		w := newWorld(t)
		w.renew("n4", w.now.Add(-time.Minute))
		w.ready(corev1.ConditionUnknown)
		both := []deaths.Death{{Node: "n3", Boot: "0000000000000001", Proof: "time", At: noon, Said: deaths.Boot(otherID)}, {Node: "n4", Boot: deadBoot, Proof: "time", At: noon, Said: deaths.Boot(otherID)}}
		for _, n := range []string{"n1", "n2"} {
			w.nodes[n].Annotations[deaths.Annotation] = deaths.Encode(both)
		}
		if tainted {
			w.nodes["n3"].Spec.Taints = []corev1.Taint{{Key: recovery.TaintKey, Value: recovery.Fenced("0000000000000001"), Effect: corev1.TaintEffectNoExecute}}
		}
		r := w.reconciler(func(o *Options) { o.Storm.MaxDeadPercent = 30 })
		if tainted { // the sweep finds it before the Nodes are known
			r.index = newIndex()
			r.Found(w.nodes["n3"])
			w.show(r)
		}
		for _, queued := range []bool{true, false} {
			w.run(r, 15*time.Second)
			if got := r.machines["n4"].machine.State(); got.Held != storm.TooManyDead || w.taint() != "" {
				t.Errorf("n3 tainted: %v, and not looked at, queued: %v: %+v", tainted, queued, got)
			}
			r.take("n3") // its machine has asked for nothing yet
		}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n3"}}); err != nil {
			t.Fatal(err)
		}
		if w.run(r, 30*time.Second); (w.taint() == "") != tainted {
			t.Errorf("n3 tainted: %v, and looked at: %+v", tainted, r.machines["n4"].machine.State())
		}
	}
}

// Guard: an attacker who controls one agent can name anything; only existing Nodes get a machine.
func TestWhatIsNoNodeGetsNoMachine(t *testing.T) {
	w := newWorld(t)
	w.nodes["n1"].Annotations[deaths.Annotation] = deaths.Encode([]deaths.Death{{Node: "a/b", Boot: deadBoot, At: noon}, {Node: "n9", Boot: deadBoot, At: noon}, {Node: "n4", Boot: deadBoot, At: noon}})
	r := w.reconciler(nil)
	for _, name := range []string{"a/b", "n9", "n4"} {
		if got, _ := r.take(name); (got != nil) != (name == "n4") {
			t.Errorf("%s: a machine: %v", name, got != nil)
		}
	}
}

// Guard: a death that is missing in a full list was left out, and not withdrawn.
func TestAFullListIsKnownAsOne(t *testing.T) {
	w := newWorld(t)
	var list []deaths.Death
	for i := range 70 {
		n := w.nodes["n1"]
		n.Annotations[deaths.Annotation] = deaths.Encode(list)
		b := beliefOf(n, nil, groupLabel, recovery.Lease{}, noon)
		if b.Full && i < 40 || !b.Full && len(b.Deaths) < i {
			t.Fatalf("%d of %d deaths are there, full: %v", len(b.Deaths), i, b.Full)
		}
		list = append(list, deaths.Death{Node: fmt.Sprint("m", i), Boot: deadBoot, Proof: "time", At: noon, Said: deadBoot})
	}
}

// Guard: a Node whose own taint or annotation calls its present boot dead, or disputed, is not a reporter.
func TestReporterThatWasCalledDeadItself(t *testing.T) {
	taint := func(value string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: recovery.TaintKey, Value: value, Effect: effect})
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		ended  bool
	}{
		"nothing":                {func(*corev1.Node) {}, false},
		"dead":                   {taint(recovery.Fenced(deadBoot), corev1.TaintEffectNoExecute), true},
		"disputed":               {taint(recovery.Disputed(deadBoot), corev1.TaintEffectNoExecute), true},
		"with another effect":    {taint(recovery.Fenced(deadBoot), corev1.TaintEffectNoSchedule), true},
		"disputed by the note":   {func(n *corev1.Node) { n.Annotations[recovery.NoteKey] = deadBoot }, true},
		"another boot":           {taint(recovery.Fenced("1"+deadBoot[1:]), corev1.TaintEffectNoExecute), false},
		"another boot's dispute": {func(n *corev1.Node) { n.Annotations[recovery.NoteKey] = "1" + deadBoot[1:] }, false},
	} {
		n := newWorld(t).nodes["n1"]
		n.Status.NodeInfo.BootID = deadID
		c.change(n)
		if b := beliefOf(n, nil, groupLabel, recovery.Lease{}, noon); b.Ended != c.ended {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// Guard: a Lease that was renewed after the proof is recorded on the Node. A replica that starts later respects that
// when the node looks dead again. A person removes it, without a restart.
func TestADisputeIsOnTheNode(t *testing.T) {
	w := newWorld(t)
	w.ready(corev1.ConditionUnknown)
	w.renew("n4", w.now.Add(-35*time.Second)) // holds for 5 s more
	w.nodes["n4"].Annotations["example.com/kept"] = "x"
	w.pod("db-0", nil)
	w.evict("db-0")
	r := w.reconciler(nil)
	w.tell(r, "n1", true)
	w.tell(r, "n2", true)
	w.run(r, time.Second)
	w.renew("n4", w.now.Add(-20*time.Second))
	w.run(r, 3*time.Second)
	if got := w.nodes["n4"].Annotations[recovery.NoteKey]; got != deadBoot {
		t.Fatalf("noted %q, %+v", got, r.machines["n4"].machine.State())
	}
	w.wantEvents("DeathDisputed")

	r = w.reconciler(nil)
	w.run(r, 10*time.Minute)
	if w.taint() != "" || w.pods["db-0"] == nil {
		t.Errorf("after a restart: taint %q", w.taint())
	}
	var text strings.Builder
	if r.WriteNodes(&text); !strings.Contains(text.String(), recovery.NoteKey) {
		t.Errorf("people are not told what to do: %s", text.String())
	}

	delete(w.nodes["n4"].Annotations, recovery.NoteKey)
	w.nodes["n4"].ResourceVersion = w.version()
	w.run(r, time.Minute)
	if w.taint() != recovery.Fenced(deadBoot) || w.pods["db-0"] != nil {
		t.Errorf("after a person took it back: taint %q, %+v", w.taint(), r.machines["n4"].machine.State())
	}

	w.nodes["n4"].Annotations[recovery.NoteKey], w.nodes["n4"].ResourceVersion = deadBoot, w.version()
	w.nodes["n4"].Status.NodeInfo.BootID = otherID
	w.ready(corev1.ConditionTrue)
	w.renew("n4", w.now.Add(time.Hour))
	w.run(r, 5*time.Minute)
	if n := w.nodes["n4"]; len(n.Annotations) != 1 || w.taint() != "" {
		t.Errorf("in another boot: %v, taint %q", n.Annotations, w.taint())
	}
}

// Guard: a kubelet whose Lease is not renewed, but which writes its Node, stops the recovery.
func TestReadyAgainInTheSameBoot(t *testing.T) {
	w := newWorld(t)
	w.ready(corev1.ConditionUnknown)
	w.pod("db-0", nil)
	r := w.reconciler(nil)
	w.tell(r, "n1", true)
	w.tell(r, "n2", true)
	w.run(r, 13*time.Second) // a renewal of the Lease would have shown
	if w.taint() != recovery.Fenced(deadBoot) {
		t.Fatalf("taint %q", w.taint())
	}
	w.evict("db-0")
	w.ready(corev1.ConditionTrue)
	w.run(r, 30*time.Second)
	if w.pods["db-0"] == nil || w.taint() != recovery.Disputed(deadBoot) || w.nodes["n4"].Annotations[recovery.NoteKey] != deadBoot {
		t.Errorf("taint %q, annotations %v, db-0 is there: %v", w.taint(), w.nodes["n4"].Annotations, w.pods["db-0"] != nil)
	}
}

package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// sees has the agent of a Node say that rec-4's slot on the LUN goes on changing, or take it back.
func (w *fenceWorld) sees(node string, moves bool) {
	w.t.Helper()
	value := "null"
	if moves {
		value = fmt.Sprintf("%q", sightings.Encode(sightings.Sighting{Boot: "f" + deadBoot[1:], Number: 1, SlotMoves: []string{"rec-4"}}))
	}
	w.must(patchNode(w.admin, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, sightings.Annotation, value)))
}

// skipped is why the fencing of rec-4 waits, as its Events say.
func (w *fenceWorld) skipped() string {
	list, err := w.admin.CoreV1().Events("default").List(w.t.Context(), meta.ListOptions{FieldSelector: "involvedObject.name=rec-4"})
	w.must(err)
	out := ""
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == "FencingSkipped" {
			out += e.Message + "\n"
		}
	}
	return out
}

// A node that is not Ready, and whose slot on the LUN goes on changing as two agents say, is not fenced, and an Event says
// why. Once its boot is proven dead, its pods are taken off, and nothing is held up any more, whatever the two say.
func TestSlotThatMovesHoldsFencingUp(t *testing.T) {
	w := newFenceWorld(t, "trigger_after=0\nsettle=1\npoll_interval=1\ncooldown=0")
	w.kubelets("rec-0", "rec-1", "rec-2", "rec-3")
	w.sees("rec-1", true)
	w.sees("rec-2", true)
	w.replica("controller-sightings", fenceSettings)
	w.unknown()
	await(t, "an Event says why it waits", func() bool {
		return strings.Contains(w.skipped(), "StorageLeaseHeld") && strings.Contains(w.skipped(), "rec-1, rec-2")
	})
	if w.fenced() || !w.power() {
		t.Fatal("it is fenced")
	}
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	w.tells("rec-1", true)
	w.tells("rec-2", true)
	await(t, "the recovery of what is proven goes on", func() bool { return strings.HasPrefix(w.taint(), "fenced-") })
	await(t, "what is proven is held up by nobody", w.fenced)
}

package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// sees makes the agent of a Node report that rec-4's slot on the LUN still changes, or withdraw that.
func (w *fenceWorld) sees(node string, moves bool) {
	w.t.Helper()
	value := "null"
	if moves {
		value = fmt.Sprintf("%q", sightings.Encode(sightings.Sighting{Boot: "f" + deadBoot[1:], Number: 1, SlotMoves: []string{"rec-4"}}))
	}
	w.must(patchNode(w.admin, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, sightings.Annotation, value)))
}

// skipped returns the reason in the Events why the fencing of rec-4 waits.
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

// A node is not Ready, and two agents report that its slot on the LUN still changes. It is not fenced, and an Event
// says why. Once its boot is proven dead, its pods are evicted, and the two reports no longer delay anything.
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
	await(t, "the recovery from the proven death continues", func() bool { return strings.HasPrefix(w.taint(), "fenced-") })
	await(t, "nobody delays the recovery from a proven death", w.fenced)
}

// In this test the agent does not ask the API server, and reports to a replica of the controller. The fencing by
// another replica waits until the report is withdrawn there.
func TestSlotThatMovesIsTold(t *testing.T) {
	w := newFenceWorld(t, "trigger_after=0\nsettle=1\npoll_interval=1\ncooldown=0")
	w.account("default")
	apply(t, w.plane, listsManifest(t))
	w.kubelets("rec-0", "rec-1", "rec-2", "rec-3")
	dir, host := t.TempDir(), "127.0.0.1"
	certificate(t, dir, host)
	one, number := w.teller("rec-1"), uint64(0)
	replica := func(name string) (kill func(), tell func(moves ...string) error) {
		address := fmt.Sprintf("%s:%d", host, freePort(t, host))
		kill, _ = w.replica(name, fenceSettings+fmt.Sprintf("members: {enabled: true, address: %q, certFile: %[2]s/tls.crt, keyFile: %[2]s/tls.key, agents: [default/default]}\n", address, dir))
		return kill, func(moves ...string) error {
			number++
			return calling(t, filepath.Join(dir, "tls.crt"), address, one, func(ctx context.Context, c fencingv1.FencingMembersClient) error {
				_, err := c.TellSightings(ctx, &fencingv1.SightingsReport{Boot: tellerBoot, Number: number, SlotMoves: moves})
				return err
			})
		}
	}
	kill, tell := replica("hears-sightings")
	await(t, "a replica takes what an agent sees", func() bool { return tell("rec-4") == nil })
	m, err := w.admin.CoreV1().ConfigMaps(controllerSpace).Get(t.Context(), sightings.KeptName("rec-1"), meta.GetOptions{})
	if err != nil || sightings.Kept(m.Labels, m.Data) == nil || len(m.OwnerReferences) != 1 {
		t.Fatalf("%v, %+v", err, m)
	}
	await(t, "what an earlier Node of that name has left is gone", func() bool { return !w.fenced() })
	// The next replica has the report before it first sees that the node is not Ready.
	kill()
	w.unknown()
	_, tell = replica("reads-sightings")
	await(t, "an Event says why it waits", func() bool {
		return strings.Contains(w.skipped(), "StorageLeaseHeld") && strings.Contains(w.skipped(), "rec-1 alone")
	})
	if w.fenced() || !w.power() {
		t.Fatal("it is fenced")
	}
	await(t, "it is taken back", func() bool { return tell() == nil })
	await(t, "it is fenced", w.fenced)
}

package kube

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// comesUp writes what a starting kubelet writes: its Node is Ready in that boot, with a fresh Lease.
func (w *recoveryWorld) comesUp(n *core.Node, boot string) {
	w.t.Helper()
	name := n.Name
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	_, err := w.admin.CoreV1().Nodes().UpdateStatus(w.t.Context(), n, meta.UpdateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.admin.CoordinationV1().Leases("kube-node-lease").Delete(context.Background(), name, meta.DeleteOptions{})
	})
	seconds, now := int32(40), meta.NewMicroTime(time.Now())
	_, err = w.admin.CoordinationV1().Leases("kube-node-lease").Create(w.t.Context(), &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, meta.CreateOptions{})
	w.must(err)
}

// isUnknown does to a Node what kube-controller-manager does when it does not hear the kubelet.
func (w *recoveryWorld) isUnknown(node string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"lastTransitionTime":%q}]}}`, core.NodeReady, core.ConditionUnknown, time.Now().UTC().Format(time.RFC3339))
	_, err := w.admin.CoreV1().Nodes().Patch(w.t.Context(), node, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	w.must(err)
}

// beats writes a heartbeat of the kubelet of a Node that is not Ready.
func (w *recoveryWorld) beats(node string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"lastHeartbeatTime":%q}]}}`, core.NodeReady, core.ConditionFalse, time.Now().UTC().Format(time.RFC3339))
	_, err := w.admin.CoreV1().Nodes().Patch(w.t.Context(), node, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	w.must(err)
}

// proof returns the proof in the NodeFence of a node: its kind, and whether it is contradicted.
func (w *fenceWorld) proof(node string) (kind string, contradicted bool) {
	f, err := w.dynamic.Resource(nodefences).Get(w.t.Context(), "node-fence-"+node, meta.GetOptions{})
	if err != nil {
		return "", false
	}
	kind, _, _ = unstructured.NestedString(f.Object, "status", "proof", "kind")
	contradicted, _, _ = unstructured.NestedBool(f.Object, "status", "proof", "contradicted")
	return kind, contradicted
}

// forgets removes the NodeFence of a node, whatever was switched.
func (w *fenceWorld) forgets(node string) {
	all := w.dynamic.Resource(nodefences)
	_, _ = all.Patch(context.Background(), "node-fence-"+node, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), meta.PatchOptions{})
	_ = all.Delete(context.Background(), "node-fence-"+node, meta.DeleteOptions{})
}

// fencedBy returns the proof by which an agent calls a node FENCED; empty: it does not.
func (s agentStatus) fencedBy(node string) string {
	for _, n := range s.Nodes {
		if n.Name == node && n.State == "NODE_STATE_FENCED" {
			return n.Death.Proof
		}
	}
	return ""
}

// groupOfThree starts real agents that follow two replicas. One of them is on a node that can be fenced by its devices.
// stop ends the kubelet of that node.
func (w *fenceWorld) groupOfThree(name string) (a *agents, stop func()) {
	w.t.Helper()
	a, gone := newGroup(w.t, deploy(w.t), name, checkOften), name+"-3"
	w.t.Cleanup(func() { w.forgets(gone) }) // after all replicas have ended
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	w.must(err)
	addresses, _ := a.lead(w.t, w.recoveryWorld, fenceSettings)
	for i := range 3 {
		r := a.follower(w.t, addresses[i%2])
		n, err := a.admin.CoreV1().Nodes().Get(w.t.Context(), r.node, meta.GetOptions{})
		w.must(err)
		w.comesUp(n, strings.TrimSpace(string(boot)))
		r.start(w.t)
	}
	w.kubelets("rec-0", "rec-1", "rec-2", "rec-3", "rec-4", name+"-1", name+"-2")
	stop = w.kubelets(gone)
	a.settled(w.t, 3)
	return a, stop
}

// A member without a watchdog is gone. A Job of the controller finds that its power supply is off. The agents, which
// follow two replicas, hear of that only when the node's Lease has expired, and then report FENCED by power. When its
// kubelet is heard again in the same boot, they withdraw that.
func TestAgentsAreToldWhatDevicesProve(t *testing.T) {
	const gone = "found-3"
	w := newFenceWorldOf(t, "trigger_after=0\nsettle=1\npoll_interval=1\ncooldown=0", gone)
	a, stop := w.groupOfThree("found")
	others := a.group[:2]

	a.group[2].kill()
	stop() // otherwise the kubelet would dispute the proof
	silent := time.Now()
	w.isUnknown(gone)
	began := time.Now()
	await(t, "a proof by power", func() bool { kind, _ := w.proof(gone); return kind == "power" })
	t.Logf("not Ready to the proof: %v", time.Since(began).Round(time.Millisecond))
	for _, r := range others {
		r.shows(t, "that it is gone", func(s agentStatus) bool { return s.Verdict.Tally.Counted == 2 })
	}
	hold := time.NewTimer(7 * time.Second) // longer than the steps below take
	defer hold.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for held := false; !held; {
		for _, r := range others {
			if s, ok := r.status(); ok && s.fencedBy(gone) != "" {
				t.Fatalf("%s says FENCED by %s before the Lease has run out", r.node, s.fencedBy(gone))
			}
		}
		select {
		case <-hold.C:
			held = true
		case <-tick.C:
		}
	}

	for _, r := range others {
		r.shows(t, "FENCED by power", func(s agentStatus) bool { return s.fencedBy(gone) == "PROOF_POWER" })
	}
	t.Logf("the last change of the Lease, which lasts 40 s, until both agents say FENCED: %v", time.Since(silent).Round(time.Millisecond))

	w.beats(gone)
	began = time.Now()
	for _, r := range others {
		r.shows(t, "that it is not FENCED", func(s agentStatus) bool { return s.fencedBy(gone) == "" })
	}
	t.Logf("from a heartbeat until both have withdrawn it: %v", time.Since(began).Round(time.Millisecond))
	if _, contradicted := w.proof(gone); !contradicted {
		t.Error("the NodeFence does not report the contradiction")
	}
}

// A node whose kubelet is dead still runs, with its storage cut off. Its board, which belongs to another machine,
// reports off. While the node's agent is heard, nothing is proven, the storage stays cut off and nothing is switched
// on. When nobody hears the agent any more, the fencing continues.
func TestAgentsHoldUpAProofOfDevices(t *testing.T) {
	const gone = "seen-3"
	w := newFenceWorldOf(t, "trigger_after=15\nsettle=1\npoll_interval=1\ncooldown=0\ngrace_timeout=1", gone)
	w.settings(map[string][2]string{
		"fence-config-" + gone:          {"config.properties", "node_name=" + gone + "\nisolation=port-off\npower_management=bmc-off bmc-on\nrecovery=port-on"},
		"fence-method-template-port":    {"template.properties", "agent_name=fence_brocade\nip=192.0.2.5\nplug=4\npassword_secret=bmc/password"},
		"fence-method-port-off-" + gone: {"method.properties", "template=fence-method-template-port\naction=off"},
		"fence-method-port-on-" + gone:  {"method.properties", "template=fence-method-template-port\naction=on"},
	})
	a, stop := w.groupOfThree("seen")
	stop()
	w.isUnknown(gone)
	message := func() string {
		f, err := w.dynamic.Resource(nodefences).Get(t.Context(), "node-fence-"+gone, meta.GetOptions{})
		if err != nil {
			return ""
		}
		text, _, _ := unstructured.NestedString(f.Object, "status", "message")
		return text
	}
	await(t, "its storage is cut off, its board says off, and its agent is heard", func() bool {
		return strings.Contains(message(), "the agents of "+gone+" see that very boot")
	})
	held := func() {
		t.Helper()
		w.lock.Lock()
		defer w.lock.Unlock()
		if kind, _ := w.proof(gone); kind != "" || w.on || !w.cut {
			t.Fatalf("proof %q, supply on: %v, storage cut off: %v; has run: %v", kind, w.on, w.cut, w.ran)
		}
	}
	quiet := time.NewTimer(20 * time.Second)
	defer quiet.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		held()
		select {
		case <-quiet.C:
			over = true
		case <-tick.C:
		}
	}
	a.group[2].kill()
	began := time.Now()
	await(t, "a proof by power", func() bool { kind, _ := w.proof(gone); return kind == "power" })
	t.Logf("from the last message of its agent to the proof: %v", time.Since(began).Round(time.Millisecond))
}

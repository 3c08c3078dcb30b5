package kube

import (
	"os"
	"strings"
	"testing"
)

// The API server accepts the CustomResourceDefinition and the policy, and a NodeFence that a person creates.
func TestNodeFenceManifest(t *testing.T) {
	newRecoveryWorld(t)
	p := plane(t)
	text, err := os.ReadFile("../../deploy/controller/nodefence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, p, string(text))
	apply(t, p, `{"apiVersion": "fencing-agent.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-fence-rec-1"}, "spec": {"nodeName": "rec-1", "step": "power_management"}}`)
}

// If the CustomResourceDefinition lacks a field, the controller reports that before any node fails, and continues when
// the manifest of its version was applied.
func TestNodeFencesOfAnOlderSchema(t *testing.T) {
	w := newFenceWorld(t, "poll_interval=1\nbegin_by=remediation")
	text, err := os.ReadFile("../../deploy/controller/nodefence.yaml")
	w.must(err)
	before, after, found := strings.Cut(string(text), "                storages:\n")
	if !found {
		t.Fatal("the schema has no storages")
	}
	_, after, _ = strings.Cut(after, "                jobs:\n")
	apply(t, w.plane, before+"                jobs:\n"+after)
	defer func() { apply(t, w.plane, string(text)) }()
	_, log := w.replica("controller-old-schema", fenceSettings)
	await(t, "it says which field is missing", func() bool {
		said := read(log)
		return strings.Contains(said, "Apply nodefence.yaml of this version") && strings.Contains(said, "status.storages")
	})
	apply(t, w.plane, string(text))
	await(t, "it sees that it was applied", func() bool { return strings.Contains(read(log), "has all fields now") })
	if w.fenced() {
		t.Error("a question was stored")
	}
}

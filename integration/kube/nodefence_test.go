package kube

import (
	"os"
	"testing"
)

// The API server takes the CustomResourceDefinition and the policy, and a NodeFence that a person makes.
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

package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// nodeGroups is as much of Deckhouse's CustomResourceDefinition as matters here.
const nodeGroups = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodegroups.deckhouse.io}
spec:
  group: deckhouse.io
  scope: Cluster
  names: {kind: NodeGroup, listKind: NodeGroupList, plural: nodegroups, singular: nodegroup}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// groupStatus is what kubectl shows of a FencingGroup.
type groupStatus struct {
	Nodes, Agree, Differ, Unknown int
	Problem                       string
	Agents                        []struct {
		Node    string
		Differs []string
	}
}

func (a *agents) fencingGroup(t *testing.T, name string) (s groupStatus) {
	t.Helper()
	out, err := a.plane.Kubectl(t.Context(), "", "get", "fencinggroup", name, "-o", "jsonpath={.status}")
	if err != nil {
		t.Fatal(err)
	}
	if out != "" {
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	return s
}

// The policy of a group reaches its agents through either replica, each of them says in what it runs otherwise, and the FencingGroup shows who does. No
// agent takes anything of it up. A NodeGroup says what the FencingGroup does not, when there are such things.
func TestPoliciesOfGroups(t *testing.T) {
	w := newRecoveryWorld(t)
	a := newGroup(t, deploy(t), "ruled", checkOften)
	apply(t, a.plane, listsManifest(t))
	crd, err := os.ReadFile("../../deploy/controller/chart/crds/fencinggroups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, a.plane, string(crd))
	await(t, "FencingGroups are served", func() bool {
		_, err := a.plane.Kubectl(t.Context(), "", "get", "fencinggroups")
		return err == nil
	})
	group := func(spec string) {
		apply(t, a.plane, fmt.Sprintf(`{"apiVersion": "fencing-agent.io/v1alpha1", "kind": "FencingGroup", "metadata": {"name": %q}, "spec": {%s}}`, a.name, spec))
	}
	if _, err := a.plane.Kubectl(t.Context(), `{"apiVersion": "fencing-agent.io/v1alpha1", "kind": "FencingGroup", "metadata": {"name": "bad"}, "spec": {"mode": "Off"}}`, "apply", "-f", "-"); err == nil {
		t.Error("the API server takes a mode that there is none of")
	}
	group(`"mode": "Notify", "onQuorumLoss": "fence"`)
	host := a.prefix + "250"
	certificate(t, a.work, host)
	var addresses []string
	for _, name := range []string{"ruled-a", "ruled-b"} {
		address := fmt.Sprintf("%s:%d", host, freePort(t, host))
		w.replica(name, fmt.Sprintf("members: {enabled: true, fencingGroups: true, nodeGroups: true, address: %q, certFile: %[2]s/tls.crt, keyFile: %[2]s/tls.key, agents: [%[3]s/%[4]s]}\n",
			address, a.work, deployedSpace, deployedName))
		addresses = append(addresses, address)
	}
	for i := range 3 {
		a.follower(t, addresses[i%2]).start(t)
	}
	a.settled(t, 3)
	shows := func(what string, ok func(groupStatus) bool) {
		t.Helper()
		var s groupStatus
		await(t, what, func() bool { s = a.fencingGroup(t, a.name); return ok(s) })
		t.Logf("%s: %+v", what, s)
	}
	shows("all agree", func(s groupStatus) bool { return s.Nodes == 3 && s.Agree == 3 && s.Problem == "" })

	before := a.verdicts(t)
	group(`"mode": "Notify", "onQuorumLoss": "wait"`)
	shows("all differ", func(s groupStatus) bool {
		return s.Differ == 3 && s.Agree == 0 && len(s.Agents) == 3 && len(s.Agents[0].Differs) == 1 && s.Agents[0].Differs[0] == "onQuorumLoss is fence, the group's policy says wait"
	})
	for _, r := range a.group {
		r.shows(t, "what differs", func(s agentStatus) bool { return len(s.Roster.PolicyDiffers) == 1 })
		if s, ok := r.status(); !ok || s.Verdict.Permission != before[r.node].Verdict.Permission || s.Verdict.Reason != before[r.node].Verdict.Reason {
			t.Errorf("%s: %+v, and before %+v", r.node, s.Verdict, before[r.node].Verdict)
		}
	}

	group(`"onQuorumLoss": "fence"`)
	shows("what is not said is not compared", func(s groupStatus) bool { return s.Agree == 3 })
	apply(t, a.plane, nodeGroups)
	await(t, "NodeGroups are served", func() bool {
		_, err := a.plane.Kubectl(t.Context(), fmt.Sprintf(`{"apiVersion": "deckhouse.io/v1", "kind": "NodeGroup", "metadata": {"name": %q},
			"spec": {"nodeType": "Static", "fencing": {"mode": "Watchdog", "onQuorumLoss": "exclude", "watchdog": {"timeout": "60s"}}}}`, a.name), "apply", "-f", "-")
		return err == nil
	})
	shows("the NodeGroup says the rest", func(s groupStatus) bool {
		return s.Differ == 3 && s.Problem == "onQuorumLoss: the NodeGroup says exclude; this object says fence, which counts" &&
			len(s.Agents[0].Differs) == 1 && s.Agents[0].Differs[0] == "mode is Notify, the group's policy says Watchdog"
	})
}

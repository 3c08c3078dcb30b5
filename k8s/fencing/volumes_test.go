package fencing

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// The Job that checks all methods of a node has each of them in its own place, and does not wait for what is missing.
func TestPlanOfANode(t *testing.T) {
	s := newStage(t)
	c, err := s.r.config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := c.Nodes["n4"].Methods()
	j := s.r.job(nodefence.Action{Role: nodefence.Plan, Methods: all, Method: fenceconfig.Method{Name: "plan"}}, &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}})
	pod := j.Spec.Template.Spec
	if args := strings.Join(pod.Containers[0].Args, " "); !strings.Contains(args, "--digest "+fenceconfig.DigestOf(all)) || !strings.HasSuffix(args, "--action plan") {
		t.Error(args)
	}
	if len(pod.Volumes) != 1 || pod.Containers[0].VolumeMounts[0].MountPath != "/etc/fencing/plan" {
		t.Fatalf("%+v %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
	var paths []string
	for _, p := range pod.Volumes[0].Projected.Sources {
		switch {
		case p.ConfigMap != nil && *p.ConfigMap.Optional:
			paths = append(paths, p.ConfigMap.Name+" "+p.ConfigMap.Items[0].Key+" "+p.ConfigMap.Items[0].Path)
		case p.Secret != nil && *p.Secret.Optional:
			paths = append(paths, p.Secret.Name+" "+p.Secret.Items[0].Key+" "+p.Secret.Items[0].Path)
		}
	}
	want := []string{
		"fence-method-bmc-off-n4 method.properties 0/method/method.properties", "fence-method-template-bmc template.properties 0/template/template.properties", "bmc password 0/secrets/bmc/password",
		"fence-method-bmc-on-n4 method.properties 1/method/method.properties", "fence-method-template-bmc template.properties 1/template/template.properties", "bmc password 1/secrets/bmc/password",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("%q", paths)
	}
}

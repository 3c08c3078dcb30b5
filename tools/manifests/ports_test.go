package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// fakeCluster is a cluster with these DaemonSets, for the templates' lookup.
type fakeCluster struct {
	dynamic.NamespaceableResourceInterface
	t     *testing.T
	items []unstructured.Unstructured
}

func (c fakeCluster) GetClientFor(version, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if version != "apps/v1" || kind != "DaemonSet" {
		c.t.Errorf("the chart looks up %s %s", version, kind)
	}
	return c, true, nil
}

func (c fakeCluster) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return &unstructured.UnstructuredList{Object: map[string]any{}, Items: c.items}, nil
}

// This is what MetalLB's own chart and its manifests create, as far as the port is concerned.
const (
	metallbHelm = `{metadata: {name: metallb-speaker, namespace: metallb-system}, spec: {template: {
  metadata: {labels: {app.kubernetes.io/name: metallb, app.kubernetes.io/component: speaker}},
  spec: {hostNetwork: true, containers: [{name: speaker, env: [
    {name: METALLB_ML_BIND_ADDR, valueFrom: {fieldRef: {fieldPath: status.podIP}}},
    {name: METALLB_ML_BIND_PORT, value: "7946"}]}, {name: frr}]}}}}`
	metallbPlain = `{metadata: {name: speaker, namespace: metallb-system}, spec: {template: {
  metadata: {labels: {app: metallb, component: speaker}},
  spec: {hostNetwork: true, containers: [{name: speaker, env: [{name: METALLB_ML_BIND_ADDR, value: 10.0.0.1}]}]}}}}`
	otherDaemonSet = `{metadata: {name: x, namespace: y}, spec: {template: {metadata: {}, spec: {containers: [{name: x}]}}}}`
)

// On each node, the second program that uses the port does not start. The chart reports that beforehand if it can see
// it.
func TestChartRefusesAPortThatMetalLBHas(t *testing.T) {
	const another = "config: {systemNetworks: [{name: node, at: 10.0.0.0/24, port: 7956}]}"
	for _, c := range []struct {
		name, edit string
		daemonSets []string
		upgrade    bool
		want       string // expected error; "": the chart is installed
	}{
		{name: "its chart", edit: "{}", daemonSets: []string{otherDaemonSet, metallbHelm}, want: "set another port for this network, on all nodes"},
		{name: "its manifests", edit: "{}", daemonSets: []string{metallbPlain}, want: "DaemonSet metallb-system/speaker"},
		{name: "the network is named", edit: "{}", daemonSets: []string{metallbPlain}, want: "config.systemNetworks[node].port is 7946"},
		{name: "both have moved to one", edit: another, daemonSets: []string{strings.Replace(metallbHelm, "7946", "7956", 1)}, want: "port is 7956"},
		{name: "another port", edit: another, daemonSets: []string{metallbHelm, metallbPlain}},
		{name: "MetalLB has moved", edit: "{}", daemonSets: []string{strings.Replace(metallbHelm, "7946", "7947", 1)}},
		{name: "not on the hosts' network", edit: "{}", daemonSets: []string{strings.Replace(metallbHelm, "hostNetwork: true", "hostNetwork: false", 1)}},
		{name: "its memberlist is off", edit: "{}", daemonSets: []string{strings.Replace(metallbHelm, "METALLB_ML_BIND_ADDR", "METALLB_HOST", 1)}},
		{name: "somebody else's", edit: "{}", daemonSets: []string{strings.Replace(metallbHelm, "component: speaker", "component: controller", 1), otherDaemonSet}},
		{name: "switched off", edit: "portCheck: false", daemonSets: []string{metallbHelm}},
		{name: "an upgrade", edit: "{}", daemonSets: []string{metallbHelm}, upgrade: true},
		{name: "nobody", edit: "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := fakeCluster{t: t}
			for _, text := range c.daemonSets {
				var o map[string]any
				if err := yaml.Unmarshal([]byte(text), &o); err != nil {
					t.Fatal(err)
				}
				cluster.items = append(cluster.items, unstructured.Unstructured{Object: o})
			}
			err := install(t, cluster, values(t, c.edit), !c.upgrade)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// install renders the chart as helm install or helm upgrade does.
func install(t *testing.T, cluster engine.ClientProvider, example string, first bool) error {
	t.Helper()
	chart, err := loader.Load(filepath.Join(root, chartDir))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var given map[string]any
	if err := yaml.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: chart.Name(), Namespace: chart.Name(), Revision: 1, IsInstall: first, IsUpgrade: !first}
	v, err := util.ToRenderValues(chart, given, release, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.RenderWithClientProvider(chart, v, cluster)
	return err
}

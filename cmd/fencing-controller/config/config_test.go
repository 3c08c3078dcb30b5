package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestExampleIsTheDefault(t *testing.T) {
	for _, file := range []string{Example(), "", "# nothing\n"} {
		c, err := Parse("c.yaml", []byte(file))
		if err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%v: %+v, want %+v\n%s", err, c, Default(), file)
		}
	}
}

// Guard: nothing is written to a cluster before an administrator has allowed it.
func TestDryRunIsTheDefault(t *testing.T) {
	if c, err := Parse("c.yaml", []byte("groupLabel: g\n")); err != nil || !c.DryRun {
		t.Errorf("%v, %+v", err, c)
	}
	if c, err := Parse("c.yaml", []byte("dryRun: false\nrecovery: {pods: statefulset}\n")); err != nil || c.DryRun || !c.StatefulSetsOnly {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse("c.yaml", []byte(`dryrun: true
groupLabel: ""
evidence: {minReporters: 1, minReporter: 2}
recovery:
  settle: 10
  pods: some
  excludeNamespaces: kube-system
storm: 3
dryRun: maybe
dryRun: false
replicas: {pause: -1s}
`))
	want := []string{
		"c.yaml:1: dryrun is not a known key; known: dryRun, kubeconfig, groupLabel, evidence, recovery, storm, replicas, nodeFence, members, metrics, page, health",
		`c.yaml:2: groupLabel: "" is not possible; allowed: a string`,
		`c.yaml:3: evidence.minReporters: "1" is not possible; allowed: 2 to 32`,
		"c.yaml:3: evidence.minReporter is not a known key; known: minReporters, readyUnknown, groupsOfTwo",
		`c.yaml:5: recovery.settle: "10" is not possible; allowed: 1s to 1m0s, with a unit (ms, s, m)`,
		`c.yaml:6: recovery.pods: "some" is not possible; allowed: all, statefulset`,
		`c.yaml:7: recovery.excludeNamespaces: "kube-system" is not possible; allowed: a list of strings, [] for none`,
		"c.yaml:8: storm is not a mapping; allowed: evicting, deletesPerSecond, maxDeadPercent",
		`c.yaml:9: dryRun: "maybe" is not possible; allowed: true or false`,
		"c.yaml:10: dryRun is given twice",
		`c.yaml:11: replicas.pause: "-1s" is not possible; allowed: 0s to 1m0s, with a unit (ms, s, m)`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("problems:\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	if bad := (*Invalid)(nil); !errors.As(err, &bad) || len(bad.Problems) != len(want) {
		t.Errorf("%T", err)
	}
	// Guard: the policy forbids deletions in that namespace, and the controller would retry for ever.
	for _, spaces := range []string{"[]", "[default]"} {
		if _, err := Parse("c.yaml", []byte("recovery: {excludeNamespaces: "+spaces+"}\n")); err == nil || !strings.Contains(err.Error(), "a list that has kube-system") {
			t.Errorf("%s: %v", spaces, err)
		}
	}
	if c, err := Parse("c.yaml", []byte("recovery: {excludeNamespaces: [a, kube-system]}\nevidence: {groupsOfTwo: [control-plane]}\n")); err != nil || len(c.ExcludeNamespaces) != 2 || len(c.GroupsOfTwo) != 1 {
		t.Errorf("%v, %+v", err, c)
	}
	if _, err := Parse("c.yaml", []byte("- a\n")); err == nil || !strings.Contains(err.Error(), "the file is not a mapping") {
		t.Error(err)
	}
	if _, err := Parse("c.yaml", []byte("a: [\n")); err == nil {
		t.Error("what is no YAML is taken")
	}
}

func TestAddresses(t *testing.T) {
	for _, key := range []string{"metrics", "page", "health", "members"} {
		for _, bad := range []string{"localhost", `"http://localhost:80"`, "9124", `"127.0.0.1:99999"`, `":http"`, "fd00::1"} {
			_, err := Parse("c.yaml", []byte(key+": {address: "+bad+"}"))
			if err == nil || !strings.Contains(err.Error(), key+".address") || !strings.Contains(err.Error(), "HOST:PORT") {
				t.Errorf("%s: %s: %v", key, bad, err)
			}
		}
		if _, err := Parse("c.yaml", []byte(key+`: {address: "[fd00::1]:9124"}`)); err != nil {
			t.Error(err)
		}
		for text, off := range map[string][]string{"": {"page"}, "0": {"metrics", "health"}, "-": nil} {
			_, err := Parse("c.yaml", fmt.Appendf(nil, "%s: {address: %q}", key, text))
			if (err == nil) != slices.Contains(off, key) {
				t.Errorf("%s: address %q: %v", key, text, err)
			}
		}
	}
}

func TestFencingByDevicesNeedsAnImage(t *testing.T) {
	if _, err := Parse("c.yaml", []byte("nodeFence: {enabled: true}")); err == nil || !strings.Contains(err.Error(), "nodeFence.image is not given") {
		t.Error(err)
	}
	c, err := Parse("c.yaml", []byte("nodeFence: {enabled: true, image: r/executor:1}"))
	if err != nil || !c.NodeFence || c.ExecutorImage != "r/executor:1" || c.FenceNamespace != "fencing-controller" {
		t.Errorf("%+v %v", c, err)
	}
	c, err = Parse("c.yaml", []byte(`nodeFence: {executorNodeSelector: {node-role.kubernetes.io/control-plane: ""}}`))
	if err != nil || len(c.ExecutorSelector) != 1 {
		t.Errorf("%+v %v", c, err)
	}
	for _, bad := range []string{"[a]", "{a b: c}", `{a: "b c"}`} {
		if _, err := Parse("c.yaml", []byte("nodeFence: {executorNodeSelector: "+bad+"}")); err == nil || !strings.Contains(err.Error(), "executorNodeSelector") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if Default().NodeFence {
		t.Error("it is on by default")
	}
}

func TestMembersNeedTheirAgents(t *testing.T) {
	if _, err := Parse("c.yaml", []byte("members: {enabled: true}")); err == nil || !strings.Contains(err.Error(), "members.agents is not given") {
		t.Error(err)
	}
	if _, err := Parse("c.yaml", []byte("members: {enabled: true, agents: [agent]}")); err == nil || !strings.Contains(err.Error(), "a list of NAMESPACE/NAME") {
		t.Error(err)
	}
	c, err := Parse("c.yaml", []byte("members: {enabled: true, agents: [fencing-agent/fencing-agent-worker]}"))
	if err != nil || !c.Members || len(c.MembersAgents) != 1 || c.MembersAddress != ":9122" {
		t.Errorf("%+v %v", c, err)
	}
	if Default().Members {
		t.Error("it is on by default")
	}
}

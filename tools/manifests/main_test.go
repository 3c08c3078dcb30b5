package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

func TestManifestsAreRendered(t *testing.T) {
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}

// values writes an example that differs from the minimal one.
func values(t *testing.T, edit string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, chartDir, "examples/minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var v, change map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(edit), &change); err != nil {
		t.Fatal(err)
	}
	for key, x := range change {
		v[key] = x
	}
	out, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const networks = "systemNetworks: [{name: node, at: 10.0.0.0/24}]"

// The chart refuses contradictions when it is rendered, and says what to do.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ name, edit, want string }{
		{"no image", "image: {tag: v1}", "there is no public image"},
		{"no version", "image: {repository: r}", "say which version runs"},
		{"moving tag", "image: {repository: r, tag: latest}", "/image/tag"},
		{"no group", "groups: []", "groups is empty"},
		{"group twice", "groups: [{name: a}, {name: a}]", "a is listed twice"},
		{"group's name", "groups: [{name: A_B}]", "/groups/0/name"},
		{"long name", "groups: [{name: a23456789-a23456789-a23456789-a23456789-a}]", "/groups/0/name"},
		{"unknown value", "imagee: {}", "imagee"},
		{"unknown key of the agent", "config: {watchdogs: {timeout: 60s}, " + networks + "}", "watchdogs"},
		{"unknown key in a section", "config: {watchdog: {timeOut: 60s}, " + networks + "}", "timeOut"},
		{"unknown key in a list", "config: {systemNetworks: [{name: node, cdir: 10.0.0.0/24}]}", "cdir"},
		{"unknown key of a group", "groups: [{name: a, config: {lun: {device: /dev/mapper/f}}}]", "device"},
		{"unknown choice", "config: {onQuorumLoss: waiting, " + networks + "}", "/config/onQuorumLoss"},
		{"duration without unit", "config: {watchdog: {timeout: 30}, " + networks + "}", "/config/watchdog/timeout"},
		{"no network", "config: {}", "config.systemNetworks is empty"},
		{"node's name", "config: {nodeName: n, " + networks + "}", "/config/nodeName"},
		{"socket", "config: {api: {socket: /run/s}, " + networks + "}", "config.api.socket is set by the chart"},
		{"key file", "config: {gossip: {keyFile: /k}, " + networks + "}", "gossipKeys"},
		{"monitor on the loopback", "monitoring: {podMonitor: {enabled: true}}", "set monitoring.expose"},
		{"CPU limit", "resources: {limits: {cpu: 1}}", "/resources/limits/cpu"},
		{"CPU limit of a group", "groups: [{name: a, resources: {limits: {cpu: 1}}}]", "/groups/0/resources/limits/cpu"},
		{"moving tag of a group", "groups: [{name: a, image: {tag: latest}}]", "/groups/0/image/tag"},
		{"unknown value of a group", "groups: [{name: a, updatestrategy: OnDelete}]", "updatestrategy"},
		{"hasty stop", "terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds"},
		{"plugin with LUN", "config: {lun: {devices: [/dev/mapper/f]}, " + networks + "}\nwatchdogDevicePlugin: a.b/watchdog", "does not go with lun.devices"},
		{"plugin with sysrq", "config: {watchdog: {onFence: crash}, " + networks + "}\nwatchdogDevicePlugin: a.b/watchdog", "sysrq-trigger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := render(filepath.Join(root, chartDir), values(t, c.edit)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Helm installs its release into a namespace that exists, so an example that creates it cannot be installed.
func TestExamplesLeaveTheNamespaceToHelm(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(root, chartDir, "examples/*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatal(examples, err)
	}
	for _, example := range examples {
		text, err := os.ReadFile(example)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "createNamespace") {
			t.Errorf("%s sets createNamespace", example)
		}
	}
}

// The chart accepts what the agent accepts: a file with every key.
func TestChartTakesEveryKey(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "cmd/fencing-agent/config/testdata/full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"nodeName", "nodeGroup", "api.socket", "watchdog.disableFile", "members.cacheFile", "gossip.keyFile"} {
		section, key, nested := strings.Cut(path, ".")
		if !nested {
			delete(c, path)
		} else if keys, ok := c[section].(map[string]any); ok {
			delete(keys, key)
		}
	}
	c["restartGrace"] = 0 // the only duration without a unit
	out, err := yaml.Marshal(map[string]any{"config": c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render(filepath.Join(root, chartDir), values(t, string(out))); err != nil {
		t.Error(err)
	}
}

// line returns the first line of the rendered example that contains the text.
func line(t *testing.T, edit, text string) string {
	t.Helper()
	files, err := render(filepath.Join(root, chartDir), values(t, edit))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(files["values.yaml"])) {
		if strings.Contains(l, text) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

func TestListOfMembersRestartsNobody(t *testing.T) {
	with := func(members, more string) string {
		return "config: {members: {" + members + "}, " + more + networks + "}"
	}
	const key = "config-digest"
	before := line(t, with("epoch: 1, static: [{name: a}]", ""), key)
	if after := line(t, with("epoch: 2, static: [{name: a}, {name: b}]", ""), key); before == "" || after != before {
		t.Errorf("a change of the list of members changes the pods: %q, then %q", before, after)
	}
	if after := line(t, with("epoch: 1, static: [{name: a}]", "onQuorumLoss: wait, "), key); after == before {
		t.Errorf("another configuration leaves the pods as they are: %q", after)
	}
}

const sixtyFour = "5a7d6a0b0a4b3c4b5f3f0a6c1a0f0a7d8f6b1e2c3d4e5f60718293a4b5c6d7e8"

// Every value in the schema has a row in the README of its chart.
func TestReadmeHasEveryValue(t *testing.T) {
	for dir, also := range map[string][]string{
		chartDir:        {"groups[].image", "groups[].config", "image.digest", "monitoring.rules.runbook"},
		controllerChart: {"image.digest", "config.dryRun", "config.recovery.excludeNamespaces"},
	} {
		text, err := readme(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := os.ReadFile(filepath.Join(root, dir, "values.schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Properties map[string]any
		}
		if err := yaml.Unmarshal(schema, &s); err != nil { // JSON is also YAML
			t.Fatal(err)
		}
		for key := range s.Properties {
			if key != "global" && !strings.Contains(string(text), "| `"+key+"` ") && !strings.Contains(string(text), "| `"+key+".") {
				t.Errorf("%s: %s has no row", dir, key)
			}
		}
		for _, key := range also {
			if !strings.Contains(string(text), "| `"+key+"` ") {
				t.Errorf("%s: %s has no row", dir, key)
			}
		}
	}
}

func TestProbesFollowTheConfiguration(t *testing.T) {
	for _, c := range []struct{ edit, text, want string }{
		{"config: {" + networks + "}", "failureThreshold", "failureThreshold: 12"},
		{"config: {watchdog: {timeout: 5m}, " + networks + "}", "failureThreshold", "failureThreshold: 63"},
		{"config: {watchdog: {timeout: 1h}, " + networks + "}", "failureThreshold", "failureThreshold: 723"},
		{"config: {watchdog: {timeout: 1.5h}, " + networks + "}", "failureThreshold", "failureThreshold: 1083"},
		{"config: {watchdog: {timeout: 60000ms}, " + networks + "}", "failureThreshold", "failureThreshold: 15"},
		{"config: {http: {address: '0.0.0.0:9999'}, " + networks + "}", "containerPort", "containerPort: 9999"},
		{"config: {http: {address: '[::]:9999'}, " + networks + "}", "host: ", `host: "::1"`},
		{"config: {http: {address: '10.0.0.1:9999'}, " + networks + "}", "host: ", `host: "10.0.0.1"`},
		{"config: {http: {address: ''}, " + networks + "}", "Probe", ""},
		{"config: {watchdog: {driver: none}, " + networks + "}", "privileged: false", "privileged: false"},
		{"config: {watchdog: {driver: none}, lun: {devices: [/dev/mapper/f]}, " + networks + "}", "privileged: true", "privileged: true"},
		{"updateStrategy: OnDelete", "maxUnavailable", ""},
		{"groups: [{name: a, updateStrategy: OnDelete}]", "type: OnDelete", "type: OnDelete"},
		{"groups: [{name: a, image: {tag: v9}}]", "image: ", "image: registry.example.com/fencing-agent:v9"},
		{"image: {repository: r, digest: 'sha256:" + sixtyFour + "'}\ngroups: [{name: a, image: {tag: v9}}]", "image: ", "image: r:v9"},
		{"image: {repository: r, tag: v1}\ngroups: [{name: a, image: {digest: 'sha256:" + sixtyFour + "'}}]", "image: ", "image: r@sha256:" + sixtyFour},
		{"groups: [{name: a, resources: {requests: {memory: 1Gi}}}]", "memory: ", "memory: 1Gi"},
		{"monitoring: {expose: true}", "address: ", "address: $NODE_IP:9110"},
		{"monitoring: {expose: true}", "host: ", ""},
		{"monitoring: {expose: true}", "fieldPath: status", "fieldPath: status.hostIP"},
		{"config: {kubernetes: {names: fencing-agent}, " + networks + "}", "/group: worker", "fencing-agent.io/group: worker"},
		{"config: {nodeDevices: [{node: n1, lun: ['wwn:0x500a0981deadbeef']}], " + networks + "}", "wwn:", "- wwn:0x500a0981deadbeef"},
		{"config: {kubernetes: {groupLabel: example.com/pool}, " + networks + "}", "example.com/pool: ", "example.com/pool: worker"},
	} {
		if got := line(t, c.edit, c.text); got != c.want {
			t.Errorf("%s: line %q, want %q", c.edit, got, c.want)
		}
	}
}

// Only a group whose ties a Lease breaks may write Leases, and only its own.
func TestLeasesAreGrantedWhereTheyBreakTies(t *testing.T) {
	with := "groups: [{name: a, config: {quorum: {tieBreak: lease}}}, {name: b}]"
	files, err := render(filepath.Join(root, chartDir), values(t, with))
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["values.yaml"])
	for _, want := range []string{
		"resourceNames: [fencing-agent-prod-a]",
		"{ 'system:serviceaccount:fencing-agent:fencing-agent-a': 'fencing-agent-prod-a' }",
		"policyName: own-lease.fencing-agent.fencing-agent",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(text, want))
		}
	}
	if strings.Contains(text, "fencing-agent-prod-b") {
		t.Error("a group without lease is granted one")
	}
	if files, err = render(filepath.Join(root, chartDir), values(t, "groups: [{name: a}]")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(files["values.yaml"]), "lease") {
		t.Error("Leases are granted although no group uses one")
	}
}

func TestQueriesCanFail(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, text := range []string{
		"groups: [{name: g, rules: [{alert: A, expr: 'sum(('}]}]",
		"groups: [{name: g, rules: [{alert: A, expr: up, fro: 1m}]}]",
		"groups: [{name: g, rules: [{alert: A, expr: up, annotations: {summary: '{{ $labels.x '}}]}]",
	} {
		if err := checkAlerts(p, []byte(text)); err == nil {
			t.Errorf("taken for alerts: %s", text)
		}
	}
	for _, text := range []string{`{"panels":[]}`, `{"panels":[{"targets":[{"expr":"rate(x[5m]"}]}]}`, `[`} {
		if err := checkDashboard(p, []byte(text)); err == nil {
			t.Errorf("taken for a dashboard: %s", text)
		}
	}
}

func TestDifferencesAreFound(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"a.yaml": []byte("one\ntwo\n"), "b.yaml": []byte("x\n")}
	if err := write(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := compare(dir, files); err != nil {
		t.Error(err)
	}
	if err := compare(dir, map[string][]byte{"a.yaml": []byte("one\nthree\n"), "c.yaml": nil}); err == nil ||
		!strings.Contains(err.Error(), `line 2 has "two"`) || !strings.Contains(err.Error(), "b.yaml is rendered from no example") || !strings.Contains(err.Error(), "c.yaml") {
		t.Errorf("differences: %v", err)
	}
	if err := write(dir, map[string][]byte{"a.yaml": nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.yaml")); err == nil {
		t.Error("a file that is no longer rendered still exists")
	}
}

// Agents that follow fencing-controller are granted nothing, and their token is valid only for it.
func TestFollowersAreGrantedNothing(t *testing.T) {
	edit := "config: {members: {source: controller, controller: {address: '10.0.0.1:9122'}}, " + networks + "}"
	files, err := render(filepath.Join(root, chartDir), values(t, edit))
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["values.yaml"])
	for _, want := range []string{"audience: fencing-controller", "name: fencing-controller-ca", "mountPath: /var/run/secrets/fencing-controller"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(text, "automountServiceAccountToken: true") || strings.Contains(text, "- kind: ServiceAccount") {
		t.Error("the agents are granted something, or have the token for it")
	}
}

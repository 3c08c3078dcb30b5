package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// replicas of fencing-controller replace nodes in courses. No alert uses these labels.
var replicas = map[string][]string{"c": {"c1", "c2"}}

// healthyController contains the series of a replica to which no death is reported and which fences nodes by their
// devices. There is no series about a NodeFence while there is none.
func healthyController() map[string]float64 {
	w := map[string]float64{"up{}": 1, "fencing_controller_dry_run{}": 0}
	for _, p := range []string{"watching", "unproven", "proven", "draining", "released", "returning", "held", "disputed", "foreign", "would_act", "gone"} {
		w[`fencing_controller_nodes{phase="`+p+`"}`] = 0
	}
	for _, labels := range []string{
		`step="isolation",phase="done"`, `step="power_management",phase="running"`, `step="power_management",phase="error"`,
		`step="power_management",phase="done"`, `step="power_management",phase="givenUp"`, `step="recovery",phase="done"`,
	} {
		w["fencing_controller_nodefences{"+labels+"}"] = math.NaN()
	}
	w["fencing_controller_fence_config_problems{}"] = 0
	w["fencing_controller_nodefence_schema_old{}"] = 0
	for _, device := range []string{"fence_ipmilan 192.0.2.4", "fence_ipmilan 192.0.2.5"} {
		w[`fencing_controller_device_reachable{device="`+device+`"}`] = 1
	}
	for _, policy := range []string{"ControlPlaneAtRisk", "ConfigProblems", "ControlPlaneBlind", "TooManyUnhealthy", "Cooldown", "TooManyDead", "TooManyAtOnce"} {
		w[`fencing_controller_fencing_skipped_total{policy="`+policy+`"}`] = 0
	}
	return w
}

// controllerAlerts returns the rules of deploy/controller/monitoring.yaml and nodefence-monitoring.yaml in the form
// that Prometheus reads.
func controllerAlerts(t *testing.T) []byte {
	t.Helper()
	groups := []any{}
	for _, file := range []string{"monitoring.yaml", "nodefence-monitoring.yaml"} {
		groups = append(groups, ruleGroups(t, filepath.Join(root, "deploy/controller", file))...)
	}
	out, err := yaml.Marshal(map[string]any{"groups": groups})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ruleGroups returns the groups of the PrometheusRule in a file.
func ruleGroups(t *testing.T, file string) []any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n---\n")[1:] {
		var o struct {
			Kind string
			Spec struct{ Groups []any }
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "PrometheusRule" {
			return o.Spec.Groups
		}
	}
	t.Fatalf("%s has no rules", file)
	return nil
}

// Over each course exactly the alerts of fencing-controller fire that the course names. Each alert fires in one course
// and does not fire in another.
func TestControllerAlertsOverTime(t *testing.T) {
	text, err := os.ReadFile("testdata/controller.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := parser.NewParser(parser.Options{})
	courses, err := parseCourses(p, string(text))
	if err != nil {
		t.Fatal(err)
	}
	alerts := controllerAlerts(t)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range courses {
		c.controller = true
		got := c.run(t, alerts, "")
		if !c.expects(got, "") {
			t.Errorf("controller.txt:%d: %s: %s\nfires:\n%swant:\n%s", c.line, c.alert, c.story, lines(got), lines(c.want))
		}
		if slices.ContainsFunc(c.want, func(s span) bool { return s.alert == c.alert }) == c.silent {
			t.Errorf("controller.txt:%d: the title and what is expected contradict each other", c.line)
		}
		fires[c.alert], silent[c.alert] = fires[c.alert] || !c.silent, silent[c.alert] || c.silent
	}
	for _, r := range alertRules(t, p, alerts) {
		if !fires[r.Name()] || !silent[r.Name()] {
			t.Errorf("%s: a course in which it fires: %v, one in which it is silent: %v", r.Name(), fires[r.Name()], silent[r.Name()])
		}
	}
}

// Guard: Prometheus can parse the queries of the controller's dashboard.
func TestControllerDashboardIsReadable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/controller/monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n---\n")[1:] {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "ConfigMap" {
			continue
		}
		if err := checkDashboard(parser.NewParser(parser.Options{}), []byte(o.Data["fencing-controller.json"])); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("deploy/controller/monitoring.yaml has no dashboard")
}

// The controller's chart refuses values that the controller would refuse, or that its policies contradict.
func TestControllerChartRefuses(t *testing.T) {
	chart, err := loader.Load(filepath.Join(root, controllerChart))
	if err != nil {
		t.Fatal(err)
	}
	render := func(edit string) ([]object, error) {
		given := map[string]any{"image": map[string]any{"repository": "r", "tag": "v1"}}
		if err := yaml.Unmarshal([]byte(edit), &given); err != nil {
			t.Fatal(err)
		}
		return objectsOf(chart, given)
	}
	for _, c := range []struct{ name, edit, want string }{
		{"no image", "image: {tag: v1}", "there is no public image"},
		{"no version", "image: {repository: r}", "say which version runs"},
		{"moving tag", "image: {repository: r, tag: latest}", "/image/tag"},
		{"unknown value", "dryrun: false", "dryrun"},
		{"unknown key", "config: {dryrun: false}", "dryrun"},
		{"unknown key in a section", "config: {storm: {evict: 1}}", "evict"},
		{"kube-system is not left alone", "config: {recovery: {excludeNamespaces: [a]}}", "/config/recovery/excludeNamespaces"},
		{"duration without unit", "config: {recovery: {settle: 10}}", "/config/recovery/settle"},
		{"fencing by devices without an image", "config: {nodeFence: {enabled: true}}", "image"},
		{"fencing by devices with an empty image", "config: {nodeFence: {enabled: true, image: \"\"}}", "image"},
		{"lists without agents", "config: {members: {enabled: true}}", "agents"},
		{"one reporter", "config: {evidence: {minReporters: 1}}", "/config/evidence/minReporters"},
		{"a part of a deletion", "config: {storm: {deletesPerSecond: 1.5}}", "/config/storm/deletesPerSecond"},
		{"more than all", "config: {storm: {maxDeadPercent: 101}}", "/config/storm/maxDeadPercent"},
		{"no time to settle", "config: {recovery: {excludeNamespaces: [kube-system], settle: 0}}", "/config/recovery/settle"},
		{"port that the policy does not know", "config: {metrics: {address: \":1\"}}", "/config/metrics/address"},
	} {
		if _, err := render(c.edit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	objects, err := render("config: {members: {enabled: true, agents: [a/b]}}")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"ClusterRole": "tokenreviews", "Role": "configmaps", "Service": "9122", "Deployment": "secretName: fencing-controller-members",
		"NetworkPolicy": "port: members", "ValidatingAdmissionPolicy": "fencing-members-",
	} {
		if !slices.ContainsFunc(objects, func(o object) bool { return o.Kind == kind && strings.Contains(o.text, want) }) {
			t.Errorf("no %s has %s", kind, want)
		}
	}
	objects, err = render("membersFrom: [10.0.0.0/24, \"2001:db8::/64\"]\nconfig: {members: {enabled: true, agents: [a/b]}}")
	if err != nil || !slices.ContainsFunc(objects, func(o object) bool {
		_, rule, found := strings.Cut(o.text, "port: members")
		return o.Kind == "NetworkPolicy" && found && strings.Contains(rule, `cidr: "10.0.0.0/24"`) && strings.Contains(rule, `cidr: "2001:db8::/64"`)
	}) {
		t.Errorf("the server of lists is open to everybody: %v", err)
	}
	objects, err = render("config: {recovery: {excludeNamespaces: [kube-system, d8-system]}, evidence: {groupsOfTwo: [x]}, storm: {evicting: 2}}")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"ValidatingAdmissionPolicy": "['kube-system', 'd8-system']", "ConfigMap": "groupsOfTwo:"} {
		if !slices.ContainsFunc(objects, func(o object) bool { return o.Kind == kind && strings.Contains(o.text, want) }) {
			t.Errorf("no %s has %s", kind, want)
		}
	}
}

// The chart accepts what the controller accepts: each key of the controller's configuration is in the schema.
func TestControllerChartTakesEveryKey(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "cmd/fencing-controller/config/config.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, controllerChart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type schema struct{ Properties map[string]schema }
	var s schema
	if err := yaml.Unmarshal(text, &s); err != nil { // JSON is also YAML
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`(?m)^\t\t\{"([A-Za-z.]+)", `).FindAllStringSubmatch(string(source), -1)
	if len(keys) < 15 {
		t.Fatalf("%d keys found", len(keys))
	}
	for _, k := range keys {
		at, there := s.Properties["config"], true
		for part := range strings.SplitSeq(k[1], ".") {
			if at, there = at.Properties[part]; !there {
				t.Errorf("config.%s is not in the schema", k[1])
				break
			}
		}
	}
}

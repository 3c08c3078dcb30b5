package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const controllerName = "fencing-controller"

func loadController(t *testing.T) *manifest {
	t.Helper()
	c := read(t, "deploy/controller/controller.yaml")
	if len(c.deployments) != 1 || len(c.budgets) != 1 || len(c.networks) != 1 {
		t.Fatalf("%d deployments, %d budgets, %d network policies", len(c.deployments), len(c.budgets), len(c.networks))
	}
	return c
}

// Guard: each write is limited by a policy that applies to this account and to nobody else.
func TestControllerPoliciesLimitEveryWrite(t *testing.T) {
	c := loadController(t)
	for _, w := range []struct {
		group, resource string
		op              admissionv1.OperationType
	}{{"", "nodes", admissionv1.Update}, {"", "pods", admissionv1.Delete}, {"events.k8s.io", "events", admissionv1.Create}, {"events.k8s.io", "events", admissionv1.Update}} {
		if !c.limited(w.group, w.resource, w.op) {
			t.Errorf("no policy limits %s of %s", w.op, w.resource)
		}
	}
	for _, p := range c.policies {
		conditions := p.Spec.MatchConditions
		if *p.Spec.FailurePolicy != admissionv1.Fail || len(conditions) != 1 ||
			conditions[0].Expression != "request.userInfo.username == 'system:serviceaccount:"+controllerName+":"+controllerName+"'" {
			t.Errorf("policy %s: %+v", p.Name, p.Spec)
		}
		for _, v := range p.Spec.Validations {
			if v.Message == "" {
				t.Errorf("policy %s refuses without a message", p.Name)
			}
			if strings.Contains(v.Expression, "(fenced|disputed)") {
				for _, value := range []string{recovery.Fenced("024bc581b3a34be3"), recovery.Disputed("024bc581b3a34be3")} {
					if !regexp.MustCompile("^(fenced|disputed)-[0-9a-f]{16}$").MatchString(value) {
						t.Errorf("the policy refuses the taint %s", value)
					}
				}
			}
		}
	}
}

// Guard: two pods of the controller run on different nodes where agents' pods may not run, and write nothing before an
// operator allows it.
func TestControllerPods(t *testing.T) {
	c := loadController(t)
	d, pod := c.deployments[0], c.deployments[0].Spec.Template.Spec
	if *d.Spec.Replicas != 2 || len(pod.TopologySpreadConstraints) != 1 || pod.TopologySpreadConstraints[0].WhenUnsatisfiable != corev1.DoNotSchedule ||
		c.budgets[0].Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("one node's death may take all replicas")
	}
	if len(c.namespaces) != 1 || c.namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Error("the namespace is not restricted")
	}
	s := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		pod.HostNetwork || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v, %+v", pod.SecurityContext, s)
	}
	if slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.Key == "" || t.Key == recovery.TaintKey }) {
		t.Error("it tolerates the taint that it sets: a replica on a dead node would never be replaced")
	}
	cfg, err := config.Parse("controller.yaml", []byte(c.configs[controllerName].Data["controller.yaml"]))
	if err != nil || !cfg.DryRun {
		t.Errorf("%v, %+v", err, cfg)
	}
	for _, p := range c.policies {
		for _, v := range p.Spec.Validations {
			for _, space := range cfg.ExcludeNamespaces {
				if strings.Contains(v.Expression, "request.namespace in") && !strings.Contains(v.Expression, "'"+space+"'") {
					t.Errorf("the policy allows deletions in %s, which the configuration excludes", space)
				}
			}
		}
	}
}

// Guard: alerts query metrics and phases that exist, and name a section that exists.
func TestControllerAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/controller/monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "k8s/reconcile/metrics.go"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := os.ReadFile(filepath.Join(root, "cmd/fencing-controller/members/metrics.go"))
	if err != nil {
		t.Fatal(err)
	}
	source = append(source, lists...)
	page, err := os.ReadFile(filepath.Join(root, "docs/controller.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`fencing_controller_([a-z_]+)`).FindAllStringSubmatch(string(text)+string(page), -1) {
		if name := strings.TrimSuffix(m[1], "_bucket"); !strings.Contains(string(source), `Name: "`+name+`"`) && !strings.Contains(string(source), `NewDesc("fencing_controller_`+name+`"`) {
			t.Errorf("there is no metric fencing_controller_%s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`phase=~?"([a-z_|]+)"`).FindAllStringSubmatch(string(text), -1) {
		for _, p := range strings.Split(m[1], "|") {
			if !slices.Contains(recovery.Phases(), recovery.Phase(p)) {
				t.Errorf("there is no phase %s", p)
			}
		}
	}
	alerts := 0
	for _, m := range regexp.MustCompile(`docs/controller\.md#([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
		alerts++
		title := strings.ReplaceAll(m[1], "-", " ")
		if !strings.Contains(strings.ToLower(string(page)), "\n### "+title+"\n") {
			t.Errorf("docs/controller.md has no section %q", title)
		}
	}
	if names := strings.Count(string(text), "- alert: "); names != alerts || names < 5 {
		t.Errorf("%d alerts, %d runbook sections", names, alerts)
	}
	for _, p := range recovery.Phases() {
		if !strings.Contains(string(page), "`"+string(p)+"`") {
			t.Errorf("docs/controller.md does not explain the phase %s", p)
		}
	}
}

// Guard: Grafana can read the dashboard. Each panel says what it shows, and queries only series of this program.
func TestControllerDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/controller/monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n---\n")
	var object corev1.ConfigMap
	if err := yaml.Unmarshal([]byte(parts[len(parts)-1]), &object); err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID    string
		Panels []struct {
			ID                 int
			Title, Description string
			GridPos            struct{ H, W, X, Y int }
			Targets            []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(object.Data["fencing-controller.json"]), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: %+v", p.ID, p.Title, p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `job="fencing-controller"`) {
				t.Errorf("panel %q: %s queries everybody's series", p.Title, target.Expr)
			}
		}
	}
	if len(d.Panels) < 8 || d.UID != "fencing-controller" || object.Labels["grafana_dashboard"] != "1" {
		t.Errorf("%d panels, uid %q, labels %v", len(d.Panels), d.UID, object.Labels)
	}
}

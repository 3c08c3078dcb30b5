package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	KeepFiring  string            `json:"keep_firing_for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/chart/files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("found only %d alerts", len(all))
	}
	return all
}

// integration/arch tests that metrics and runbook sections exist, and make manifests that the expressions are PromQL.
func TestAlertsSayWhatWhereAndWhatToDo(t *testing.T) {
	names := map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] || !strings.HasPrefix(a.Alert, "Fencing") {
			t.Errorf("alert %q: one name each, beginning with Fencing", a.Alert)
		}
		names[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		for _, key := range []string{"summary", "description", "runbook_url"} {
			if a.Annotations[key] == "" {
				t.Errorf("%s: no %s", a.Alert, key)
			}
		}
		if !strings.HasPrefix(a.Annotations["runbook_url"], "RUNBOOK#") {
			t.Errorf("%s: runbook %q", a.Alert, a.Annotations["runbook_url"])
		}
		if !strings.Contains(a.Annotations["summary"], "$labels.group") {
			t.Errorf("%s: the summary does not say in which group", a.Alert)
		}
	}
}

// If a reason were renamed, its alert would never fire.
func TestAlertsKnowTheReasons(t *testing.T) {
	reasons := map[string][]string{"deaths_total": {watchdog.ProofTime.String(), watchdog.ProofBoot.String()}}
	for _, r := range watchdog.Reasons() {
		reasons["verdict"] = append(reasons["verdict"], r.String())
	}
	for _, r := range watchdog.LeftReasons() {
		reasons["left_total"] = append(reasons["left_total"], r.String())
	}
	found := map[string]bool{}
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`(verdict|left_total|deaths_total)\{(?:reason|proof)=~?"([a-z_|]+)"`).FindAllStringSubmatch(a.Expr, -1) {
			found[m[1]] = true
			for reason := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(reasons[m[1]], reason) {
					t.Errorf("%s: %s has no %s", a.Alert, m[1], reason)
				}
			}
		}
	}
	if len(found) != len(reasons) {
		t.Errorf("alerts check the reasons of %v and of nothing else", found)
	}
}

func TestRulesAreRendered(t *testing.T) {
	rules, monitors := 0, 0
	for name, m := range load(t) {
		for _, o := range m.monitoring {
			switch o["kind"] {
			case "PrometheusRule":
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), "RUNBOOK") || !strings.Contains(string(text), "docs/troubleshooting.md#the-agent-is-gone") {
					t.Errorf("%s: runbook addresses are not filled in", name)
				}
				rules++
			case "PodMonitor", "ServiceMonitor":
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, label := range []string{`"targetLabel":"node"`, `"targetLabel":"group"`, `"replacement":"fencing-agent","targetLabel":"job"`} {
					if !strings.Contains(string(text), label) {
						t.Errorf("%s: %v has no %s, which alerts and dashboard need", name, o["kind"], label)
					}
				}
				monitors++
			default:
				t.Errorf("%s: unexpected %v", name, o["kind"])
			}
		}
	}
	if rules == 0 || monitors < 2 {
		t.Errorf("%d rules and %d monitors are rendered by the examples", rules, monitors)
	}
}

func TestDashboardIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/chart/files/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID    string `json:"uid"`
		Panels []struct {
			ID          int    `json:"id"`
			Type        string `json:"type"`
			Title       string `json:"title"`
			Description string `json:"description"`
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: id %d is used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is wider than the screen: %+v", p.Title, p.GridPos)
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no description or no query", p.Title)
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `group=~"$group", node=~"$node"`) {
				t.Errorf("panel %q: %s ignores the choice of group and node", p.Title, target.Expr)
			}
		}
	}
	if len(d.Panels) < 20 || d.UID == "" {
		t.Errorf("dashboard %q with %d panels", d.UID, len(d.Panels))
	}
	for _, m := range load(t) {
		for _, c := range m.configs {
			if rendered, ok := c.Data["fencing-agent.json"]; ok && strings.TrimSpace(rendered) != strings.TrimSpace(string(text)) {
				t.Errorf("%s: the rendered dashboard differs", m.name)
			}
		}
	}
}

package deploy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// times are when a node is FENCED that was cut off, and one that crashed. The second is not exact, since it does not contain
// how long a proof takes.
func times(c *config.Config) (cut, crash string) {
	if c.Watchdog.Driver == config.DriverNone {
		return "never", "never"
	}
	seconds := func(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
	crash = fmt.Sprintf("soon after %d s", seconds(c.Budget(c.LatestReset()).Horizon()))
	if told := c.Announced(); told > 0 {
		return fmt.Sprintf("within %d s", seconds(told)), crash
	}
	return crash, crash
}

// cost is what a manifest or an example says of a configuration: what a cut and a crash cost.
func cost(c *config.Config) string {
	switch cut, crash := times(c); {
	case crash == "never":
		return "no node is ever FENCED, since no watchdog is armed."
	case cut != crash:
		return fmt.Sprintf("a node that is cut off is FENCED %s, and one that crashed or lost its power %s.", cut, crash)
	default:
		return fmt.Sprintf("a node that is cut off, crashed or lost its power is FENCED %s.", crash)
	}
}

// givesTimeout reports whether a configuration has a timeout of its own.
func givesTimeout(t *testing.T, text string) bool {
	t.Helper()
	var file struct{ Watchdog map[string]any }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	_, given := file.Watchdog["timeout"]
	return given
}

// Guard: a manifest says at its beginning what a cut and a crash will cost, and so does the page by which one chooses it.
func TestManifestsSayWhatAFaultCosts(t *testing.T) {
	page := example(t, "../docs/kubernetes.md")
	for _, a := range agents(t) {
		file, _, _ := strings.Cut(a.where, ": ")
		text, err := os.ReadFile(filepath.Join(root, "deploy/manifests", file))
		if err != nil {
			t.Fatal(err)
		}
		if want := "# " + strings.TrimPrefix(a.Name, "fencing-agent-") + ": " + cost(a.cfg) + "\n"; !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", a.where, want)
		}
		cut, crash := times(a.cfg)
		row := fmt.Sprintf("| [%s](../deploy/manifests/%[1]s), group %s | %s | %s |\n", file, strings.TrimPrefix(a.Name, "fencing-agent-"), cut, crash)
		if !strings.Contains(page, row) {
			t.Errorf("docs/kubernetes.md lacks %q", row)
		}
		if len(a.cfg.LUN.Devices) > 0 {
			a.cfg.Watchdog.Device = "identity:iTCO_wdt"
			if want := fmt.Sprintf("With iTCO_wdt, which counts down twice on many boards, both take %.0f s (", a.cfg.Budget(a.cfg.LatestReset()).Horizon().Seconds()); a.cfg.Announced() != 0 || !strings.Contains(example(t, "chart/examples/storage-lun.yaml"), want) {
				t.Errorf("%s: the example does not say %q, or a cut costs less: %v", a.where, want, a.cfg.Announced())
			}
		}
	}
}

// Guard: no manifest has a timeout that makes a crash cost more than the preset does.
func TestManifestsUseThePreset(t *testing.T) {
	for _, m := range load(t) {
		for _, c := range m.configs {
			if text, agents := c.Data["agent.yaml"]; agents && givesTimeout(t, text) {
				t.Errorf("%s: %s gives watchdog.timeout", m.name, c.Name)
			}
		}
	}
}

func TestExamplesSayWhatAFaultCosts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/examples/*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		text := example(t, "examples/"+filepath.Base(file))
		r, err := config.Review(file, []byte(text), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		said := cost(r.Config)
		if want := "# " + strings.ToUpper(said[:1]) + said[1:] + "\n"; !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", file, want)
		}
		if givesTimeout(t, text) {
			t.Errorf("%s gives watchdog.timeout", file)
		}
	}
}

func example(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

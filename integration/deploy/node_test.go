package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// settings returns the lines of a file that are not comments.
func settings(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/node", name))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The agent disarms for maintenance and for its own restart, and relies on a reset after the timeout. Both need a
// driver that was loaded with the right options.
func TestDriversCanBeDisarmedAndReset(t *testing.T) {
	loaded := settings(t, "modules-load.d/fencing-agent.conf")
	if len(loaded) != 1 {
		t.Fatalf("loads %q: /dev/watchdog belongs to the first driver, so there must be exactly one", loaded)
	}
	options := settings(t, "modprobe.d/fencing-agent.conf")
	for _, o := range options {
		if words := strings.Fields(o); words[0] != "options" || words[1] != "watchdog" && !slices.Contains(words, "nowayout=0") {
			t.Errorf("%q leaves nowayout to the kernel's configuration", o)
		}
	}
	if !slices.ContainsFunc(options, func(o string) bool {
		return strings.HasPrefix(o, "options "+loaded[0]+" ") && strings.Contains(o, "soft_panic=0")
	}) {
		t.Errorf("%s is loaded, but no option says how: %q", loaded[0], options)
	}
}

func TestNothingElseHoldsTheWatchdog(t *testing.T) {
	if !slices.Contains(settings(t, "systemd/fencing-agent.conf"), "RuntimeWatchdogSec=off") {
		t.Error("systemd would hold the watchdog")
	}
	if !slices.Contains(settings(t, "multipath/fencing-agent.conf"), "no_path_retry fail") {
		t.Error("multipath would queue I/O on the LUN")
	}
	if !slices.Contains(settings(t, "multipath/fencing-agent.conf"), "fast_io_fail_tmo 1") {
		t.Error("an iSCSI session or an FC port would wait for a lost target")
	}
	for _, rule := range settings(t, "udev/90-fencing-agent.rules") {
		if strings.Contains(rule, "watchdog") && !strings.Contains(rule, `MODE="0600"`) {
			t.Errorf("rule %q lets others arm the watchdog", rule)
		}
	}
}

// Debian's multipathd joins only the paths of a LUN that was added: without that the file has no effect.
func TestLUNIsAddedToMultipath(t *testing.T) {
	const add = "multipath -a WWID-OF-THE-LUN && multipathd reconfigure"
	for _, name := range []string{"deploy/node/multipath/fencing-agent.conf", "docs/kubernetes.md", "docs/operations.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), add) {
			t.Errorf("%s does not say %q", name, add)
		}
	}
}

// A lost command is answered after one and a half times its time limit.
func TestLostCommandsEndInTime(t *testing.T) {
	const file = "90-fencing-agent.rules"
	if file < "60-persistent-storage.rules" {
		t.Errorf("%s runs before the rules that set ID_SERIAL, and matches nothing", file)
	}
	rules := settings(t, "udev/"+file)
	for _, part := range []string{`ATTR{device/timeout}="5"`, `ATTR{fast_io_fail_tmo}="1", ATTR{ctrl_loss_tmo}="-1"`} {
		if !slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(rule, part) }) {
			t.Errorf("no rule sets %s: %q", part, rules)
		}
	}
}

package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// unitStop runs the ExecStop command of the systemd unit in deploy with this directory, while the machine is in this
// state.
func unitStop(t *testing.T, dir, state string) {
	t.Helper()
	unit, err := os.ReadFile("../../../deploy/systemd/fencing-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	_, script, found := strings.Cut(string(unit), "\nExecStop=-/bin/sh -c '")
	script, _, ended := strings.Cut(script, "'\n")
	if !found || !ended || !strings.Contains(script, "/run/fencing-agent/") {
		t.Fatalf("the unit has no such ExecStop: %s", script)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{"systemctl": "#!/bin/sh\necho " + state + "\n", "sleep": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script = strings.NewReplacer("$$", "$", "/run/fencing-agent/", dir+"/").Replace(script)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// The unit makes the node leave when the machine goes down. /run and the boot outlive systemctl soft-reboot, so the
// agent's next start ends this maintenance. A maintenance that somebody else has started stays.
func TestWhatTheUnitWritesEndsWithTheStop(t *testing.T) {
	for _, c := range []struct {
		what, state, file string // "": there is no file
		down, up          string // what the agent reports: while the machine goes down, and after its next start
	}{
		{"a reboot", "stopping", "", "the machine goes down (the file FILE)", ""},
		{"a stop of the unit alone", "running", "", "", ""},
		{"a stop on a degraded machine", "degraded", "", "", ""},
		{"somebody's file", "stopping", "\n", "the file FILE", "the file FILE"},
		{"somebody's text", "stopping", "disk change\n", "the file FILE", "the file FILE"},
		{"no maintenance, by the file", "stopping", "off\n", "the machine goes down (the file FILE)", "none"},
		{"a stop of the unit alone, and no maintenance", "running", "off\n", "none", "none"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "disable")
			if c.file != "" {
				if err := os.WriteFile(path, []byte(c.file), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file := func() *disableFile {
				return &disableFile{path: path, log: slog.New(slog.DiscardHandler), clock: boottime.Now, boot: "1", ordered: true, remove: os.Remove, text: statefile.Read}
			}
			unitStop(t, dir, c.state)
			unitStop(t, dir, c.state) // systemd may run it twice
			if got := says(file(), path); got != c.down {
				t.Errorf("while it goes down: %q, want %q", got, c.down)
			}
			for range 2 {
				a := &Agent{core: watchdog.NewCore(watchdog.Config{Roster: listing(t, "n1", "n2"), Networks: 1, Policy: netgossip.Any(), MaxAge: time.Second})}
				a.guard.disable = file()
				a.startDisableFile(func(func(context.Context)) {})
				if got := says(a.guard.disable, path); got != c.up {
					t.Errorf("after its start: %q, want %q", got, c.up)
				}
			}
			if left, _ := filepath.Glob(dir + "/*.new"); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// says returns what the agent concludes from a file about maintenance, and why.
func says(f *disableFile, path string) string {
	f.look()
	switch f.says() {
	case none:
		return "none"
	case silent:
		return ""
	default:
		return strings.ReplaceAll(f.why, path, "FILE")
	}
}

// A file that cannot be removed is reported, and the watchdog stays disarmed: an administrator has to check.
func TestAFileOfTheStopThatCannotBeRemoved(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "disable"), &bytes.Buffer{}
	if err := os.WriteFile(path, []byte(goingDown), 0o644); err != nil {
		t.Fatal(err)
	}
	f := &disableFile{path: path, log: slog.New(slog.NewTextHandler(log, nil)), clock: boottime.Now, boot: "1", remove: func(string) error { return os.ErrPermission }, text: statefile.Read}
	f.endGoingDown()
	if got := says(f, path); got != "the machine goes down (the file FILE)" || !strings.Contains(log.String(), "until you remove the file") {
		t.Errorf("%q: %s", got, log)
	}
}

package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
)

// maintained is the disable file of a node whose clock the test sets.
type maintained struct {
	*disableFile
	now  boottime.Instant
	ends int64
	log  strings.Builder
}

func maintains(t *testing.T, path, boot string) *maintained {
	t.Helper()
	m := &maintained{now: boottime.Instant(time.Hour)}
	m.disableFile = &disableFile{
		path: path, boot: boot, remove: os.Remove, text: statefile.Read, log: slog.New(slog.NewTextHandler(&m.log, nil)), clock: func() boottime.Instant { return m.now },
		show: func(at *int64) {
			if m.ends = 0; at != nil {
				m.ends = *at
			}
		},
	}
	return m
}

// A maintenance shows its end, who started it and why. It outlives the agent, and ends by itself.
func TestMaintenanceEndsByItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	ends, err := m.set(publish.Maintenance{For: 2 * time.Hour, By: "alice", Reason: "new firmware"})
	if err != nil || time.Until(ends) < 119*time.Minute {
		t.Fatalf("%v, %v", ends, err)
	}
	if !m.look() || !strings.HasPrefix(m.why, "maintenance until ") || !strings.HasSuffix(m.why, " (alice: new firmware)") || m.ends != ends.Unix() {
		t.Errorf("%q, ends %d", m.why, m.ends)
	}
	next := maintains(t, path, "b1") // another agent of this boot
	next.now = m.now.Add(2*time.Hour - 1)
	if !next.look() || next.why != m.why {
		t.Errorf("after a restart: %q", next.why)
	}
	next.now = m.now.Add(2 * time.Hour)
	if !next.look() || next.why != "" || next.ends != 0 || !strings.Contains(next.log.String(), "maintenance is over") {
		t.Errorf("at its end: %q, ends %d", next.why, next.ends)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

// Guard: a maintenance does not outlive the boot, whatever the clock of the next boot shows.
func TestMaintenanceEndsWithTheBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	if _, err := m.set(publish.Maintenance{For: time.Hour, By: "alice", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	next := maintains(t, path, "b2")
	next.now = boottime.Instant(time.Second)
	if next.look(); next.why != "" {
		t.Errorf("in the next boot: %q", next.why)
	}
}

// The end can be changed, and off ends a maintenance, also one without an end that was started by hand.
func TestMaintenanceIsChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !m.look() || m.why != "the file "+path || m.ends != 0 {
		t.Errorf("by hand: %q", m.why)
	}
	if _, err := m.set(publish.Maintenance{For: time.Hour, By: "alice", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if !m.look() || !strings.Contains(m.why, "alice") {
		t.Errorf("with an end: %q", m.why)
	}
	if ends, err := m.set(publish.Maintenance{By: "bob"}); err != nil || !ends.IsZero() {
		t.Errorf("%v, %v", ends, err)
	}
	if !m.look() || m.why != "" {
		t.Errorf("off: %q", m.why)
	}
	if _, err := m.set(publish.Maintenance{By: "bob"}); err != nil {
		t.Errorf("off again: %v", err)
	}
}

// Guard: if somebody runs touch on the file, which also creates a disable file by hand, the maintenance has no end.
func TestMaintenanceThatIsTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	if _, err := m.set(publish.Maintenance{For: time.Hour, By: "alice", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if later := time.Now().Add(time.Minute); os.Chtimes(path, later, later) != nil {
		t.Fatal("touch")
	}
	m.now = m.now.Add(2 * time.Hour)
	if m.look(); m.why != "the file "+path || m.ends != 0 {
		t.Errorf("%q, ends %d", m.why, m.ends)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A file whose time is over and that cannot be removed has no effect, and this is reported once.
func TestMaintenanceThatCannotBeRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	if _, err := m.set(publish.Maintenance{For: time.Hour, By: "alice", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	m.look()
	m.now = m.now.Add(2 * time.Hour)
	m.remove = func(string) error { return os.ErrPermission }
	for range 5 {
		m.look()
	}
	if n := strings.Count(m.log.String(), "is over"); m.why != "" || n != 2 {
		t.Errorf("%q, said %d times: %s", m.why, n, m.log.String())
	}
	if _, err := m.set(publish.Maintenance{For: time.Hour, By: "alice", Reason: "y"}); err != nil || !m.look() || m.why == "" {
		t.Errorf("the next one: %q, %v", m.why, err)
	}
}

// Guard: a file that is removed while it is read does not exist.
func TestDisableFileThatGoesAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "off")
	m := maintains(t, path, "b1")
	if err := os.WriteFile(path, []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	if why, err := m.read(info); why != "" || err != nil {
		t.Errorf("it is there: %q, %v", why, err)
	}
}

// Guard: a file that the agent cannot parse has no end, because somebody has created it.
func TestDisableFileThatIsNotUnderstood(t *testing.T) {
	for name, text := range map[string]string{
		"words": "do not touch, Bob", "another version": `{"version":2,"boot":"b1","until":1}`, "no end": `{"version":1,"boot":"b1"}`,
		"no boot": `{"version":1,"until":1}`, "not whole": `{"version":1,"boot":"b1","un`, "large": strings.Repeat(" ", maxMaintenanceText+1),
	} {
		path := filepath.Join(t.TempDir(), "off")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := maintains(t, path, "b1")
		if m.look(); m.why != "the file "+path {
			t.Errorf("%s: %q", name, m.why)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

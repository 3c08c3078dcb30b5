package wdt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	sysfs := t.TempDir()
	for name, identity := range map[string]string{"watchdog0": "Software Watchdog", "watchdog1": "iTCO_wdt", "watchdog2": "twin", "watchdog3": "twin"} {
		dir := filepath.Join(sysfs, "class/watchdog", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "identity"), []byte(identity+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ spec, path, problem string }{
		{"/dev/watchdog", "/dev/watchdog", ""},
		{"identity:iTCO_wdt", "/dev/watchdog1", ""},
		{"identity:Software Watchdog", "/dev/watchdog0", ""},
		{"identity:twin", "", "watchdog2 and watchdog3 have this identity"},
		{"identity:itco_wdt", "", `no driver says so, but there is "Software Watchdog" (watchdog0), "iTCO_wdt" (watchdog1)`},
	} {
		d, err := find(&Device{sysfs: sysfs, fd: -1}, c.spec)
		switch {
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: %v, want %q", c.spec, err, c.problem)
		case c.problem == "" && (err != nil || d.Path() != c.path):
			t.Errorf("%s: %v, %v", c.spec, d, err)
		}
	}
	// Without CONFIG_WATCHDOG_SYSFS a device has a folder, and nothing in it that names it.
	mute := t.TempDir()
	if err := os.MkdirAll(filepath.Join(mute, "class/watchdog", "watchdog1"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := find(&Device{sysfs: mute, fd: -1}, "identity:Software Watchdog")
	if err == nil || !strings.Contains(err.Error(), "CONFIG_WATCHDOG_SYSFS") || !strings.Contains(err.Error(), "there is /dev/watchdog1") || strings.Contains(err.Error(), "modprobe") {
		t.Errorf("a kernel that names no watchdog: %v", err)
	}
	if _, err := find(&Device{sysfs: t.TempDir(), fd: -1}, "identity:x"); err == nil || !strings.Contains(err.Error(), "modprobe") {
		t.Errorf("no watchdog at all: %v", err)
	}
	if d, err := Find("/dev/watchdog7"); err != nil || d.Path() != "/dev/watchdog7" {
		t.Errorf("by path: %v", err)
	}
}

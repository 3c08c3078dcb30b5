package wdt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A driver may be loaded when the agent runs already, and get any number: an Arm that failed is tried again.
func TestAWatchdogThatComesLaterIsArmed(t *testing.T) {
	for name, spec := range map[string]string{"by path": devicePath, "by identity": IdentityPrefix + "Software Watchdog"} {
		t.Run(name, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			dev.path, dev.spec = "", spec
			d.statErr = unix.ENOENT
			for range 2 {
				if _, err := dev.Arm(30 * time.Second); err == nil {
					t.Fatal("armed what is not there")
				}
				if _, known := dev.Look(); known {
					t.Error("something is known of what is not there")
				}
			}
			d.statErr = nil
			d.sysfs(t, dev, nil)
			// The name of the device that the simulated driver is behind.
			class := filepath.Join(dev.sysfs, "class/watchdog")
			if err := os.Rename(filepath.Join(class, "watchdog0"), filepath.Join(class, filepath.Base(devicePath))); err != nil {
				t.Fatal(err)
			}
			d.state = filepath.Join(class, filepath.Base(devicePath), "state")
			put(t, filepath.Join(class, filepath.Base(devicePath), "dev"), "10:130\n")
			if err := dev.Probe(30 * time.Second); err != nil {
				t.Errorf("Probe: %v", err)
			}
			if info, err := dev.Arm(30 * time.Second); err != nil || info.Timeout != 30*time.Second {
				t.Errorf("Arm: %+v, %v", info, err)
			}
			if dev.Path() != devicePath {
				t.Errorf("it is %s, want %s", dev.Path(), devicePath)
			}
		})
	}
}

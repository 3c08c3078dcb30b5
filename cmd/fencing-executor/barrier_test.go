package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each logical unit is reset once its plug is confirmed to be off. Otherwise the action fails.
func TestBarrier(t *testing.T) {
	dir := bench(t, "template=t\naction=off\nhost_devices=yes\ndevices=/dev/sdb,/dev/sdc\nstorage_driver=san.example\nstorage_barrier=lun-reset\n")
	agent := strings.Replace(fakeAgent, `<parameter name="plug"`, `<parameter name="devices" required="0"><getopt mixed="-d"/></parameter>
 <parameter name="plug"`, 1)
	tool := "#!/bin/sh\necho \"$* $(cat " + dir + "/plug)\" >> " + dir + "/resets\n[ ! -e " + dir + "/broken-$(basename \"$3\") ] || { echo no such device >&2; exit 1; }\n"
	for name, text := range map[string]string{"fence_fake": agent, "bin/sg_reset": tool} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	resets := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "resets"))
		os.Remove(filepath.Join(dir, "resets"))
		return string(text)
	}
	if code, r, _ := try(t, dir, minute); code != 0 || !r.OK || !r.Barrier || r.Status != "off" {
		t.Errorf("%d %+v", code, r)
	}
	if got := resets(); got != "--no-esc --device /dev/sdb off\n--no-esc --device /dev/sdc off\n" {
		t.Errorf("resets: %q", got)
	}
	set(t, dir, "broken-sdc", "")
	if code, r, _ := try(t, dir, minute); code != 1 || r.OK || r.Barrier || !strings.Contains(r.Message, "/dev/sdc: no such device") {
		t.Errorf("one that cannot be reset: %d %+v", code, r)
	}
	resets()
	set(t, dir, "plug", "on")
	set(t, dir, "mode", "lies")
	if code, r, _ := try(t, dir, minute); code != 1 || r.Barrier || resets() != "" {
		t.Errorf("an off that was not confirmed: %d %+v", code, r)
	}
	t.Setenv("PATH", dir)
	set(t, dir, "mode", "")
	if code, r, _ := try(t, dir, minute, "--action", "check"); r.Barrier {
		t.Errorf("a check: %d %+v", code, r)
	}
}

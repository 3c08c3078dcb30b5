package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// rpmMachine is rpm's name for this machine.
var rpmMachine = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// copyTo copies the only file that matches a pattern into the root.
func (d *debian) copyTo(name, pattern string) {
	d.t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		d.t.Fatal(pattern, found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		d.t.Fatal(err)
	}
	d.put(name, data)
}

// systemctl replaces the root's systemctl: the scripts need only its report on the unit. Other requests are recorded in
// /asked.
func (d *debian) systemctl(state string) {
	d.t.Helper()
	d.put("usr/bin/systemctl", []byte("#!/bin/sh\ncase \"$*\" in *ActiveState*) echo "+state+" ;; *) echo \"$*\" >> /asked ;; esac\n"))
	if err := os.MkdirAll(filepath.Join(d.root, "run/systemd/system"), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

// The rpm is tested with rpm itself, in a separate root with a separate database: it is installed, checked, upgraded
// while an agent runs, not removed from a node that it guards, and then removed. The root's programs are Debian's, so
// dependencies are not checked; the package depends only on a shell.
func TestRPMInARoot(t *testing.T) {
	dir := made(t)
	older := assembled(t, "v0.0.0-dev.20200101000000+g000000000000")
	d := newDebian(t, "systemd,man-db")
	d.copyTo("old.rpm", filepath.Join(older.out, "fencing-agent-*."+rpmMachine+".rpm"))
	d.copyTo("new.rpm", filepath.Join(dir, "fencing-agent-*."+rpmMachine+".rpm"))
	d.must("apt-get update -qq && apt-get install -y -qq --no-install-recommends rpm")
	d.must("rpm --initdb && rpm -qp --requires /new.rpm")
	const with = " --force-debian --nodeps "
	d.must("rpm -K --nosignature /new.rpm", "digests OK")
	d.must("rpm -i"+with+"/old.rpm", "nothing was started")
	d.must("rpm -V --nodeps fencing-agent && rpm -q fencing-agent", "fencing-agent-0.0.0~dev.20200101000000+g000000000000-1."+rpmMachine)
	d.must("getent group fencing-agent", "fencing-agent:x:")
	d.must("systemd-analyze verify --man=no /usr/lib/systemd/system/fencing-agent.service")
	d.must("rpm -qf /usr/bin/fencing-agent /usr/lib/systemd/system/fencing-agent.service /usr/share/man/man8/fencing-agent.8.gz")
	d.must("test ! -e /etc/systemd/system/multi-user.target.wants/fencing-agent.service")
	// An upgrade while the agent runs affects neither the agent nor what people wrote.
	d.must("echo NODE_GROUP=storage >> /etc/default/fencing-agent; rm -f /asked")
	d.systemctl("active")
	d.must("rpm -U"+with+"/new.rpm", "the running agent is still the old one")
	d.must("cat /asked; ! grep -v '^daemon-reload$' /asked")
	d.must("grep -q NODE_GROUP=storage /etc/default/fencing-agent && rpm -q fencing-agent && fencing-agent --version && kubectl-fence --help")
	if out, err := d.try("rpm -q fencing-agent"); err != nil || strings.Contains(out, "20200101") {
		t.Errorf("not upgraded: %v, %s", err, out)
	}
	// A package manager must not unguard a node.
	if out, err := d.try("rpm -e fencing-agent"); err == nil || !strings.Contains(out, "systemctl disable --now fencing-agent") {
		t.Errorf("removed from a node that it guards: %v, %s", err, out)
	}
	d.must("rpm -V --nodeps fencing-agent || test -x /usr/bin/fencing-agent")
	d.systemctl("inactive")
	d.must("rpm -e fencing-agent")
	if d.has("/usr/bin/fencing-agent") || d.has("/usr/lib/systemd/system/fencing-agent.service") || !d.has("/etc/default/fencing-agent.rpmsave") {
		t.Error("a removal takes the programs, and keeps what people wrote")
	}
}

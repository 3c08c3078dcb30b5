package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// made returns the folder of a release, which make test-packages names.
func made(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FENCING_TEST_PACKAGES")
	if dir == "" {
		t.Skip("takes minutes: run make test-packages")
	}
	return dir
}

func TestReleaseAgain(t *testing.T) {
	dir := made(t)
	again := filepath.Join(t.TempDir(), "release")
	if err := run(context.Background(), checkout, again, os.Getenv("FENCING_TEST_ONLY")); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, everything(t, dir), everything(t, again))
}

// debian is a bare system in a folder. Commands run in a separate mount and PID namespace, so that nothing stays
// mounted; systemd does not run there.
type debian struct {
	t    *testing.T
	root string
}

// newDebian creates a system with more packages, or copies the one in FENCING_TEST_DEBIAN, which needs no mirror.
func newDebian(t *testing.T, packages string) *debian {
	t.Helper()
	d := &debian{t, filepath.Join(t.TempDir(), "debian")}
	args := []string{"--variant=minbase", "--include=" + packages, "bookworm", d.root}
	if mirror := os.Getenv("MIRROR"); mirror != "" {
		args = append(args, mirror)
	}
	cmd := exec.Command("debootstrap", args...)
	if copied := os.Getenv("FENCING_TEST_DEBIAN"); copied != "" {
		cmd = exec.Command("cp", "-a", copied, d.root)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return d
}

func (d *debian) try(command string) (string, error) {
	d.t.Helper()
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc="+d.root+"/proc", "chroot", d.root, "sh", "-ec", command)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *debian) must(command string, wants ...string) {
	d.t.Helper()
	out, err := d.try(command)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			d.t.Errorf("%s: no %q in\n%s", command, want, out)
		}
	}
}

func (d *debian) put(name string, data []byte) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.root, name), data, 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *debian) has(name string) bool {
	_, err := os.Lstat(filepath.Join(d.root, name))
	return err == nil
}

// The deb is installed by apt in a bare Debian, upgraded from an older build, removed, and purged.
func TestDebInDebian(t *testing.T) {
	dir := made(t)
	older := assembled(t, "v0.0.0-dev.20200101000000+g000000000000")
	d := newDebian(t, "systemd,man-db")
	pattern := fmt.Sprintf("fencing-agent_*_%s.deb", runtime.GOARCH)
	for name, from := range map[string]string{"old.deb": older.out, "new.deb": dir} {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil || len(found) != 1 {
			t.Fatal(from, found, err)
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		d.put(name, data)
	}
	d.must("cd / && apt-get install -y ./old.deb", "nothing was started")
	d.must("dpkg --verify fencing-agent && dpkg -s fencing-agent", "Version: 0.0.0~dev.20200101000000+g000000000000", "Status: install ok installed")
	d.must("getent group fencing-agent", "fencing-agent:x:")
	d.must("systemd-analyze verify --man=no /usr/lib/systemd/system/fencing-agent.service")
	d.must("man -w fencing-agent fencectl fencectl-lun-init", "/usr/share/man/man8/fencing-agent.8.gz")
	d.must(`bash -c 'source /usr/share/bash-completion/completions/fencectl && complete -p fencectl'`, "__start_fencectl")
	d.must("stat -c '%a %U' /etc/fencing-agent", "750 root")
	if out, err := d.try("systemctl is-enabled fencing-agent.service"); err == nil || !strings.Contains(out, "disabled") {
		t.Errorf("enabled by its installation: %s", out)
	}
	// What people write is kept, and what the new version does not accept is reported at once.
	d.must("echo NODE_GROUP=storage >> /etc/default/fencing-agent; echo 'noSuchKey: 1' > /etc/fencing-agent/agent.yaml; mkdir -p /var/lib/fencing-agent; touch /var/lib/fencing-agent/members.json")
	d.must("cd / && apt-get install -y ./new.deb", "noSuchKey", "does not take /etc/fencing-agent/agent.yaml")
	d.must("grep -q NODE_GROUP=storage /etc/default/fencing-agent && dpkg -s fencing-agent", "Status: install ok installed")
	if out, err := d.try("dpkg -s fencing-agent"); err != nil || strings.Contains(out, "20200101") {
		t.Errorf("not upgraded: %s", out)
	}
	d.must("fencing-agent --version && fencectl version && kubectl-fence --help", "kubectl fence COMMAND")
	d.must("cd / && apt-get install -y --allow-downgrades ./old.deb && apt-get install -y ./new.deb")
	d.must("apt-get remove -y fencing-agent")
	if d.has("/usr/bin/fencing-agent") || d.has("/usr/lib/systemd/system/fencing-agent.service") || !d.has("/etc/default/fencing-agent") || !d.has("/var/lib/fencing-agent/members.json") {
		t.Error("a removal takes the programs, and neither configuration nor state")
	}
	d.must("apt-get purge -y fencing-agent")
	if d.has("/etc/default/fencing-agent") || d.has("/var/lib/fencing-agent") || !d.has("/etc/fencing-agent/agent.yaml") {
		t.Error("a purge takes what the package and the agents wrote, and nothing that people wrote")
	}
}

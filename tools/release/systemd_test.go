package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// packaged makes the deb of a version for this machine, with the real programs in it.
func packaged(t *testing.T, version string) string {
	t.Helper()
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{source: source{version: version, time: time.Unix(1_750_000_000, 0).UTC()}, root: root, out: t.TempDir(), work: t.TempDir(), nodes: []platform{host()}}
	pack := func(context.Context) error { return r.pack("deb", host()) }
	for _, step := range []func(context.Context) error{r.build, r.document, pack} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(r.out, "fencing-agent_*.deb")
}

// machines creates three machines, with an older and a newer package on the disk of each, and starts them.
func (r *room) machines() []*machine {
	t := r.t
	modules, err := filepath.Glob("/usr/lib/uml/modules/*")
	if err != nil || len(modules) != 1 {
		t.Fatalf("%q, %v: apt-get install user-mode-linux", modules, err)
	}
	older, newer := packaged(t, "v0.0.1"), packaged(t, "v0.0.2")
	d := newDebian(t, "systemd-sysv,udev,kmod,iproute2")
	d.copyTo("root/fencing-agent_0.0.1.deb", older)
	d.copyTo("root/fencing-agent_0.0.2.deb", newer)
	r.must("sh", "testdata/machine.sh", d.root, modules[0])
	var list []*machine
	for _, name := range []string{"n1", "n2", "n3"} {
		m := &machine{room: r, name: name, disk: filepath.Join(r.dir, name+".img")}
		if len(list) == 0 {
			r.must("truncate", "--size=2G", m.disk)
			r.must("mkfs.ext4", "-q", "-F", "-d", d.root, m.disk)
		} else {
			r.must("cp", "--sparse=always", list[0].disk, m.disk)
		}
		list = append(list, m)
	}
	for _, m := range list {
		m.boot()
	}
	for _, m := range list {
		m.up()
	}
	return list
}

const (
	ready   = "fencectl status --check"
	mainPID = "systemctl show --property MainPID --value fencing-agent"
	bootID  = "cat /proc/sys/kernel/random/boot_id"
)

// The deb is tested in Debian machines that have their own systemd and softdog. apt installs it; the agents are
// started, reset by an order and because of a cut, killed, and upgraded while they guard. The package is not removed
// while it guards, and then removed.
func TestDebInMachines(t *testing.T) {
	if os.Getenv("FENCING_TEST_MACHINES") == "" {
		t.Skip("boots machines: run make test-vms KIND=deb")
	}
	r := newRoom(t)
	var machines []*machine
	r.step("boot", func() { machines = r.machines() })
	n1, n3 := machines[0], machines[2]
	r.step("install", func() { installed(machines) })
	r.step("order", func() { ordered(n1, n3) })
	r.step("cut", func() { cutOff(n1, n3) })
	r.step("kill", func() { killed(n1) })
	r.step("upgrade", func() { upgraded(n1) })
	r.step("remove", func() { removed(n1) })
	r.step("others", func() {
		for _, m := range machines[1:] {
			m.until(ready)
		}
	})
}

// installed lets apt install the older package, and lets systemd start the agents.
func installed(machines []*machine) {
	t := machines[0].t
	for _, m := range machines {
		m.must("apt install --yes /root/fencing-agent_0.0.1.deb", "nothing was started")
		m.must("systemctl is-enabled fencing-agent || systemctl is-active fencing-agent || true", "disabled inactive")
		m.must(`cat > /etc/fencing-agent/agent.yaml <<END
nodeGroup: storage
systemNetworks: [{name: vec0, at: vec0}]
members:
  static:
    - {name: n1, addresses: {vec0: 10.0.0.1}}
    - {name: n2, addresses: {vec0: 10.0.0.2}}
    - {name: n3, addresses: {vec0: 10.0.0.3}}
quorum: {tieBreak: none}
watchdog: {driver: device, device: /dev/watchdog1}
END
fencectl config check /etc/fencing-agent/agent.yaml`, "watchdog /dev/watchdog1, 30s")
		m.must("systemctl enable --now fencing-agent")
		t.Logf("%s: installed, configured, enabled", m.name)
	}
	for _, m := range machines {
		m.until(ready)
		m.must("fencectl status", "FEEDING", "watchdog 30s (slack")
		m.must("fencectl history --boot 0", "the watchdog is armed")
		m.must("systemctl is-active fencing-agent && fencing-agent --version", "active", "0.0.1")
	}
	t.Logf("three agents guard their machines:\n%s", machines[0].must("fencectl status"))
}

// ordered ends the victim with fencectl fence on another machine.
func ordered(by, victim *machine) {
	t := by.t
	began := time.Now()
	said := by.must("fencectl fence "+victim.name+" --wait --reason test", "proof sentence")
	proven := time.Since(began)
	reset := victim.reset().Sub(began)
	t.Logf("%s: reset by its softdog %.1f s after the order, and FENCED after %.1f s\n%s", victim.name, reset.Seconds(), proven.Seconds(), said)
	comesBack(victim, "BY A SELF-FENCE", "ordered by "+by.name)
	by.must("fencectl history --boot 0", "ordered that "+victim.name+" ends, which has announced its self-fence", ", by root, reason: test")
}

// cutOff cuts the victim off the network until it boots again.
func cutOff(by, victim *machine) {
	t := by.t
	victim.cut()
	began := time.Now()
	reset := victim.reset().Sub(began)
	said := by.must("fencectl wait --fenced "+victim.name, victim.name+": FENCED")
	t.Logf("%s: cut off, reset by its softdog after %.1f s, and FENCED after %.1f s\n%s", victim.name, reset.Seconds(), time.Since(began).Seconds(), said)
	t.Logf("cut at %s, and the history of %s says:\n%s", began.UTC().Format("15:04:05.000"), by.name, by.must("fencectl history --boot 0 | grep -E 'LEFT|FENCED' | tail -n 4", "FENCED "+victim.name))
	comesBack(victim, "NOT FED")
}

// comesBack boots a machine that was reset. Its agent starts by itself, and says why the machine was reset.
func comesBack(m *machine, why ...string) {
	m.boot()
	m.up()
	m.until(ready)
	m.must("fencectl status", "FEEDING", "watchdog 30s (slack")
	m.t.Logf("%s: guards again %.0f s after power on\n%s", m.name, time.Since(m.booted).Seconds(), m.must("fencectl history --boot -1", why...))
}

// killed lets systemd start the agent again, without a reset.
func killed(m *machine) {
	boot, first := m.must(bootID), m.must(mainPID)
	m.must("systemctl kill --kill-whom=main --signal=KILL fencing-agent")
	m.until("test $(" + mainPID + ") -gt " + first + " && " + ready)
	// This is longer than the watchdog's timeout.
	m.must("sleep 45; fencectl status", "FEEDING", "watchdog 30s (slack")
	m.sameBoot(boot)
	m.t.Logf("%s: the agent was killed, systemd has started another, and no reset came", m.name)
}

// upgraded lets apt upgrade the package while the watchdog is armed: the agent keeps running until it is restarted.
func upgraded(m *machine) {
	boot, running := m.must(bootID), m.must(mainPID)
	m.must("apt install --yes /root/fencing-agent_0.0.2.deb", "the running agent is still the old one")
	m.must("sleep 45; fencectl status", "FEEDING", "watchdog 30s (slack")
	if now := m.must(mainPID); now != running {
		m.t.Errorf("%s: the upgrade made process %s of %s", m.name, now, running)
	}
	m.must("systemctl restart fencing-agent")
	m.until(ready)
	m.must("fencectl status", "FEEDING", "watchdog 30s (slack")
	m.must("fencectl history --boot 0", "version v0.0.1", "version v0.0.2")
	m.sameBoot(boot)
	m.t.Logf("%s: upgraded while armed, restarted, and guards with %s", m.name, m.must("fencing-agent --version", "0.0.2"))
}

// removed checks that apt refuses to remove the package from a machine that it guards, and removes it after its stop.
func removed(m *machine) {
	boot := m.must(bootID)
	said, code := m.try("apt remove --yes fencing-agent")
	if code == 0 {
		m.t.Errorf("%s: removed from a machine that it guards", m.name)
	}
	m.says("apt remove", said, "First: systemctl disable --now fencing-agent")
	m.must("systemctl is-active fencing-agent && test -x /usr/bin/fencing-agent && " + ready)
	m.must("dpkg --status fencing-agent", "ok installed")
	m.t.Logf("%s: not removed while it guards", m.name)
	m.must("systemctl disable --now fencing-agent")
	m.must("apt remove --yes fencing-agent && test ! -e /usr/bin/fencing-agent && test -e /etc/fencing-agent/agent.yaml")
	m.must("apt purge --yes fencing-agent && test ! -e /var/lib/fencing-agent")
	m.must("sleep 45")
	m.sameBoot(boot)
	m.t.Logf("%s: removed after its stop, and not reset", m.name)
}

// sameBoot fails if the machine was reset meanwhile.
func (m *machine) sameBoot(boot string) {
	m.t.Helper()
	if now := m.must(bootID); now != boot {
		m.t.Errorf("%s: was reset", m.name)
	}
}

package fdstore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// binEnv names the directory with the programs of this repository.
const binEnv = "FENCING_BIN"

const softConfig = `nodeGroup: g
nodeName: n1
members: {cacheFile: /run/lib/members.json, static: [{name: n1, addresses: {mgmt: 127.0.0.1}}, {name: n2, addresses: {mgmt: 127.0.0.2}}]}
systemNetworks: [{name: mgmt, at: 127.0.0.1}]
watchdog: {driver: none, disableFile: /run/fencing-agent/disable}
api: {socket: /run/fencing-agent/s.sock}
http: {address: ""}
`

// The unit makes the node leave when the machine goes down; /run and the boot outlive systemctl soft-reboot. The test
// uses a real systemd and the real agent. The agent reports the maintenance while systemd stops it, and has ended it
// when systemd has started it again. A maintenance that somebody else has written stays.
func TestSystemdSoftReboot(t *testing.T) {
	if os.Getenv(systemdEnv) == "" || os.Getenv(binEnv) == "" {
		t.Skipf("set %s=1 and %s, as root", systemdEnv, binEnv)
	}
	for name, file := range map[string]string{"nobody's file": "", "somebody's file": "disk change\n"} {
		t.Run(name, func(t *testing.T) {
			s := &system{t: t, dir: t.TempDir(), agent: filepath.Join(os.Getenv(binEnv), "fencing-agent")}
			s.softUnits()
			run(t, s)
			s.needs(254)
			s.until("the agent serves", func() bool { return s.has("/run/fencing-agent/s.sock") })
			before := s.mainPID()
			if file != "" {
				s.in("printf '" + strings.TrimSpace(file) + "\n' >/run/fencing-agent/disable")
			}
			s.in("mkfifo /run/stays; systemctl soft-reboot")
			s.until("systemd starts another agent", func() bool {
				pid := s.mainPID()
				return pid != "0" && pid != before && s.has("/run/second")
			})
			if !s.has("/run/stays") {
				t.Error("/run is another: that was no soft reboot")
			}
			said, _ := os.ReadFile(s.at("/run/said"))
			want := file
			if file == "" {
				want = "going down\n"
			}
			if string(said) != want {
				t.Errorf("while systemd stopped the agent the file said %q, want %q", said, want)
			}
			if file == "" {
				s.until("the file is removed", func() bool { return !s.has("/run/fencing-agent/disable") })
			}
			if left, _ := os.ReadFile(s.at("/run/fencing-agent/disable")); string(left) != file {
				t.Errorf("afterwards the file says %q, want %q", left, file)
			}
		})
	}
}

// softUnits writes the unit of this repository, changed only as far as a system of one unit needs.
func (s *system) softUnits() {
	s.t.Helper()
	text, err := os.ReadFile("../../../deploy/systemd/" + unitName)
	if err != nil {
		s.t.Fatal(err)
	}
	unit := strings.NewReplacer(
		"[Unit]\n", "[Unit]\nDefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\n",
		"Wants=network-online.target\n", "", "After=network-online.target multipathd.service iscsid.service\n", "",
		"ExecStart=/usr/local/bin/fencing-agent --config /etc/fencing-agent/agent.yaml\n",
		"ExecStartPre=/bin/sh -c 'test ! -e /run/first || touch /run/second; touch /run/first'\nExecStart=/run/systemd/system/agent --config /run/systemd/system/agent.yaml\n"+
			"ExecStopPost=/bin/sh -c 'cat /run/fencing-agent/disable >/run/said'\n",
		"PrivateTmp=yes\n", "",
	).Replace(string(text))
	units := filepath.Join(s.dir, "units")
	if err := os.MkdirAll(units, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for name, text := range map[string]string{
		unitName:         unit,
		"default.target": "[Unit]\nDescription=test\nDefaultDependencies=no\nConflicts=shutdown.target\nWants=" + unitName + "\n",
		"test.target":    "[Unit]\nDescription=test\nDefaultDependencies=no\nConflicts=shutdown.target\nWants=" + unitName + "\n",
		"agent.yaml":     softConfig,
	} {
		if err := os.WriteFile(filepath.Join(units, name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", s.agent, filepath.Join(units, "agent")).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// needs skips the test if systemd is older than this version.
func (s *system) needs(version int) {
	s.t.Helper()
	out, err := s.command("--version").Output()
	var have int
	if _, scan := fmt.Sscanf(string(out), "systemd %d", &have); err != nil || scan != nil {
		s.t.Fatalf("%v, %v: %s", err, scan, out)
	}
	if have < version {
		s.t.Skipf("systemd %d has no soft-reboot: %s=FOLDER names a root file system with %d or later", have, rootEnv, version)
	}
}

// at returns the path, seen from outside the rig, of a path inside it.
func (s *system) at(path string) string { return fmt.Sprintf("/proc/%d/root%s", s.pid, path) }

func (s *system) has(path string) bool {
	_, err := os.Lstat(s.at(path))
	return err == nil
}

func (s *system) mainPID() string {
	out, _ := s.command("show", "-p", "MainPID", "--value", unitName).Output()
	return strings.TrimSpace(string(out))
}

// in runs a script inside the rig.
func (s *system) in(script string) {
	s.t.Helper()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(s.pid), "-p", "-m", "-C", "sh", "-c", script).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

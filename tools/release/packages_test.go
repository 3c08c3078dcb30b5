package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// members splits an ar archive, which is the format of a deb.
func members(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(data, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("no ar archive")
	}
	out := map[string][]byte{}
	for len(rest) >= 60 {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || len(rest) < 60+size {
			t.Fatalf("ar: %v", err)
		}
		out[strings.TrimRight(string(rest[:16]), " /")] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	return out
}

// onNodes contains files of a package and texts in them.
var onNodes = map[string]string{
	"/usr/bin/fencing-agent": "", "/usr/bin/fencectl": "", "/usr/bin/kubectl-fence": "-> fencectl",
	"/usr/lib/systemd/system/fencing-agent.service":               "ExecStart=/usr/bin/fencing-agent ",
	"/usr/lib/sysusers.d/fencing-agent.conf":                      "g fencing-agent",
	"/usr/share/bash-completion/completions/fencectl":             "__fencectl",
	"/usr/share/fish/vendor_completions.d/fencectl.fish":          "fencectl",
	"/usr/share/man/man1/fencectl.1.gz":                           "",
	"/usr/share/man/man1/fencectl-lun-init.1.gz":                  "",
	"/usr/share/man/man8/fencing-agent.8.gz":                      "",
	"/usr/share/fencing-agent/node/modprobe.d/fencing-agent.conf": "nowayout=0",
	"/usr/share/fencing-agent/node/udev/90-fencing-agent.rules":   "watchdog",
	"/usr/share/fencing-agent/node/multipath/fencing-agent.conf":  "no_path_retry fail",
	"/usr/share/doc/fencing-agent/examples/minimal.yaml":          "systemNetworks",
	"/usr/share/doc/fencing-agent/copyright":                      "Apache License",
	"/etc/default/fencing-agent":                                  "NODE_NAME",
}

func TestDeb(t *testing.T) {
	r := someRelease(t)
	for _, p := range nodes {
		name := "fencing-agent_1.2.4~dev.20250615150640+gabababababab_" + p.machine + ".deb"
		parts := members(t, everything(t, r.out)[name])
		control, data := unpack(t, parts["control.tar.gz"]), unpack(t, parts["data.tar.gz"])
		for file, want := range onNodes {
			if data[file] == nil || !strings.Contains(string(data[file]), want) {
				t.Errorf("%s: %s is missing, or lacks %q", name, file, want)
			}
		}
		for file := range data {
			if strings.HasPrefix(file, "/usr/local") || strings.HasPrefix(file, "/etc/") && !strings.HasSuffix(file, "/") && !strings.Contains(string(control["/conffiles"]), file) {
				t.Errorf("%s: %s has no place there, or is no conffile", name, file)
			}
		}
		for _, want := range []string{"Package: fencing-agent\n", "Version: 1.2.4~dev.20250615150640+gabababababab\n", "Architecture: " + p.machine + "\n", "Homepage: " + homepage} {
			if !strings.Contains(string(control["/control"]), want) {
				t.Errorf("%s: control lacks %q:\n%s", name, want, control["/control"])
			}
		}
		if strings.Contains(string(control["/control"]), "Depends:") {
			t.Errorf("%s: static programs depend on nothing:\n%s", name, control["/control"])
		}
		for _, script := range []string{"/postinst", "/prerm", "/postrm"} {
			if control[script] == nil {
				t.Errorf("%s has no %s", name, script)
			}
		}
		// A package must not change drivers, systemd or udev of a node: only a person may do that.
		for file := range data {
			for _, active := range []string{"/etc/modprobe.d", "/etc/modules-load.d", "/etc/systemd", "/etc/udev", "/usr/lib/udev", "/usr/lib/modprobe.d", "/lib/", "/etc/multipath"} {
				if strings.HasPrefix(file, active) {
					t.Errorf("%s: %s acts on the node when the package is installed", name, file)
				}
			}
		}
	}
}

func TestRPM(t *testing.T) {
	r := someRelease(t)
	for _, machine := range []string{"x86_64", "aarch64"} {
		name := fmt.Sprintf("fencing-agent-1.2.4~dev.20250615150640+gabababababab-1.%s.rpm", machine)
		data := everything(t, r.out)[name]
		if data == nil {
			t.Fatalf("no %s among %q", name, slices.Sorted(maps.Keys(everything(t, r.out))))
		}
		pkg, err := rpmutils.ReadRpm(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		files, err := pkg.Header.GetFiles()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]rpmutils.FileInfo{}
		for _, f := range files {
			have[f.Name()] = f
			if f.UserName() != "root" || f.GroupName() != "root" {
				t.Errorf("%s: %s is of %s:%s", name, f.Name(), f.UserName(), f.GroupName())
			}
		}
		for file := range onNodes {
			if have[file] == nil {
				t.Errorf("%s lacks %s", name, file)
			}
		}
		if f := have["/etc/default/fencing-agent"]; f != nil && f.Flags()&(1|16) != 1|16 { // RPMFILE_CONFIG, RPMFILE_NOREPLACE
			t.Errorf("%s: %s is no config file that stays: flags %d", name, f.Name(), f.Flags())
		}
		for _, tag := range []int{rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
			if text, err := pkg.Header.GetString(tag); err != nil || !strings.Contains(text, "guarding()") {
				t.Errorf("%s: script %d: %v", name, tag, err)
			}
		}
		payload, err := pkg.PayloadReaderExtended()
		if err != nil {
			t.Fatal(err)
		}
		for {
			f, err := payload.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if want := onNodes[f.Name()]; want != "" && f.Linkname() == "" {
				if text, err := io.ReadAll(payload); err != nil || !strings.Contains(string(text), want) {
					t.Errorf("%s: %s lacks %q, %v", name, f.Name(), want, err)
				}
			}
		}
	}
}

// runScript runs a maintainer script while the unit is in a state, and returns what the script asked of systemctl.
func runScript(t *testing.T, format, name, state string, args ...string) (asked, said string, err error) {
	t.Helper()
	return runScriptIn(t, t.TempDir(), format, name, state, args...)
}

// runScriptIn does the same with the files of the node in a folder: var and run belong to agents, unix is
// /proc/net/unix, and none/systemd/system is where make install puts units.
func runScriptIn(t *testing.T, dir, format, name, state string, args ...string) (asked, said string, err error) {
	t.Helper()
	text, err := script(format, name)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "asked")
	programs := map[string]string{
		"systemctl":        "#!/bin/sh\ncase \"$*\" in *ActiveState*) echo " + state + " ;; *) echo \"$*\" >>" + log + " ;; esac\n",
		"systemd-sysusers": "#!/bin/sh\n", "fencectl": "#!/bin/sh\nexit 0\n",
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	// This stands for a machine that runs systemd, and does not use files of this machine.
	moved := strings.NewReplacer("/run/systemd/system", dir, "/var/lib/fencing-agent", dir+"/var", "/run/fencing-agent", dir+"/run", "/proc/net/unix", dir+"/unix", "/usr/local/lib", dir+"/none", "/etc/", dir+"/etc/").Replace(string(text))
	cmd := exec.Command("sh", append([]string{"-c", moved, name}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	// If the file is missing, systemctl was not called.
	record, _ := os.ReadFile(log)
	return string(record), string(out), err
}

// No script starts, restarts or stops the agent, whatever the unit's state. An upgrade would unguard many nodes at
// once, and a removal would unguard one without notice.
func TestScriptsLeaveTheAgentAlone(t *testing.T) {
	type call struct {
		format, name string
		args         []string
	}
	for _, state := range []string{"active", "activating", "deactivating", "reloading", "inactive", "failed"} {
		guarding := state != "inactive" && state != "failed"
		for _, c := range []call{
			{"deb", "postinst", []string{"configure"}}, {"deb", "postinst", []string{"configure", "1.0"}}, {"deb", "postinst", []string{"abort-remove"}},
			{"deb", "prerm", []string{"upgrade", "2.0"}}, {"deb", "prerm", []string{"remove"}}, {"deb", "prerm", []string{"deconfigure", "in-favour", "x"}},
			{"deb", "postrm", []string{"remove"}}, {"deb", "postrm", []string{"upgrade", "2.0"}}, {"deb", "postrm", []string{"purge"}},
			{"rpm", "postinst", []string{"1"}}, {"rpm", "postinst", []string{"2"}}, {"rpm", "prerm", []string{"0"}}, {"rpm", "prerm", []string{"1"}},
			{"rpm", "postrm", []string{"0"}}, {"rpm", "postrm", []string{"1"}},
		} {
			asked, said, err := runScript(t, c.format, c.name, state, c.args...)
			where := fmt.Sprintf("%s %s %v, unit %s", c.format, c.name, c.args, state)
			for line := range strings.Lines(asked) {
				if strings.Contains(line, "fencing-agent.service") && !strings.HasPrefix(line, "--no-reload disable ") || strings.Contains(line, "start") {
					t.Errorf("%s: systemctl %s", where, line)
				}
			}
			removal := c.name == "prerm" && (c.args[0] == "remove" || c.args[0] == "0")
			switch {
			case removal && guarding:
				if err == nil || !strings.Contains(said, "systemctl disable --now fencing-agent") || asked != "" {
					t.Errorf("%s: takes the guard away: %v %q %q", where, err, said, asked)
				}
			case err != nil:
				t.Errorf("%s: %v: %s", where, err, said)
			case c.name == "postinst" && c.args[0] != "abort-remove" && guarding && !strings.Contains(said, "still the old one"):
				t.Errorf("%s: does not say that a restart is still needed: %s", where, said)
			}
		}
	}
}

// After the package was removed, an agent may run from make install or as a pod of the chart. It uses the same folders:
// its lists, its socket and the disable file are not leftovers.
func TestPurgeLeavesWhatAnotherAgentUses(t *testing.T) {
	const listens = "0000000000000000: 00000002 00000000 00010000 0001 01 4242 /run/fencing-agent/fencing-agent.sock\n"
	for _, c := range []struct {
		state, unix string
		kept        bool
	}{
		{"inactive", "", false}, {"inactive", strings.ReplaceAll(listens, "fencing-agent", "other"), false},
		{"active", "", true}, {"activating", "", true},
		{"inactive", listens, true}, {"inactive", strings.ReplaceAll(listens, "/run/fencing-agent/", "/var/run/"), true},
	} {
		dir := t.TempDir()
		for _, name := range []string{"var/members.json", "run/disable"} {
			if err := stage(filepath.Join(dir, name), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := stage(filepath.Join(dir, "unix"), []byte(c.unix)); err != nil {
			t.Fatal(err)
		}
		_, said, err := runScriptIn(t, dir, "deb", "postrm", c.state, "purge")
		_, list := os.Stat(filepath.Join(dir, "var/members.json"))
		_, disable := os.Stat(filepath.Join(dir, "run/disable"))
		if kept := list == nil && disable == nil; err != nil || kept != c.kept || !kept && (list == nil || disable == nil) {
			t.Errorf("unit %s, sockets %q: %v, %v, %v: %s", c.state, c.unix, err, list, disable, said)
		}
		if c.kept && !strings.Contains(said, "another agent") {
			t.Errorf("unit %s, sockets %q: does not say why: %s", c.state, c.unix, said)
		}
	}
}

// A unit that make install has put beside that of the package has the same name, and stays enabled.
func TestRemovalLeavesAnotherUnitEnabled(t *testing.T) {
	for _, other := range []bool{false, true} {
		dir := t.TempDir()
		if other {
			if err := stage(filepath.Join(dir, "none/systemd/system/fencing-agent.service"), nil); err != nil {
				t.Fatal(err)
			}
		}
		asked, said, err := runScriptIn(t, dir, "deb", "prerm", "inactive", "remove")
		if err != nil || strings.Contains(asked, "disable") == other {
			t.Errorf("another unit: %v: %v, systemctl %q, %s", other, err, asked, said)
		}
	}
}

package fdstore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	systemdEnv = "FENCING_TEST_SYSTEMD"
	rootEnv    = "FENCING_TEST_SYSTEMD_ROOT" // a root file system with another systemd, such as of Debian 13; empty: the machine's
	systemdBin = "/lib/systemd/systemd"
	unitName   = "fencing-agent.service"
)

// What systemd does with the store of the unit in deploy: systemd runs as the first process of a PID namespace, and
// the unit starts this test's program. It needs root:
//
//	FENCING_TEST_SYSTEMD=1 go test ./cmd/fencing-agent/fdstore -run TestSystemd -v
func TestSystemd(t *testing.T) {
	if os.Getenv(systemdEnv) == "" {
		t.Skipf("set %s=1, as root, on a host that has %s", systemdEnv, systemdBin)
	}
	t.Run("nothing of the machine can be written", func(t *testing.T) {
		s := boot(t, 9)
		hear(t, s.lines, "1 opened")
		for _, dir := range []string{"/", "/tmp", "/var", "/var/tmp", "/run", "/etc", "/usr", "/dev"} {
			mark := filepath.Join(dir, filepath.Base(s.cgroup))
			cmd := exec.Command("nsenter", "-t", strconv.Itoa(s.pid), "-m", "touch", mark)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Lstat(mark); err == nil {
				_ = os.Remove(mark)
				t.Errorf("what systemd writes to %s is on this machine", dir)
			}
		}
		for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"} {
			if exec.Command("nsenter", "-t", strconv.Itoa(s.pid), "-m", "sh", "-c", "exec 3>>"+path).Run() == nil {
				t.Errorf("%s can be opened for writing", path)
			}
		}
	})
	t.Run("killed, reexecuted, given up", func(t *testing.T) {
		s := boot(t, 3)
		hear(t, s.lines, "1 opened")
		s.kill(1)
		hear(t, s.lines, "2 inherited")
		s.ctl("daemon-reexec")
		s.kill(2)
		hear(t, s.lines, "3 inherited")
		hear(t, s.lines, "EOF") // systemd dropped the descriptor, and the process has closed its copy
	})
	t.Run("the unit is stopped", func(t *testing.T) {
		s := boot(t, 9)
		hear(t, s.lines, "1 opened")
		s.silent("it is kept")
		s.ctl("stop", unitName)
		hear(t, s.lines, "EOF") // the process kept its descriptor to the end, and systemd closed its copy
	})
	t.Run("a reload without a store", func(t *testing.T) {
		s := boot(t, 9)
		hear(t, s.lines, "1 opened")
		s.silent("it is kept")
		s.unit(func(text string) string {
			return strings.ReplaceAll(text, "FileDescriptorStoreMax=1\n", "FileDescriptorStoreMax=0\n")
		})
		s.ctl("daemon-reload") // systemd drops the descriptor while the process runs
		s.ctl("kill", "--signal=KILL", unitName)
		hear(t, s.lines, "EOF")
	})
	t.Run("a device", func(t *testing.T) { // like a watchdog, it cannot be polled
		s := bootOn(t, 9, "/dev/zero")
		s.until("systemd has it", func() bool {
			fds, _ := os.ReadDir(s.proc(1) + "/fd")
			for _, fd := range fds {
				var st unix.Stat_t
				if unix.Stat(filepath.Join(s.proc(1), "fd", fd.Name()), &st) == nil && st.Rdev == unix.Mkdev(1, 5) {
					return true
				}
			}
			return false
		})
	})
}

type system struct {
	t      *testing.T
	dir    string
	path   string // the file that the agent opens
	agent  string // path of the real agent, whose unit is written already; empty: this program is the agent
	cgroup string // the cgroup of this systemd
	pid    int    // the process number of systemd, outside its namespace
	last   int
	lines  <-chan string
}

func boot(t *testing.T, last int) *system {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	return run(t, &system{t: t, dir: dir, path: path, last: last, lines: pipe(t, path)})
}

func bootOn(t *testing.T, last int, path string) *system {
	return run(t, &system{t: t, dir: t.TempDir(), path: path, last: last})
}

// rig creates the root of a systemd that must not write to the machine: neither its target nor a tmpfiles rule that it
// follows can reach a file outside. The machine's root is the lower half of an overlay. /tmp, /var/tmp, /run and /dev,
// without disks, are separate. The files that configure the kernel are read-only. Only DIR, the test's directory, is
// the same inside and outside.
//
// Invariant: if any of this cannot be set up, or another file system of the machine is still visible, systemd is not
// started.
const rig = `set -eu
dir=$1; systemd=$2; lower=${3:-/}
mount --make-rprivate /
base=$dir/rig; mkdir -p "$base"; mount -t tmpfs tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"; root=$base/root
cd "$base" # paths with commas are not options
mount -t overlay -o "lowerdir=$lower,upperdir=upper,workdir=work" overlay root
for private in tmp var/tmp run dev etc/systemd/system; do mkdir -p "$root/$private"; mount -t tmpfs tmpfs "$root/$private"; done
chmod 1777 "$root/tmp" "$root/var/tmp"
mknod -m 666 "$root/dev/null" c 1 3; mknod -m 666 "$root/dev/zero" c 1 5; mknod -m 666 "$root/dev/console" c 1 3
mknod -m 666 "$root/dev/random" c 1 8; mknod -m 666 "$root/dev/urandom" c 1 9
mkdir -p "$root/proc" "$root/sys"; mount -t proc proc "$root/proc"
for kernel in sys sysrq-trigger; do
  test -e "$root/proc/$kernel" || continue
  mount --bind "$root/proc/$kernel" "$root/proc/$kernel"; mount -o remount,bind,ro "$root/proc/$kernel"
done
mount -t sysfs -o ro sysfs "$root/sys"; mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mkdir -p "$root$dir"; mount --bind "$dir" "$root$dir"; mount --make-private "$root$dir"
mkdir -p "$root/run/systemd/system"; cp "$dir"/units/* "$root/run/systemd/system/"; mount --bind "$dir/units" "$root/run/systemd/system"
mkdir "$root/run/old"; cd "$root"; pivot_root . run/old; cd /; umount -l /run/old
while read -r _ _ _ _ at options rest; do
  case "$at:${rest#*- }" in
  "$dir:"*|/run/systemd/system:*|*:tmpfs\ *|*:overlay\ *|*:proc\ *|*:cgroup2\ *) ;;
  *:sysfs\ *) case ",$options," in *,ro,*) ;; *) echo "rig: $at can be written" >&2; exit 1;; esac ;;
  *) echo "rig: $at of the machine is still there" >&2; exit 1;;
  esac
done </proc/self/mountinfo
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin "$systemd" --system --unit=test.target --log-target=console --show-status=0`

// run starts systemd in its own rig and its own cgroup.
func run(t *testing.T, s *system) *system {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, "units"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s.agent == "" {
		s.unit(func(text string) string { return text })
	}
	s.cgroup = cgroupOf(t)
	cmd := exec.Command("sh", "-c", `echo $$ >"$1/cgroup.procs"; shift; exec "$@"`, "cgroup", s.cgroup, "unshare", "--pid", "--mount", "--fork", "--mount-proc", "--uts", "--ipc", "--net", "--cgroup", "--kill-child", "sh", "-c", rig, "rig", s.dir, systemdBin, os.Getenv(rootEnv))
	cmd.Stderr, cmd.Stdout = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.pid > 0 {
			_ = syscall.Kill(s.pid, syscall.SIGKILL) // this also kills all processes of its namespace
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for end := time.Now().Add(ownDemand); removeCgroup(s.cgroup) != nil; <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s is left", s.cgroup)
				return
			}
		}
	})
	s.until("systemd runs", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		s.pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.pid))
		return s.pid > 0 && strings.TrimSpace(string(comm)) == "systemd"
	})
	return s
}

// cgroupOf creates a cgroup. systemd makes its slices in its own cgroup, so it must not run in the machine's.
func cgroupOf(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			path, err := os.MkdirTemp(fields[4], "fencing-test-systemd-")
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Skip("no cgroup2 is mounted here")
	return ""
}

// removeCgroup removes a cgroup and the ones below it; no process may be in them.
func removeCgroup(path string) error {
	below, _ := os.ReadDir(path)
	for _, b := range below {
		if b.IsDir() {
			if err := removeCgroup(filepath.Join(path, b.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(path)
}

// unit writes the unit of this repository, with this program instead of the agent, and a target that wants it.
func (s *system) unit(change func(string) string) {
	s.t.Helper()
	text, err := os.ReadFile("../../../deploy/systemd/" + unitName)
	if err != nil {
		s.t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	program := filepath.Join(s.dir, "agent")
	if _, err := os.Stat(program); err != nil {
		if err := os.Link(own, program); err != nil {
			if out, err := exec.Command("cp", own, program).CombinedOutput(); err != nil {
				s.t.Fatalf("%v: %s", err, out)
			}
		}
	}
	lines := strings.Split(change(string(text)), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "ExecStart="):
			lines[i] = fmt.Sprintf("ExecStart=%s\nEnvironment=%s=%s %s=%s %s=%d\nReadWritePaths=%s", program, lifeEnv, s.path, noteEnv, s.note(), lastEnv, s.last, s.dir)
		case strings.HasPrefix(line, "PrivateTmp="), strings.HasPrefix(line, "ExecStop="), strings.HasPrefix(line, "Wants="), strings.HasPrefix(line, "After="):
			lines[i] = ""
		case line == "[Unit]":
			lines[i] = "[Unit]\nDefaultDependencies=no"
		}
	}
	for name, text := range map[string]string{
		unitName:      strings.Join(lines, "\n"),
		"test.target": "[Unit]\nDescription=test\nDefaultDependencies=no\nWants=" + unitName + "\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, "units", name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *system) proc(pid int) string { return fmt.Sprintf("/proc/%d/root/proc/%d", s.pid, pid) }

func (s *system) note() string { return filepath.Join(s.dir, "life") }

// kill kills the agent that is in its nth life.
func (s *system) kill(life int) {
	s.t.Helper()
	s.until("the agent runs", func() bool {
		note, _ := os.ReadFile(s.note())
		return string(note) == strconv.Itoa(life)
	})
	s.silent("it is kept")
	s.ctl("kill", "--signal=KILL", unitName)
}

// silent waits until systemd has read the message, and so has the descriptor.
func (s *system) silent(what string) {
	s.t.Helper()
	s.until(what, func() bool {
		out, _ := s.command("show", "-p", "NFileDescriptorStore", unitName).Output()
		return strings.TrimSpace(string(out)) == "NFileDescriptorStore=1"
	})
}

func (s *system) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(s.pid), "-p", "-m", "-C", "systemctl"}, args...)...)
}

func (s *system) ctl(args ...string) {
	s.t.Helper()
	if out, err := s.command(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("systemctl %v: %v: %s", args, err, out)
	}
}

func (s *system) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * ownDemand); !ok(); {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain: %s", what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.t.Context().Done():
			return
		}
	}
}

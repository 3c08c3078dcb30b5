package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// board is a simulated management board (OpenIPMI's ipmi_sim) that owns a process as its machine.
type board struct {
	port int
	pid  string // the file that the machine writes
}

// powerControl is the program that the board calls as its power switch: the process is the machine.
const powerControl = `#!/bin/sh
dir=$(dirname "$0") op=$2
shift 2
on() { [ -s "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
while [ $# -gt 0 ]; do
	case "$op $1" in
	"get power") if on; then echo power:1; else echo power:0; fi; shift ;;
	"set power") if [ "$2" = 0 ]; then ! on || kill -9 "$(cat "$dir/pid")"; elif ! on; then setsid "$dir/machine" </dev/null >/dev/null 2>&1 & fi; shift 2 ;;
	get*) shift ;;
	*) shift 2 ;;
	esac
done
`

// newBoard starts a board on loopback, or skips the test if Debian's fence-agents and openipmi are not installed.
func newBoard(t *testing.T) *board {
	t.Helper()
	for _, program := range []string{"/usr/sbin/fence_ipmilan", "/usr/bin/ipmi_sim", "/usr/bin/ipmitool"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip("needs Debian's fence-agents, openipmi and ipmitool: " + err.Error())
		}
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &board{port: c.LocalAddr().(*net.UDPAddr).Port}
	_ = c.Close()
	dir := t.TempDir()
	b.pid = filepath.Join(dir, "pid")
	machine, control := filepath.Join(dir, "machine"), filepath.Join(dir, "control")
	for path, text := range map[string]string{
		control: powerControl,
		machine: fmt.Sprintf("#!/bin/sh\necho $$ > %s\nexec sleep 600\n", b.pid),
		filepath.Join(dir, "lan.conf"): fmt.Sprintf(`name "board"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %d
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "%s 0x20"
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "fencing" "s3cret" admin 10 none md2 md5 straight
`, b.port, control),
		filepath.Join(dir, "bmc.emu"): "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nsel_enable 0x20 1000 0x0a\nmc_enable 0x20\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command(control, "0x20", "set", "power", "1").Run(); err != nil {
		t.Fatal(err)
	}
	sim := exec.Command("/usr/bin/ipmi_sim", "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "bmc.emu"), "-s", dir, "-n")
	sim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sim.Process.Kill()
		_ = sim.Wait()
		if b.runs() {
			text, _ := os.ReadFile(b.pid)
			var pid int
			if _, err := fmt.Sscan(string(text), &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if !within(20*time.Second, b.runs) {
		t.Fatal("the board has not started its machine")
	}
	return b
}

// runs reports whether the machine runs.
func (b *board) runs() bool {
	text, err := os.ReadFile(b.pid)
	if err != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func within(limit time.Duration, holds func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if holds() {
			return true
		}
	}
	return false
}

// TestRealFenceAgent lets Debian's fence_ipmilan cut the power of a process, through a simulated board.
func TestRealFenceAgent(t *testing.T) {
	b := newBoard(t)
	dir := bench(t, "")
	method := func(text string) {
		set(t, dir, "method/method.properties", text)
		set(t, dir, "template/template.properties", fmt.Sprintf("agent_name=fence_ipmilan\nip=127.0.0.1\nipport=%d\nusername=fencing\npassword_secret=bmc/password\npower_wait=0\n", b.port))
	}
	ask := func(text string, within time.Duration, more ...string) (int, result, time.Duration) {
		t.Helper()
		method(text)
		begin := time.Now()
		code, r, _ := try(t, dir, within, append(more, "--agents", "/usr/sbin")...)
		return code, r, time.Since(begin).Round(10 * time.Millisecond)
	}
	code, r, took := ask("template=t\naction=off", minute, "--action", "check")
	t.Logf("status while it runs: %v, %+v", took, r)
	if code != 1 || r.Status != "on" {
		t.Errorf("%d %+v", code, r)
	}
	set(t, dir, "secrets/bmc/password", "wr0ng-s3cret")
	code, r, took = ask("template=t\naction=off", minute)
	t.Logf("off with a wrong password: %v, %+v", took, r)
	if code != 1 || strings.Contains(r.Message, "wr0ng") || !b.runs() {
		t.Errorf("%d %+v, the machine runs: %v", code, r, b.runs())
	}
	set(t, dir, "secrets/bmc/password", "s3cret")
	code, r, took = ask("template=t\naction=off", minute)
	t.Logf("off: %v, %+v", took, r)
	if code != 0 || r.Status != "off" || b.runs() {
		t.Errorf("%d %+v, the machine runs: %v", code, r, b.runs())
	}
	code, r, took = ask("template=t\naction=off", minute, "--action", "check")
	t.Logf("status while it is off: %v, %+v", took, r)
	if code != 0 || r.Status != "off" {
		t.Errorf("%d %+v", code, r)
	}
	code, r, took = ask("template=t\naction=on", minute)
	t.Logf("on: %v, %+v", took, r)
	if code != 0 || !within(10*time.Second, b.runs) {
		t.Errorf("%d %+v, the machine runs: %v", code, r, b.runs())
	}
	code, r, took = ask("template=t\naction=off\nipport=1", 8*time.Second)
	t.Logf("a board that cannot be reached: %v, %+v", took, r)
	if code != 1 || r.OK || took > 12*time.Second || !b.runs() {
		t.Errorf("%d %+v after %v", code, r, took)
	}
}

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

// rack is a simulated PDU: net-snmp's agent with the part of APC's rPDU MIB that fence_apc_snmp uses. Its outlets are
// files.
type rack struct {
	port int
	dir  string
}

// outletScript answers for the tree of the MIB: names of outlets, their states, and the commands that switch them.
const outletScript = `#!/bin/sh
# -g OID | -n OID | -s OID TYPE VALUE
dir=$(dirname "$0") base=.1.3.6.1.4.1.318.1.1.12
all="$base.3.3.1.1.4.1 $base.3.3.1.1.4.2 $base.3.5.1.1.2.1 $base.3.5.1.1.2.2 $base.3.5.1.1.4.1 $base.3.5.1.1.4.2"
tell() {
	outlet=${1##*.}
	case $1 in
	$base.3.5.1.1.2.*) printf '%s\nstring\noutlet%s\n' "$1" "$outlet" ;;
	$base.3.5.1.1.4.* | $base.3.3.1.1.4.*) printf '%s\ninteger\n%s\n' "$1" "$(cat "$dir/outlet$outlet")" ;;
	esac
}
case $1 in
-g) for o in $all; do [ "$o" = "$2" ] && tell "$o"; done ;;
-n)
	for o in $all; do
		case $o in
		"$2" | $base) ;;
		"$2".*) tell "$o"; exit ;;
		*) [ "$(printf '%s\n%s\n' "$2" "$o" | sort -V | head -1)" = "$2" ] && { tell "$o"; exit; } ;;
		esac
	done ;;
-s)
	case $2 in
	$base.3.3.1.1.4.*) echo "$4" >"$dir/outlet${2##*.}"; echo DONE ;;
	*) echo not-writable ;;
	esac ;;
esac
exit 0
`

// newRack starts a PDU on loopback, or skips the test if Debian's fence-agents, snmp and snmpd are not installed.
func newRack(t *testing.T) *rack {
	t.Helper()
	for _, program := range []string{"/usr/sbin/fence_apc_snmp", "/usr/sbin/snmpd", "/usr/bin/snmpset"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip("needs Debian's fence-agents, snmp and snmpd: " + err.Error())
		}
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{port: c.LocalAddr().(*net.UDPAddr).Port, dir: t.TempDir()}
	_ = c.Close()
	for path, text := range map[string]string{
		"outlets": outletScript, "outlet1": "1\n", "outlet2": "1\n",
		"snmpd.conf": fmt.Sprintf("agentaddress udp:127.0.0.1:%d\nrwcommunity s3cret 127.0.0.1\nsysobjectid .1.3.6.1.4.1.318.1.3.4.5\n"+
			"pass .1.3.6.1.4.1.318.1.1.12 %s\n", r.port, filepath.Join(r.dir, "outlets")),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, path), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	agent := exec.Command("/usr/sbin/snmpd", "-f", "-Lo", "-C", "-c", filepath.Join(r.dir, "snmpd.conf"), "-p", filepath.Join(r.dir, "pid"))
	agent.Env = append(os.Environ(), "SNMP_PERSISTENT_DIR="+r.dir)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	if !within(20*time.Second, func() bool {
		at := fmt.Sprintf("127.0.0.1:%d", r.port)
		return exec.Command("/usr/bin/snmpget", "-v1", "-cs3cret", "-t1", "-r0", at, ".1.3.6.1.2.1.1.2.0").Run() == nil
	}) {
		t.Fatal("the PDU does not answer")
	}
	return r
}

func (r *rack) on(outlet int) bool {
	text, _ := os.ReadFile(filepath.Join(r.dir, fmt.Sprint("outlet", outlet)))
	return strings.TrimSpace(string(text)) == "1"
}

// TestRealPDU lets Debian's fence_apc_snmp switch one outlet of a simulated PDU, and not the other.
func TestRealPDU(t *testing.T) {
	p := newRack(t)
	dir := bench(t, "")
	set(t, dir, "template/template.properties", fmt.Sprintf(
		"agent_name=fence_apc_snmp\nip=127.0.0.1\nipport=%d\ncommunity_secret=bmc/password\nsnmp_version=1\npower_wait=0\n", p.port))
	ask := func(what, action string, more ...string) (int, result) {
		t.Helper()
		set(t, dir, "method/method.properties", "template=t\nplug=2\naction="+action)
		began := time.Now()
		code, r, _ := try(t, dir, minute, append(more, "--agents", "/usr/sbin")...)
		t.Logf("%s: %v, %+v", what, time.Since(began).Round(10*time.Millisecond), r)
		return code, r
	}
	set(t, dir, "secrets/bmc/password", "s3cret")
	if code, r := ask("check while it is on", "off", "--action", "check"); code != 1 || r.Status != "on" {
		t.Errorf("%d %+v", code, r)
	}
	if code, r := ask("monitor", "off", "--action", "monitor"); code != 0 || !r.OK {
		t.Errorf("%d %+v", code, r)
	}
	if code, r := ask("off", "off"); code != 0 || r.Status != "off" || p.on(2) || !p.on(1) {
		t.Errorf("%d %+v, outlets are on: %v %v", code, r, p.on(1), p.on(2))
	}
	if code, r := ask("check while it is off", "off", "--action", "check"); code != 0 || r.Status != "off" {
		t.Errorf("%d %+v", code, r)
	}
	if code, r := ask("on", "on"); code != 0 || !p.on(2) || !p.on(1) {
		t.Errorf("%d %+v, outlets are on: %v %v", code, r, p.on(1), p.on(2))
	}
	set(t, dir, "secrets/bmc/password", "wr0ng-s3cret")
	if code, r := ask("off with a wrong community", "off"); code != 1 || strings.Contains(r.Message, "wr0ng") || !p.on(2) {
		t.Errorf("%d %+v, outlet 2 is on: %v", code, r, p.on(2))
	}
}

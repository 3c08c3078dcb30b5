package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeLogin logs in through a program, or reports which program is missing.
const fakeLogin = `#!/bin/sh
if [ "$*" = "-o metadata" ]; then cat <<'END'
<resource-agent><parameters>
 <parameter name="ip" required="1"><getopt mixed="-a"/></parameter> <parameter name="ipport" required="0"><getopt mixed="-u"/></parameter>
 <parameter name="ssl" required="0"><getopt mixed="-z"/></parameter> <parameter name="secret_door" required="1"><getopt mixed="-q"/></parameter>
</parameters><actions><action name="status"/></actions></resource-agent>
END
exit 0; fi
input=$(cat); port=$(echo "$input" | sed -n 's/^ipport=//p')
echo "$input" | grep -q '^secret_door=1$' || exit 9
WAY
`

func TestAgentsThatCannotRunAreNamed(t *testing.T) {
	dir := t.TempDir()
	const connect = `exec python3 -c "import socket,sys; socket.create_connection(('127.0.0.1', $port))"`
	for name, way := range map[string]string{
		"fence_works": connect, "fence_lacks": `echo "ModuleNotFoundError: No module named 'cloud'" >&2; exit 1`,
		"fence_silent": "exit 1", "fence_half": `echo "$input" | grep -q ssl=1 && { echo "tls: command not found" >&2; exit 1; }` + "\n" + connect,
		"fence_nossh": `echo "ERROR: Unable to connect/login to fencing device" >&2; exit 1`,
	} {
		put(t, filepath.Join(dir, name), strings.Replace(fakeLogin, "WAY", way, 1))
	}
	put(t, filepath.Join(dir, "fence_broken"), "#!/bin/sh\nexit 1\n")
	var out, diag bytes.Buffer
	code := run(t.Context(), []string{"try", "--agents", dir}, &out, &diag)
	if got := strings.Fields(out.String()); code != 0 || !slices.Equal(got, []string{"fence_broken", "fence_lacks", "fence_nossh"}) {
		t.Errorf("%d %v\n%s", code, got, diag.String())
	}
	// If none of the agents works, the fault lies with this machine.
	out.Reset()
	if code := run(t.Context(), []string{"try", "--agents", dir, "--only", "fence_lacks,fence_nossh"}, &out, &diag); code != 1 || out.Len() > 0 {
		t.Errorf("%d %s", code, out.String())
	}
}

// unable lists the options with which an agent of Debian reaches its device nowhere. The image has the agent for its
// other options.
var unable = map[string]string{
	"fence_apc secure": "its ssh_options are -1 -c blowfish by default, which OpenSSH has not had since 7.6: give ssh_options",
}

// perTransport has one agent for each way to a device: telnet and ssh, SNMP, IPMI, HTTP and TLS.
var perTransport = []string{"fence_apc", "fence_brocade", "fence_apc_snmp", "fence_ipmilan", "fence_cisco_ucs", "fence_redfish"}

// TestRealAgents lets each of Debian's agents run an action as a Job does, with the account that the image's Dockerfile
// creates. A server answers the agent. FENCING_EXECUTOR_ROOT is the root of the image (deploy/executor/root.sh), in
// which no agent may fail because something is missing. Without it, one agent per transport of this machine is run.
func TestRealAgents(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for another account and a network of its own")
	}
	root, args := os.Getenv("FENCING_EXECUTOR_ROOT"), []string{"try"}
	if root == "" {
		for _, name := range perTransport {
			if _, err := os.Stat("/usr/sbin/" + name); err != nil {
				t.Skip("needs fence-agents: apt-get install --no-install-recommends fence-agents ipmitool snmp openssh-client telnet gnutls-bin")
			}
		}
		args = append(args, "--only", strings.Join(perTransport, ","))
	}
	for _, name := range []string{"unshare", "ip", "setpriv"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("needs " + name)
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "fencing-executor")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	account, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "passwd"), string(account)+line(t)+"\n")
	script := `ip link set lo up; d=$1; shift; mount --bind "$d/passwd" /etc/passwd; exec setpriv --reuid 65532 --regid 65532 --clear-groups env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$d/fencing-executor" "$@"`
	if root != "" {
		script = `ip link set lo up; shift; r=` + root + `; mount -t devpts -o newinstance,ptmxmode=0666 devpts $r/dev/pts; mount --bind $r/dev/pts/ptmx $r/dev/ptmx; mount -t proc proc $r/proc
exec chroot --userspec=65532:65532 $r env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin fencing-executor "$@"`
	}
	c := exec.CommandContext(t.Context(), "unshare", append([]string{"--net", "--mount", "sh", "-ec", script, "sh", dir}, args...)...)
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) || diag.Len() == 0 {
		t.Fatalf("%v\n%s", err, diag.String())
	}
	t.Logf("\n%s", diag.String())
	if out.Len() > 0 {
		t.Errorf("these end for want of something: %s", out.String())
	}
	for text := range strings.Lines(diag.String()) {
		if way, why, bad := strings.Cut(text, ": cannot run: "); bad && unable[way] == "" {
			t.Errorf("%s: %s", way, why)
		}
	}
	for _, name := range perTransport {
		if strings.Count(diag.String(), name+" ") == 0 {
			t.Errorf("%s was not run", name)
		}
	}
}

// line returns the account that the Dockerfile creates.
func line(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/executor/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, after, there := strings.Cut(string(text), "echo 'fencing:x:65532:65532:")
	rest, _, ended := strings.Cut(after, "'")
	if !there || !ended {
		t.Fatal("the Dockerfile makes no account 65532")
	}
	return "fencing:x:65532:65532:" + rest
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// deniedEnv holds the configuration of an agent that may not pin sockets.
const deniedEnv = "FENCING_TEST_AGENT_WITHOUT_PINNING"

// TestMain also runs that agent. It runs in a separate network namespace with the cards a and b, and in a sandbox.
// There the kernel answers like one before Linux 5.7 to a process without CAP_NET_RAW.
func TestMain(m *testing.M) {
	config := os.Getenv(deniedEnv)
	if config == "" {
		os.Exit(m.Run())
	}
	for _, step := range []func() error{
		func() error { return addCard("a", "10.7.0.1/24") },
		func() error { return addCard("b", "10.8.0.1/24") },
		denyPinning,
	} {
		if err := step(); err != nil {
			fmt.Fprintln(os.Stderr, "skip:", err)
			os.Exit(0)
		}
	}
	os.Exit(run([]string{"--config", config, "--log-format", "json"}, os.Stdout, os.Stderr))
}

func addCard(name, address string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "-far"}); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	for _, end := range []string{name, name + "-far"} {
		link, err := netlink.LinkByName(end)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, addr)
}

// denyPinning makes setsockopt(SO_BINDTODEVICE) fail with EPERM in all threads, for good.
func denyPinning() error {
	const (
		nr, level, option = 0, 16 + 8, 16 + 16 // offsets in struct seccomp_data, little endian
		load              = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal             = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret               = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: nr}, {Code: equal, Jf: 5, K: unix.SYS_SETSOCKOPT},
		{Code: load, K: level}, {Code: equal, Jf: 3, K: unix.SOL_SOCKET},
		{Code: load, K: option}, {Code: equal, Jf: 1, K: unix.SO_BINDTODEVICE},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// runDenied runs the agent on networks a and b with this setting of bindToDevice until it ends. If it runs, it is asked
// to end. It returns the lines of stderr and the exit code.
func runDenied(t *testing.T, bindToDevice string) (lines []string, code int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fp") // short, because of the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "n1.yaml")
	text := fmt.Sprintf(`
nodeName: n1
nodeGroup: worker
members:
  static: [{name: n1, addresses: {mgmt: 10.7.0.1, data: 10.8.0.1}}]
  cacheFile: %[2]s/members.json
systemNetworks:
  - {name: mgmt, at: a, bindToDevice: %[1]s}
  - {name: data, at: 10.8.0.0/16, bindToDevice: %[1]s}
watchdog: {driver: none, disableFile: %[2]s/disable}
api: {socket: %[2]s/n1.sock}
http: {address: ""}
`, bindToDevice, dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), deniedEnv+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the parent-death signal is tied to this thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Skipf("needs a network namespace: %v", err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	for in := bufio.NewScanner(out); in.Scan(); {
		if why, ok := strings.CutPrefix(in.Text(), "skip: "); ok {
			_ = cmd.Wait()
			t.Skip(why)
		}
		lines = append(lines, in.Text())
		if strings.Contains(in.Text(), "agent started") {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	_ = cmd.Wait()
	return lines, cmd.ProcessState.ExitCode()
}

func TestPinningIsRefusedInOneLine(t *testing.T) {
	lines, code := runDenied(t, "true")
	const want = "fencing-agent: network mgmt: bind sockets to device a: operation not permitted: " +
		"give the process CAP_NET_RAW or set bindToDevice: auto"
	if text := strings.Join(lines, "\n"); code != 1 || !strings.HasSuffix(text, want) || strings.Count(text, "not permitted") != 1 {
		t.Errorf("exit code %d\nstderr %s\nwant   %s", code, text, want)
	}
}

func TestUnpinnedNetworksAreToldOfOnce(t *testing.T) {
	for setting, want := range map[string]int{"auto": 1, "false": 0} {
		lines, code := runDenied(t, setting)
		told := 0
		for _, line := range lines {
			var entry struct {
				Level, Msg string
				Networks   any
			}
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Errorf("not a log line: %s", line)
			}
			if strings.Contains(entry.Msg, "routing may let one network answer for another") {
				told++
				if entry.Level != "WARN" || fmt.Sprint(entry.Networks) != "[mgmt data]" {
					t.Errorf("told by %s", line)
				}
			}
		}
		if code != 0 || told != want {
			t.Errorf("%s: exit code %d, told %d times, want %d\n%s", setting, code, told, want, strings.Join(lines, "\n"))
		}
	}
}

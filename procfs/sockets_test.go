package procfs

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBinds(t *testing.T) {
	proc := t.TempDir()
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	put(t, filepath.Join(proc, "net/udp"), head+"   1: 0100000A:1F0A 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0\n")
	put(t, filepath.Join(proc, "net/tcp"), head+"   0: 0100007F:2396 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1\n"+
		"   1: 0100007F:2397 0100007F:1F0A 01 00000000:00000000 00:00000000 00000000     0        0 4713 1\n")
	put(t, filepath.Join(proc, "net/tcp6"), head+"   0: 00000000000000000000000000000000:1F0B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1\n")
	put(t, filepath.Join(proc, "77/comm"), "speaker\n")
	if err := os.Mkdir(filepath.Join(proc, "77/fd"), 0o700); err != nil {
		t.Fatal(err)
	}
	for fd, to := range map[string]string{"1": "/dev/null", "5": "socket:[4711]", "6": "socket:[4714]"} {
		if err := os.Symlink(to, filepath.Join(proc, "77/fd", fd)); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[string]string{
		"10.0.0.1:7946":  "speaker (process 77)",
		"10.0.0.2:7946":  "",
		"0.0.0.0:7946":   "speaker (process 77)",
		"127.0.0.1:9110": "a process that is not visible from here",
		"127.0.0.1:9111": "", // a connection does not prevent listening
		"10.0.0.1:7947":  "speaker (process 77)",
		"[fd00::1]:7947": "speaker (process 77)",
		"[fd00::1]:7946": "",
	} {
		who, ok := Binds(proc, netip.MustParseAddrPort(at))
		got := ""
		if ok {
			got = who.String()
		}
		if got != want {
			t.Errorf("%s is bound by %q, want %q", at, got, want)
		}
	}
}

// The real kernel: this test listens, by either protocol and family.
func TestBindsRealKernel(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log(err) // no IPv6 on this machine
			continue
		}
		defer l.Close()
		at := netip.MustParseAddrPort(l.Addr().String())
		if who, ok := Binds("/proc", at); !ok || who.PID != os.Getpid() {
			t.Errorf("%s is bound by %v, %v", at, who, ok)
		}
		if who, ok := Binds("/proc", netip.AddrPortFrom(at.Addr(), at.Port()^1)); ok && who.PID == os.Getpid() {
			t.Errorf("the port beside it is bound by %v", who)
		}
	}
}

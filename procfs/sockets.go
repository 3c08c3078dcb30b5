package procfs

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process identifies a process by its number and the name of its program.
type Process struct {
	PID  int // 0: the process is not visible from here
	Name string
}

// String names the process in a message.
func (p Process) String() string {
	if p.PID == 0 {
		return "a process that is not visible from here"
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// tcpListen is the state of a TCP socket that listens, as /proc/net/tcp writes it.
const tcpListen = "0A"

// Binds finds the process that prevents others from binding an address and port, by UDP or TCP, because it has a socket
// at that address, or at all addresses. root is where /proc is mounted; ok is false if there is no such process. An
// unspecified address means all addresses.
func Binds(root string, at netip.AddrPort) (who Process, ok bool) {
	var inodes []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(filepath.Join(root, "net", table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || strings.HasPrefix(table, "tcp") && f[3] != tcpListen {
				continue
			}
			local, err := parseSocket(f[1])
			if err == nil && local.Port() == at.Port() && meet(local.Addr(), at.Addr()) {
				inodes, ok = append(inodes, f[9]), true
			}
		}
	}
	if !ok {
		return who, false
	}
	return holder(root, inodes), true
}

// meet reports whether sockets at the two addresses exclude each other.
func meet(a, b netip.Addr) bool {
	return a == b || b.IsUnspecified() || a.IsUnspecified() && (a.Is6() || b.Is4())
}

// parseSocket reads an address of /proc/net: words of four bytes in the byte order of the machine, which is
// little-endian.
func parseSocket(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("socket %q is not understood", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
}

// holder returns the process that has one of the sockets.
func holder(root string, inodes []string) Process {
	processes, _ := os.ReadDir(root)
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		folder := filepath.Join(root, p.Name(), "fd")
		descriptors, _ := os.ReadDir(folder) // the process has ended, or access is denied
		for _, fd := range descriptors {
			to, _ := os.Readlink(filepath.Join(folder, fd.Name()))
			if inode, ok := strings.CutPrefix(to, "socket:["); ok && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
				comm, _ := os.ReadFile(filepath.Join(root, p.Name(), "comm"))
				return Process{pid, strings.TrimSpace(string(comm))}
			}
		}
	}
	return Process{}
}

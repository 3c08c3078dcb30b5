package script

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// directIO reports whether files here can be used as LUNs.
var directIO = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "fencing-directio-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "file")
	if os.WriteFile(path, make([]byte, diskquorum.BlockSize), 0o600) != nil {
		return false
	}
	dev, err := rawdev.Open(path, rawdev.Options{})
	if err != nil {
		return false
	}
	_, err = dev.WriteAt(make([]byte, diskquorum.BlockSize), 0)
	return err == nil && dev.Close() == nil
})

// sum returns a checksum of the file at a path: its kind, permissions and content, or its absence.
func sum(path string) ([32]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return sha256.Sum256([]byte(err.Error())), nil
	}
	what := []byte(info.Mode().String())
	if info.Mode().IsRegular() {
		content, err := os.ReadFile(path)
		if err != nil {
			return [32]byte{}, err
		}
		what = append(what, content...)
	}
	if info.Mode().Type() == fs.ModeSocket {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return [32]byte{}, err
		}
		what = append(what, strconv.FormatUint(st.Ino, 10)...)
	}
	return sha256.Sum256(what), nil
}

// cmdRemember is "remember FILE...": it stores a checksum of each file for unchanged.
func cmdRemember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: remember FILE...")
	}
	s := stateOf(ts)
	if s.sums == nil {
		s.sums = map[string][32]byte{}
	}
	for _, file := range args {
		v, err := sum(ts.MkAbs(file))
		ts.Check(err)
		s.sums[file] = v
	}
}

// cmdUnchanged is "[!] unchanged": all files that remember noted are unchanged (or at least one has changed).
func cmdUnchanged(ts *testscript.TestScript, neg bool, args []string) {
	s := stateOf(ts)
	if len(args) != 0 || len(s.sums) == 0 {
		ts.Fatalf("usage: remember FILE... and later [!] unchanged")
	}
	same := true
	for file, before := range s.sums {
		now, err := sum(ts.MkAbs(file))
		ts.Check(err)
		if now != before {
			same = false
			if !neg {
				ts.Fatalf("%s was changed", file)
			}
		}
	}
	if neg && same {
		ts.Fatalf("nothing was changed")
	}
}

// cmdPut is "put FILE OFFSET TEXT": it writes into an existing file.
func cmdPut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: put FILE OFFSET TEXT")
	}
	offset, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt([]byte(args[2]), offset)
	ts.Check(err)
	ts.Check(f.Close())
}

// cmdTruncate is "truncate FILE BYTES": it cuts or extends a file, and creates it if necessary.
func cmdTruncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	size, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_CREATE, 0o644)
	ts.Check(err)
	ts.Check(f.Truncate(size))
	ts.Check(f.Close())
}

// cmdOccupy is "occupy udp|tcp ADDRESS": it holds a port until the script ends.
func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: occupy udp|tcp ADDRESS")
	}
	var config net.ListenConfig
	var closer interface{ Close() error }
	var err error
	switch args[0] {
	case "udp":
		closer, err = config.ListenPacket(context.Background(), "udp", args[1])
	case "tcp":
		closer, err = config.Listen(context.Background(), "tcp", args[1])
	default:
		err = fmt.Errorf("network %q", args[0])
	}
	ts.Check(err)
	s := stateOf(ts)
	s.closed = append(s.closed, func() { _ = closer.Close() })
	s.occupied[args[1]] = closer.Close
}

// cmdRelease is "release ADDRESS": it gives up a port that was occupied.
func cmdRelease(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || stateOf(ts).occupied[args[0]] == nil {
		ts.Fatalf("usage: release ADDRESS, which was occupied")
	}
	ts.Check(stateOf(ts).occupied[args[0]]())
}

// canMknod reports whether device nodes can be created here, by creating and removing one.
func canMknod() bool {
	dir, err := os.MkdirTemp("", "fencing-mknod-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return unix.Mknod(filepath.Join(dir, "node"), unix.S_IFCHR|0o600, int(unix.Mkdev(10, 130))) == nil
}

// cmdNode is "node FILE MAJOR MINOR": it creates a character device.
func cmdNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: node FILE MAJOR MINOR")
	}
	major, err := strconv.ParseUint(args[1], 10, 32)
	ts.Check(err)
	minor, err := strconv.ParseUint(args[2], 10, 32)
	ts.Check(err)
	ts.Check(unix.Mknod(ts.MkAbs(args[0]), unix.S_IFCHR|0o600, int(unix.Mkdev(uint32(major), uint32(minor)))))
}

// cmdStaleSocket is "staleat PATH": it leaves a socket behind, like a killed process.
func cmdStaleSocket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: staleat PATH")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: ts.MkAbs(args[0]), Net: "unix"})
	ts.Check(err)
	l.SetUnlinkOnClose(false)
	ts.Check(l.Close())
}

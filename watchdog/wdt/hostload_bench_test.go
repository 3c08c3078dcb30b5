package wdt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// loadChild makes this test binary load the host in the way that it names, until its standard input is closed.
const loadChild = "WDT_LOAD_CHILD"

const (
	hogBytes  = 256 << 20 // what a child that loads memory touches again and again, of
	hogLimit  = 64 << 20  // what all processes in the group of the benchmark may have
	hogsAtAll = 4
)

// TestLoadChild is no test of its own.
func TestLoadChild(t *testing.T) {
	load := map[string]func(file *os.File) error{"pages": readPages, "writes": writeSynced}[os.Getenv(loadChild)]
	if load == nil {
		return
	}
	file, err := os.Create(filepath.Join(os.Getenv(loadChild+"_DIR"), strconv.Itoa(os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	var gone sync.WaitGroup
	gone.Go(func() {
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		os.Exit(0)
	})
	if err := load(file); err != nil {
		t.Fatal(err)
	}
	gone.Wait()
}

// readPages reads a file that is larger than the memory that its group may have: every page that it takes is taken from
// another process, and there is no swap.
func readPages(file *os.File) error {
	if err := file.Truncate(hogBytes); err != nil {
		return err
	}
	m, err := unix.Mmap(int(file.Fd()), 0, hogBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for n := byte(0); ; n++ {
		for i := 0; i < len(m); i += 4096 {
			m[i] = n
		}
	}
}

// writeSynced keeps the disk busy.
func writeSynced(file *os.File) error {
	block := make([]byte, 4<<20)
	_, _ = rand.Read(block) // never fails
	for i := int64(0); ; i++ {
		if _, err := file.WriteAt(block, i%32*int64(len(block))); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
}

func loaded(b *testing.B, what string, children int) {
	b.Helper()
	dir := b.TempDir()
	for range children {
		cmd := exec.Command(os.Args[0], "-test.run=^(TestLoadChild|TestBurnChild)$")
		cmd.Env = append(os.Environ(), loadChild+"="+what, loadChild+"_DIR="+dir, "GOMAXPROCS=2")
		if what == "turns" {
			cmd.Env = append(cmd.Env, burnChild+"=1")
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = in.Close() // ends the child
			_ = cmd.Wait() // which has nothing to say
		})
	}
}

// confine puts this process, and the children that it starts, into a memory cgroup of its own with little memory.
func confine(b *testing.B) {
	b.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		b.Fatal(err)
	}
	root, limit, before := "/sys/fs/cgroup", "memory.max", ""
	for line := range strings.Lines(string(own)) {
		switch part := strings.SplitN(strings.TrimSpace(line), ":", 3); {
		case part[1] == "memory":
			root, limit, before = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", part[2]
		case part[1] == "" && before == "":
			before = part[2]
		}
	}
	group := filepath.Join(root, fmt.Sprintf("fencing-agent-bench-%d", os.Getpid()))
	here := []byte(strconv.Itoa(os.Getpid()))
	if err := errors.Join(os.Mkdir(group, 0o755), os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(hogLimit)), 0o600),
		os.WriteFile(filepath.Join(group, "cgroup.procs"), here, 0o600)); err != nil {
		_ = os.Remove(group) // there may be none
		b.Skipf("no memory cgroup, which needs root: %v", err)
	}
	b.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(root, before, "cgroup.procs"), here, 0o600); err != nil {
			b.Error(err)
		}
		if err := os.Remove(group); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkHostLoad measures what a host takes off the time that a watchdog leaves: by how much feeds come late, and how
// long the goroutine that permits them, which is an ordinary one, stands still. One iteration is ten feeds.
func BenchmarkHostLoad(b *testing.B) {
	const interval = 20 * time.Millisecond
	for _, load := range []struct {
		name  string
		begin func(*testing.B)
	}{
		{"idle", func(*testing.B) {}},
		{"many-runnable", func(b *testing.B) { loaded(b, "turns", 32*runtime.NumCPU()) }},
		{"disk", func(b *testing.B) { loaded(b, "writes", hogsAtAll) }},
		{"memory", func(b *testing.B) { confine(b); loaded(b, "pages", hogsAtAll) }},
	} {
		b.Run(load.name, func(b *testing.B) {
			load.begin(b)
			dev := &notebook{at: make([]boottime.Instant, 20*b.N+100)}
			f, err := NewFeeder(Config{Device: dev, Clock: boottime.Now, Timeout: time.Minute, FeedInterval: interval, Realtime: true})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = f.Run(ctx) }) // leaves the notebook armed, which says so
			f.Arm()
			var stood []time.Duration
			for last := boottime.Now(); dev.n.Load() < int64(10*b.N); {
				f.Grant(last.Add(10 * time.Second))
				<-time.After(interval)
				now := boottime.Now()
				stood, last = append(stood, now.Sub(last)-interval), now
			}
			cancel()
			running.Wait()
			var late []time.Duration
			for i, at := range dev.at[1:dev.n.Load()] {
				late = append(late, at.Sub(dev.at[i])-interval)
			}
			distribution(b, "feed-late", late)
			distribution(b, "loop-late", stood)
		})
	}
}

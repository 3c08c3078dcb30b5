package netns

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var hung = flag.Duration("hung", 30*time.Second, "how long the LUN hangs while the agents' networks work")

const (
	fiFreeze = 0xC0045877 // FIFREEZE and FITHAW of linux/fs.h, which x/sys/unix does not have
	fiThaw   = 0xC0045878
)

// disk is a small file system of the test, on a loop device, with the LUN's file on it. If it is frozen, writes to the
// LUN hang in the kernel; if it is full, they are refused.
type disk struct {
	t     *testing.T
	mount string
	file  string
}

func newDisk(t *testing.T, dir string) *disk {
	t.Helper()
	image, err := lab.NewLUNFile(dir, 48<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { image.Close() })
	loop, err := lab.LoopDevices(image.Path, 1, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loop.Close() })
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", loop.Paths[0]).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	d := &disk{t: t, mount: filepath.Join(dir, "mnt")}
	d.file = filepath.Join(d.mount, "lun.img")
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(loop.Paths[0], d.mount, "ext4", 0, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.mount, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", d.mount, err)
		}
	})
	if err := errors.Join(os.WriteFile(d.file, nil, 0o600), os.Truncate(d.file, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return d
}

// freeze makes all writes to the disk hang until the returned function is called. The end of the test calls it in any
// case, and another process does so if this one is killed.
func (d *disk) freeze() (thaw func()) {
	d.t.Helper()
	f, err := os.Open(d.mount)
	if err != nil {
		d.t.Fatal(err)
	}
	guard := exec.Command("sh", "-c", fmt.Sprintf("sleep %d; fsfreeze --unfreeze '%s'", int((*hung+10*time.Minute).Seconds()), d.mount))
	if err := guard.Start(); err != nil {
		d.t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		d.t.Fatalf("freeze: %v", err)
	}
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			if err := unix.IoctlSetInt(int(f.Fd()), fiThaw, 0); err != nil {
				d.t.Errorf("thaw: %v", err)
			}
			_ = f.Close()
			_ = guard.Process.Kill()
			_ = guard.Wait() // it is killed
		}
	}
	d.t.Cleanup(thaw)
	return thaw
}

// clusterOn returns a cluster whose nodes use the file through separate loop devices.
func (d *disk) clusterOn(dir string, size, sector int) *cluster {
	d.t.Helper()
	loops, err := lab.LoopDevices(d.file, size, sector)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { loops.Close() })
	initLUN(d.t, loops.Paths[0], size)
	device := map[string]string{}
	for i, node := range nodeNames(size) {
		device[node] = loops.Paths[i]
	}
	c := newClusterIn(d.t, dir, size, lab.AgentConfig{LUN: func(node string) string { return device[node] }})
	c.lun = loops.Paths[0]
	return c
}

// lunLost holds when the agents report that they cannot use the LUN.
func lunLost(nodes ...string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			for _, l := range v.Status[node].GetLuns() {
				if l.GetHealthy() {
					return node + ": the LUN is healthy"
				}
			}
		}
		return ""
	}
}

// footprint is what an agent uses.
type footprint struct{ threads, rss, goroutines int }

var (
	statusLine    = regexp.MustCompile(`(?m)^(Threads|VmRSS):\s+(\d+)`)
	goroutineLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
)

func (c *cluster) footprint(node string) (f footprint) {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process(node).PID()))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range statusLine.FindAllStringSubmatch(string(b), -1) {
		n, _ := strconv.Atoi(m[2]) // the pattern allows only digits
		if m[1] == "Threads" {
			f.threads = n
		} else {
			f.rss = n
		}
	}
	if m := goroutineLine.FindStringSubmatch(c.metrics(node)); m != nil {
		f.goroutines, _ = strconv.Atoi(m[1])
	}
	return f
}

func (c *cluster) metrics(node string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	client := c.Lab().HTTPClient(node)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9110/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// TestHungLUN: all writes to the LUN hang for a long time and cannot be interrupted. No node loses the quorum that the
// network provides, no footprint grows, and all is well again by itself.
func TestHungLUN(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		t.Run(strconv.Itoa(sector), func(t *testing.T) {
			need(t)
			dir := newDir(t)
			d := newDisk(t, dir)
			c := d.clusterOn(dir, 4, sector)
			// This precedes the removal of the loop devices and the disk.
			t.Cleanup(func() { c.Lab().Close() })
			c.startAll()
			before := map[string]footprint{}
			for _, node := range c.nodes {
				before[node] = c.footprint(node)
			}
			began := time.Now()
			thaw := d.freeze()
			_, took := c.await(startLimit, "the LUN is lost", lunLost(c.nodes...))
			c.hold(*hung, "the LUN hangs", observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...), observe.Steady(began, c.nodes...))
			for _, node := range c.nodes {
				after, was := c.footprint(node), before[node]
				if after.goroutines > was.goroutines+10 || after.threads > was.threads+10 || after.rss > was.rss+16<<10 {
					t.Errorf("%s grew from %+v to %+v (threads, kB, goroutines)", node, was, after)
				}
				t.Logf("%s: %+v, then %+v (threads, kB, goroutines)", node, was, after)
			}
			thaw()
			_, back := c.await(startLimit, "the LUN is back", observe.LUNReady(c.nodes...), c.everybody())
			t.Logf("sectors of %d: lost after %v, hung for %v, back after %v", sector, took.Round(time.Millisecond), *hung, back.Round(time.Millisecond))
		})
	}
}

// TestLUNThatRefusesWrites: every write fails at once, here because the disk is full. The agents live by the network,
// and claim their slots when there is space.
func TestLUNThatRefusesWrites(t *testing.T) {
	need(t)
	dir := newDir(t)
	d := newDisk(t, dir)
	c := d.clusterOn(dir, 3, 512)
	t.Cleanup(func() { c.Lab().Close() })
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Slots that were never written take no space, and must find some.
	if err := errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8192, 1<<20-8192), f.Close()); err != nil {
		t.Fatal(err)
	}
	full := d.fill()
	for _, node := range c.nodes {
		if err := c.Start(node); err != nil {
			t.Fatal(err)
		}
	}
	c.await(startLimit, "all up without LUN", c.everybody(), lunLost(c.nodes...))
	c.hold(10*time.Second, "writes fail", c.everybody(), lunLost(c.nodes...))
	for _, node := range c.nodes {
		if m := c.metrics(node); !strings.Contains(m, `fencing_agent_lun_io_errors_total{device=`) {
			t.Errorf("%s does not count errors of the LUN", node)
		}
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	_, back := c.await(startLimit, "slots claimed", observe.LUNReady(c.nodes...))
	t.Logf("ready %v after there was space", back.Round(time.Millisecond))
}

// fill leaves no space on the disk.
func (d *disk) fill() string {
	d.t.Helper()
	path := filepath.Join(d.mount, "full")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) >= 512; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, unix.ENOSPC) {
			d.t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		d.t.Fatal(err)
	}
	return path
}

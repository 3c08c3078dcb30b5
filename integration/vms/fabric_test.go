package vms

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

// These tests run the program of fencing-controller's Jobs, with Debian's fence_scsi, against the LUN of the lab. The
// controller relies on what this program reports.

const (
	fabricRoot     = control.DiskMount + "/root"
	fabricDiskSize = 320 // MB
	fabricMemory   = 384 // MB of memory of a node
	// slowWrites is the write limit of the storage's disk in bytes a second: one of the victim's four writes takes two
	// seconds.
	slowWrites = 2048
	lateWatch  = 12 * time.Second
)

// fabricPackages contain fence_scsi and the programs that it runs, of Debian 12. fence-agents does not contain the
// libraries that these need.
var fabricPackages = []string{
	"python3-minimal", "python3.11-minimal", "python3-pexpect", "python3-ptyprocess", "python3-pycurl", "sg3-utils", "fence-agents",
}

// TestFabric fences a node off its LUN and takes it back: once with storage that answers at once, and once with storage
// that has accepted writes but not yet carried them out.
func TestFabric(t *testing.T) {
	need(t)
	s := &story{t: t, name: "fabric", began: time.Now(), stalls: observe.NewStalls()}
	defer s.stalls.Close()
	c := &contender{name: "fence_scsi", packages: fabricPackages}
	if _, err := c.fetch(t.Context(), s.logf); err != nil {
		t.Fatal(err)
	}
	l, err := newLab(t, fabricCrew(c.tree))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(t)
	s.begin(l)
	for _, node := range s.nodes {
		s.hasDisk(node)
		s.run(node, "cd "+fabricRoot+" && for d in dev proc sys run; do mkdir -p $d && busybox mount --bind /$d $d; done")
		s.unfence(node)
	}
	for _, slow := range []bool{false, true} {
		s.fenceOff(slow)
	}
}

// fabricCrew contains two nodes that run no agent of this project.
func fabricCrew(tree string) crew {
	return crew{
		nodes: nodesNamed(2), megabytes: fabricMemory, diskSize: fabricDiskSize,
		disk: func(root string) error { return fabricDisk(tree, filepath.Join(root, "root")) },
		node: func(i int) (image.Machine, error) {
			m := nodeMachine(i)
			m.Modules = append(m.Modules, named("sg")...)
			return m, nil
		},
	}
}

// fabricDisk makes a root file system of the packages, in which the executor runs as it does in its image.
func fabricDisk(tree, root string) error {
	for _, dir := range []string{"lib", "lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/python3", "usr/lib/python3.11", "usr/share/fence"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join(tree, dir))); err != nil {
			return err
		}
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "var", "etc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	programs := map[string]string{"usr/bin/fencing-executor": filepath.Join(built.programs, "fencing-executor")}
	for _, name := range []string{"usr/bin/python3.11", "usr/bin/sg_persist", "usr/bin/sg_turs", "usr/bin/sg_reset", "usr/sbin/fence_scsi"} {
		programs[name] = filepath.Join(tree, name)
	}
	for at, from := range programs {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, at), content, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/writer"), []byte(fabricWriter), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/watcher"), []byte(fabricWatcher), 0o755); err != nil {
		return err
	}
	return os.Symlink("python3.11", filepath.Join(root, "usr/bin/python3"))
}

// fabricWriter writes numbered blocks without a pause, four at a time, past all caches. It prints when writing begins
// to work and when it begins to fail.
const fabricWriter = `#!/usr/bin/python3
import mmap, os, time
def write(block):
    fd, n, was = os.open("/dev/sda", os.O_WRONLY | os.O_DIRECT), int(time.time() * 1000) * 1000, None
    buf = mmap.mmap(-1, 4096)
    while True:
        n += 1
        buf[:8] = n.to_bytes(8, "big")
        try:
            os.pwrite(fd, buf, block * 4096)
            now = "ok"
        except OSError as e:
            now = "errno %d" % e.errno
            time.sleep(0.02)
        if now != was:
            print(block, now, "%.3f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
            was = now
for block in range(100, 104):
    if os.fork() == 0:
        write(block)
os.wait()
`

// fabricWatcher prints when a block of the writer changes.
const fabricWatcher = `#!/usr/bin/python3
import mmap, os, time
fd, buf, was = os.open("/dev/sda", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4 * 4096), {}
while True:
    os.preadv(fd, [buf], 100 * 4096)
    for i in range(4):
        n = buf[i*4096:i*4096+8]
        if was.get(i) != n:
            print(100 + i, "%.3f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
            was[i] = n
    time.sleep(0.01)
`

// word is what the executor prints.
type word struct {
	OK, Barrier     bool
	Status, Message string
}

// execute runs the executor for a method, as a Job does.
func (s *story) execute(on, method, template string) (w word, before, after float64) {
	s.t.Helper()
	dir := "/tmp/" + strconv.FormatInt(time.Now().UnixNano(), 36)
	script := fmt.Sprintf(`mkdir -p %[1]s/method %[1]s/template
printf '%%s' '%[2]s' > %[1]s/method/method.properties
printf '%%s' '%[3]s' > %[1]s/template/template.properties
cat /proc/uptime
PATH=/usr/sbin:/usr/bin:/sbin:/bin busybox chroot %[4]s /usr/bin/fencing-executor run --dir %[5]s --not-after 2099-01-01T00:00:00Z 2>&1
cat /proc/uptime
`, fabricRoot+dir, method, template, fabricRoot, dir)
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := s.machines[on].Run(ctx, script)
	s.must(err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || json.Unmarshal([]byte(lines[1]), &w) != nil {
		s.t.Fatalf("the executor on %s says %q", on, out)
	}
	// If there is no number, before is 0 and the check below fails.
	_, _ = fmt.Sscan(lines[0], &before)
	_, _ = fmt.Sscan(lines[2], &after)
	return w, before, after
}

func key(node string) string { return "10" + strings.TrimPrefix(node, "n") }

const scsiTemplate = `name=scsi
agent_name=fence_scsi
devices=/dev/sda
host_devices=yes
storage_driver=san.example
storage_barrier=`

// unfence registers a node's key, on the node itself.
func (s *story) unfence(node string) {
	s.t.Helper()
	w, _, _ := s.execute(node, "template=x\naction=on\nplug="+node+"\nkey="+key(node), scsiTemplate+"lun-reset")
	if !w.OK {
		s.t.Fatalf("on, on %s: %+v", node, w)
	}
	s.logf("%s: on", node)
}

// program starts a program in the root of a node. Its output is in a file of its name.
func (s *story) program(node, name string) {
	s.t.Helper()
	s.run(node, fmt.Sprintf("busybox chroot %s /usr/bin/%s > /run/%s.log 2>&1 &", fabricRoot, name, name))
}

// said4 returns the output of a program, and the last state of each of the four blocks.
func (s *story) said4(node, name string) (text string, last map[string]string) {
	s.t.Helper()
	text, last = s.run(node, "cat /run/"+name+".log"), map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 {
			last[f[0]] = strings.Join(f[1:], " ")
		}
	}
	return text, last
}

// allSay waits until all four blocks of the writer are in a given state.
func (s *story) allSay(node, state string) {
	s.t.Helper()
	s.surely(time.Now().Add(time.Minute), node+": writes are "+state, func() string {
		text, last := s.said4(node, "writer")
		for _, block := range []string{"100", "101", "102", "103"} {
			if !strings.HasPrefix(last[block], state+" ") {
				return text
			}
		}
		return ""
	})
	s.logf("%s: writes are %s", node, state)
}

// fenceOff is the story of isolating n2 and taking it back.
func (s *story) fenceOff(slow bool) {
	const victim, winner = "n2", "n1"
	s.program(victim, "writer")
	s.allSay(victim, "ok")
	s.program(winner, "watcher")
	for _, barrier := range []string{"30", "lun-reset"} {
		if slow {
			s.must(s.machines[storage].SlowDisk(slowWrites))
			// In this time the queue of the target fills.
			<-time.After(10 * time.Second)
		}
		w, before, after := s.execute(winner, "template=x\naction=off\nplug="+victim+"\nkey="+key(victim), scsiTemplate+barrier)
		if !w.OK || w.Status != "off" || w.Barrier != (barrier == "lun-reset") {
			s.t.Fatalf("off: %+v", w)
		}
		<-time.After(lateWatch)
		late := s.late(winner, after)
		s.logf("slow %v, barrier %s: off took %.1f s; %d writes landed after it had ended, the last %.2f s", slow, barrier, after-before, len(late), lastOf(late))
		if barrier == "lun-reset" && len(late) > 0 {
			s.t.Errorf("writes landed after the barrier: %v", late)
		}
		s.allSay(victim, "errno 52")
		s.must(s.machines[storage].SlowDisk(0))
		if barrier != "lun-reset" {
			s.unfence(victim)
			s.allSay(victim, "ok")
		}
	}
	s.run(winner, "busybox killall python3 || true")
	s.reboot(victim)
	s.program(victim, "writer")
	s.allSay(victim, "errno 52")
	s.unfence(victim)
	s.allSay(victim, "ok")
}

// late returns the times, in seconds after a moment, at which a block changed.
func (s *story) late(node string, after float64) (out []float64) {
	text, _ := s.said4(node, "watcher")
	for line := range strings.Lines(text) {
		var block int
		var at float64
		if n, _ := fmt.Sscan(line, &block, &at); n == 2 && at > after {
			out = append(out, at-after)
		}
	}
	return out
}

func lastOf(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

// reboot resets a node and waits until it has its LUN again.
func (s *story) reboot(node string) {
	at := time.Now()
	go func() { _, _ = s.machines[node].Run(s.t.Context(), "echo b > /proc/sysrq-trigger") }() // it never answers
	s.eventually(at.Add(time.Minute), node+" is reset", func() string {
		if _, ok := s.resetAt(node, at); !ok {
			return "it was not reset"
		}
		return ""
	})
	s.hasDisk(node)
	s.run(node, "cd "+fabricRoot+" && for d in dev proc sys run; do busybox mount --bind /$d $d; done")
}

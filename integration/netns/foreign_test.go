package netns

import (
	"errors"
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var foreign = flag.Duration("foreign", 20*time.Second, "how long agents run on a LUN that another host has formatted")

// TestFormattedByAnotherHost: four agents run, and a fifth host makes a file system on the LUN. No agent writes to the
// LUN after that, the status says what is on it, and an agent that starts meanwhile starts without it.
func TestFormattedByAnotherHost(t *testing.T) {
	need(t)
	for _, program := range []string{"mkfs.ext4", "e2fsck"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: apt-get install e2fsprogs", err)
		}
	}
	const size = 4
	dir := newDir(t)
	file, err := lab.NewLUNFile(dir, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	loops, err := lab.LoopDevices(file.Path, size+1, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loops.Close() })
	other := loops.Paths[size]
	initLUN(t, other, size)
	device := map[string]string{}
	for i, node := range nodeNames(size) {
		device[node] = loops.Paths[i]
	}
	c := newClusterIn(t, dir, size, lab.AgentConfig{LUN: func(node string) string { return device[node] }})
	c.lun, c.loops = other, loops
	c.startAll()

	if out, err := exec.Command("mkfs.ext4", "-q", "-F", other).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	c.clean(other)
	c.await(startLimit, "the status says what stands there now", c.lunTrouble("the LUN is no longer ours: ", "ext2/3/4 file system"))
	if err := errors.Join(c.Kill(c.nodes[0]), c.Start(c.nodes[0])); err != nil {
		t.Fatal(err)
	}
	c.await(startLimit, "all feed, with one agent that started meanwhile", c.everybody())
	for end := time.Now().Add(*foreign); time.Now().Before(end); {
		c.clean(other)
		c.hold(time.Second, "all feed by their networks", observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...))
	}
	c.clean(other)
}

// clean checks that the file system on a device is intact.
func (c *cluster) clean(device string) {
	c.t.Helper()
	if out, err := exec.Command("e2fsck", "-fn", device).CombinedOutput(); err != nil {
		c.t.Fatalf("e2fsck -fn: %v\n%s", err, out)
	}
}

// lunTrouble holds when all nodes report a LUN with that trouble.
func (c *cluster) lunTrouble(wants ...string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range c.nodes {
			luns := v.Status[node].GetLuns()
			if len(luns) != 1 || luns[0].GetHealthy() {
				return node + " calls its LUN healthy, or reports none"
			}
			for _, want := range wants {
				if !strings.Contains(luns[0].GetError(), want) {
					return node + " says of its LUN: " + luns[0].GetError()
				}
			}
		}
		return ""
	}
}

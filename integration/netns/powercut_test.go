package netns

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

const (
	powerBackWithin = 15 * time.Second // from the start of all agents to their quorum, whichever parts are missing
	takenUpWithin   = 10 * time.Second // from the moment when a missing part appears
)

// TestPowerCutWithPartsMissing: after a power cut of all nodes, one of the two networks is dead, a virtual address is
// on every node, another program uses the metrics' port, an empty folder is in place of the socket, and no node has its
// watchdog. All agents start, report what they lack, and use each part when it appears (docs/adr/0071).
func TestPowerCutWithPartsMissing(t *testing.T) {
	t.Parallel()
	need(t)
	dir := newDir(t)
	const nodes = 4
	c := newClusterIn(t, dir, nodes, lab.AgentConfig{Override: map[string]any{
		"systemNetworks": []map[string]any{{"name": "mgmt", "at": "10.77.1.0/24"}, {"name": "data", "at": "10.77.2.0/24"}},
		"watchdog":       map[string]any{"driver": "device", "device": filepath.Join(dir, "watchdog"), "timeout": "10s"},
	}})
	var foreign []net.Listener
	for i, node := range c.nodes {
		c.must(c.Lab().RemoveInterface(node, "data"))
		c.must(c.addVirtual(node, "mgmt", fmt.Sprintf("10.77.1.%d/32", 100+i)))
		c.must(os.Mkdir(c.SocketPath(node), 0o755))
		c.must(c.Lab().Do(node, func() error {
			l, err := net.Listen("tcp", "127.0.0.1:9110")
			foreign = append(foreign, l)
			return err
		}))
	}
	// The doctor reports beforehand what will be missing. It does not report the socket, whose path the agent clears.
	if got, want := c.doctor(c.nodes[0]), []string{"address data", "http.address", "watchdog.device"}; !slices.Equal(got, want) {
		t.Errorf("fencectl doctor finds %q wrong, want %q", got, want)
	}
	for _, node := range c.nodes {
		c.must(c.Start(node))
	}
	v, took := c.await(powerBackWithin, "quorum with what there is",
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...), lacking(c.nodes, "http.address", "network data", "watchdog"))
	t.Logf("all %d have quorum %v after the start", nodes, took.Round(100*time.Millisecond))
	for i, node := range c.nodes {
		st := v.Status[node]
		if at := st.GetNetworks()[0].GetAddress(); at != c.Lab().Address(node, "mgmt").String() {
			t.Errorf("%s is at %s on mgmt, where 10.77.1.%d is a virtual address", node, at, 100+i)
		}
		if w := st.GetWatchdog(); w.GetArmed() {
			t.Errorf("%s says that its watchdog is armed", node)
		}
		log, err := os.ReadFile(c.Lab().LogPath(node))
		c.must(err)
		if n := strings.Count(string(log), "a part is missing"); n != 3 {
			t.Errorf("the log of %s says %d times that a part is missing, want 3", node, n)
		}
	}

	began := time.Now()
	for i, node := range c.nodes {
		c.must(foreign[i].Close())
		c.must(c.Lab().RestoreInterface(node, "data"))
	}
	c.await(takenUpWithin, "the agents use what has appeared", c.everybody(), lacking(c.nodes, "watchdog"))
	t.Logf("used %v after it appeared", time.Since(began).Round(100*time.Millisecond))
	for _, node := range c.nodes {
		resp, err := c.Lab().HTTPClient(node).Get("http://127.0.0.1:9110/metrics")
		c.must(err)
		text := make([]byte, 1<<20)
		n := 0
		for err == nil && n < len(text) {
			var k int
			k, err = resp.Body.Read(text[n:])
			n += k
		}
		_ = resp.Body.Close()
		for _, want := range []string{`fencing_agent_part_missing{part="watchdog"} 1`, `fencing_agent_part_missing{part="network data"} 0`} {
			if !strings.Contains(string(text[:n]), want) {
				t.Errorf("the metrics of %s do not say %s", node, want)
			}
		}
	}
}

// doctor returns the parts of a node's agent with which fencectl doctor finds a fault, sorted.
func (c *cluster) doctor(node string) (wrong []string) {
	c.t.Helper()
	var out []byte
	// A program that this thread starts is in the node's network namespace.
	c.must(c.Lab().Do(node, func() error {
		out, _ = exec.Command(filepath.Join(binaries, "fencectl"), "doctor", "--config", filepath.Join(c.Lab().Dir(), node+".yaml"), "-o", "json").Output()
		// Its exit code says that it has found a fault.
		return nil
	}))
	var findings []struct{ Level, Subject string }
	c.must(json.Unmarshal(out, &findings))
	for _, f := range findings {
		// The others are faults of this machine.
		if f.Level == "wrong" && f.Subject != "watchdog" && f.Subject != "systemd" {
			wrong = append(wrong, f.Subject)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// addVirtual gives another address to a node's interface, as kube-vip and keepalived do.
func (c *cluster) addVirtual(node, network, address string) error {
	p := netip.MustParsePrefix(address)
	return c.Lab().Links(node, func(h *netlink.Handle) error {
		link, err := h.LinkByName(network)
		if err != nil {
			return err
		}
		return h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}})
	})
}

// lacking holds when each of the nodes reports that it lacks these parts, and no others.
func lacking(nodes []string, parts ...string) observe.Condition {
	return func(v *observe.View) string {
		for _, node := range nodes {
			var got []string
			for _, m := range v.Status[node].GetMissing() {
				got = append(got, m.GetPart())
			}
			if !slices.Equal(got, parts) {
				return fmt.Sprintf("%s lacks %q, not %q", node, got, parts)
			}
		}
		return ""
	}
}

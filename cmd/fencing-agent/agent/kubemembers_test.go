package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/roster"
)

var groupLabel = map[string]string{"node.deckhouse.io/group": "test"}

// configureKube writes the file of a node whose list comes from the API server.
func (f *fleet) configureKube(names ...string) {
	f.t.Helper()
	for _, name := range names {
		text := fmt.Sprintf(`nodeName: %[1]s
nodeGroup: test
members: {source: kubernetes, cacheFile: %[2]s/%[1]s.json, checkInterval: 2s}
kubernetes: {kubeconfig: /none, labels: true}
quorum: {tieBreakers: []}
systemNetworks:
  - {name: a, address: 127.81.1.%[3]d, port: %[4]d}
  - {name: b, address: 127.81.2.%[3]d, port: %[4]d}
watchdog: {driver: none, timeout: 10s, feedInterval: 2s, disableFile: %[2]s/%[1]s.off}
api: {socket: %[2]s/%[1]s.sock}
http: {address: ""}
`, name, f.dir, f.hosts[name], f.port)
		if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// agree waits until the nodes count each other by one list of them, and returns its epoch.
func (f *fleet) agree(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.until(name, fmt.Sprintf("one of %d", len(names)), func(s *fencingv1.Status) bool {
			return int(s.Roster.GetSize()) == len(names) && int(s.Verdict.Tally.GetCounted()) == len(names) && s.Verdict.Quorum && s.Roster.Change == ""
		})
	}
}

// A group is founded from the Nodes of its label, with addresses that its agents write there
// themselves; a node joins, one leaves, by nothing but its Node. An API server that is away
// changes nothing, not even for an agent that is restarted.
func TestMembersFromTheAPIServer(t *testing.T) {
	f := newFleet(t)
	s := k8stest.New(t)
	f.kube = func() *client.Client { return s.Client(t, nil) }
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	f.configureKube(four...)
	for _, n := range three {
		s.Put(k8stest.Node(n, groupLabel, fmt.Sprintf("127.81.1.%d", f.hosts[n])))
	}
	s.Put(k8stest.Node("stranger", nil, "127.81.1.200"))
	f.start(three...)
	f.agree(three...)
	f.mark()
	if a := s.Get("n2").Annotations[roster.AddressAnnotation+"b"]; a != "127.81.2.2" {
		t.Errorf("n2 says of its address on network b: %q", a)
	}

	s.Put(k8stest.Node("n4", groupLabel, "127.81.1.4"))
	f.start("n4")
	f.agree(four...)
	f.calm(three...)
	f.mark()

	s.Refuse(true)
	f.stop("n4", nil)
	f.start("n4")
	f.agree(four...)
	s.Update("n1", func(n *corev1.Node) { n.Labels = nil })
	f.calm(three...)
	s.Refuse(false)
	f.agree("n2", "n3", "n4") // a list that shrinks is believed after a while
	f.calm("n2", "n3", "n4")
	f.until("n1", "told that it was removed", func(st *fencingv1.Status) bool { return st.Roster.GetChange() != "" || !st.Verdict.Quorum })
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(f.nodes["n1"].logged(), "this node was removed from the group") {
		if time.Now().After(deadline) {
			t.Fatal("n1 is not told that it was removed")
		}
		<-time.After(50 * time.Millisecond)
	}
	reasons := map[string]int{}
	for _, e := range s.Events() {
		reasons[e.InvolvedObject.Name+" "+e.Reason]++
	}
	if reasons["n2 WatchdogArmed"] != 1 || reasons["n2 QuorumLost"] != 0 || s.Get("n2").Labels["node-manager.deckhouse.io/fencing-mode"] != "Notify" {
		t.Errorf("events %v, labels of n2 %v", reasons, s.Get("n2").Labels)
	}
}

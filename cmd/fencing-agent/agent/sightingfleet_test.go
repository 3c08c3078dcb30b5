package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// The agents have loopback networks and a LUN. No network shows one of the nodes, but it writes its slot. The others
// report this on their own Nodes, and nowhere else, until it stops.
func TestAgentsSayWhoseSlotMoves(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	s := k8stest.New(t)
	f.kube = func() *client.Client { return s.Client(t, nil) }
	lun := filepath.Join(f.dir, "lun")
	if _, err := lunadmin.Init(t.Context(), lunadmin.InitOptions{Path: lun, Cluster: "default", NodeGroup: "test", Slots: 8, Create: true}); err != nil {
		t.Fatal(err)
	}
	three := []string{"n1", "n2", "n3"}
	for _, n := range three {
		s.Put(k8stest.Node(n, groupLabel, "127.0.0.1"))
		f.configure(n, 0, three...)
		text, err := os.ReadFile(f.path(n))
		if err != nil {
			t.Fatal(err)
		}
		more := string(text) + "kubernetes: {kubeconfig: /none}\nquorum: {tieBreak: lun}\nlun: {devices: [" + lun + "]}\n"
		if err := os.WriteFile(f.path(n), []byte(more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start(three...)
	f.await(0, three...)
	f.stop("n3", ErrAbandon)
	text, err := os.ReadFile(f.path("n3"))
	if err != nil {
		t.Fatal(err)
	}
	deaf := strings.ReplaceAll(string(text), fmt.Sprintf("port: %d", f.port), fmt.Sprintf("port: %d", f.port+1)) // no other node hears it, and it hears no other
	if err := os.WriteFile(f.path("n3"), []byte(deaf), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start("n3")
	says := func(n string) sightings.Sighting {
		text, there := s.Get(n).Annotations[sightings.Annotation]
		if !there {
			return sightings.Sighting{}
		}
		got, err := sightings.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		return *got
	}
	f.wait("both say that n3's slot moves", func() bool {
		return slices.Equal(says("n1").SlotMoves, []string{"n3"}) && slices.Equal(says("n2").SlotMoves, []string{"n3"})
	})
	for _, n := range []string{"n1", "n2"} {
		if got := says(n); got.QuorumLost || len(got.SlotStill) > 0 || got.Boot != hex64(uint64(n[1])) {
			t.Errorf("%s says %+v", n, got)
		}
	}
	f.stop("n3", ErrAbandon)
	f.wait("both take it back", func() bool {
		one, two := says("n1"), says("n2")
		return one.Empty() && two.Empty()
	})
}

// wait waits for a condition.
func (f *fleet) wait(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(fleetPatience); !is(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("it is not so that %s", what)
		}
	}
}

// The group's agents do not depend on the API server. One of them loses it. The others report that they see its boot
// run, until it sees its Node again, and not after the boot has ended.
func TestAgentsSeeWhomKubernetesDoesNot(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	s, lost := k8stest.New(t), k8stest.New(t)
	f.kube = func() *client.Client { return s.Client(t, nil) }
	three := []string{"n1", "n2", "n3"}
	for _, n := range three {
		s.Put(k8stest.Node(n, groupLabel, "127.0.0.1"))
		lost.Put(k8stest.Node(n, groupLabel, "127.0.0.1"))
		f.configure(n, 0, three...)
		text, err := os.ReadFile(f.path(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.path(n), append(text, "kubernetes: {kubeconfig: /none}\nquorum: {tieBreak: none}\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start("n1", "n2")
	f.kube = func() *client.Client { return lost.Client(t, nil) }
	f.start("n3")
	f.await(0, three...)
	both := func(want map[string]string) func() bool {
		return func() bool {
			for _, n := range []string{"n1", "n2"} {
				got := map[string]string(nil)
				if text, there := s.Get(n).Annotations[sightings.Annotation]; there {
					said, err := sightings.Decode(text)
					if err != nil {
						t.Fatal(err)
					}
					got = said.Sees
				}
				if !maps.Equal(got, want) {
					return false
				}
			}
			return true
		}
	}
	if !both(nil)() {
		t.Error("they speak while all are shown their Nodes")
	}
	sees := map[string]string{"n3": hex64(uint64('3'))}
	lost.Refuse(true)
	lost.EndWatches()
	f.wait("both see the boot of n3", both(sees))
	lost.Refuse(false)
	f.wait("both take it back when n3 is shown its Node", both(nil))
	lost.Refuse(true)
	lost.EndWatches()
	f.wait("both see it again", both(sees))
	f.stop("n3", ErrAbandon)
	f.wait("both take it back when n3 is gone", both(nil))
}

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// Guard: a complete fencing of a node whose kubelet is gone and whose pod still runs.
func fencedAndBack(t *testing.T, f *fencing) {
	s := f.tell(t, f.holdKubelet(t))
	b := f.boards[s.node]
	s.until(t, "its power is proven to be off", func() bool { return !s.saw("proof power").IsZero() })
	s.until(t, "its replacement is Ready", func() bool { return !s.recorder.when("ready").IsZero() })
	s.until(t, "the Node is Ready again", func() bool { return f.ready(s.node) })
	back := time.Now()
	s.ends(t)
	more := map[string]time.Time{
		"board: port off": b.port.when(false), "board: power off": b.bmc.when(false), "board: port on": b.port.when(true), "board: power on": b.bmc.when(true), "the Node is Ready again": back,
	}
	s.table(t, more)
	var last time.Time
	for _, what := range []string{"board: port off", "board: power off", "board: port on", "board: power on", "the Node is Ready again"} {
		if more[what].Before(last) || more[what].Before(s.began) {
			t.Errorf("%s came at the wrong time, or never", what)
		}
		last = more[what]
	}
}

// Guard: without its board a node is not proven dead. When the board is back, fencing continues by itself.
func boardUnreachable(t *testing.T, f *fencing) {
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].bmc.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	s.until(t, "cutting its power has failed twice", func() bool {
		n := s.now()
		return n.Status.Step == "power_management" && n.Status.Retries >= 1 && n.Status.Phase == "error"
	})
	s.stays(t, "its board does not answer", time.Second)
	n := s.now()
	t.Logf("%.1f s: two tries have failed: %s", time.Since(s.began).Seconds(), n.Status.Message)
	if n.Status.Proof != nil || !b.bmc.has() {
		t.Errorf("BROKEN: %+v", n.Status)
	}
	var where []string
	for _, j := range n.Status.Jobs {
		if j.Method == "bmc-off" && j.Role == "main" {
			where = append(where, fmt.Sprintf("try %d on %s", j.Try+1, j.ExecutorNode))
		}
	}
	t.Logf("the tries ran: %s", strings.Join(where, ", "))
	do(t, b.bmc.deaf(false))
	s.ends(t)
	s.table(t, map[string]time.Time{"board: power off": b.bmc.when(false)})
}

// Guard: with a wrong password nothing is switched and nothing is proven, and nobody sees the password.
func wrongPassword(t *testing.T, f *fencing) {
	do(t, f.password(t.Context(), wrongOne))
	defer func() { do(t, f.password(context.Background(), boardPassword)) }()
	s := f.tell(t, f.holdKubelet(t))
	b := f.boards[s.node]
	s.until(t, "the first method has failed", func() bool { return s.now().Status.Phase == "error" })
	s.stays(t, "no board has believed anybody", time.Second)
	n := s.now()
	t.Logf("%.1f s: %s", time.Since(s.began).Seconds(), n.Status.Message)
	if n.Status.Proof != nil || !b.bmc.has() || !b.port.has() {
		t.Errorf("BROKEN: %+v", n.Status)
	}
	f.masked(t)
	do(t, f.password(t.Context(), boardPassword))
	s.ends(t)
}

// Guard: a node with two power supplies is off only when both are off. Neither is switched on again before that.
func twoSupplies(t *testing.T, f *fencing) {
	do(t, f.configure(t.Context(), redundant))
	defer func() { do(t, f.configure(context.Background(), isolated)) }()
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].second.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	s.until(t, "one supply is off, and the board of the other one has not answered", func() bool { n := s.now(); return !b.bmc.has() && n.Status.Phase == "error" })
	s.stays(t, "one of its two supplies is on", time.Second)
	if n := s.now(); n.Status.Proof != nil {
		t.Errorf("BROKEN: proven with a supply that is on: %+v", n.Status)
	}
	do(t, b.second.deaf(false))
	s.ends(t)
	s.table(t, map[string]time.Time{"board: first off": b.bmc.when(false), "board: second off": b.second.when(false), "board: first on": b.bmc.when(true), "board: second on": b.second.when(true)})
	off, on := b.second.when(false), b.bmc.when(true)
	if off.Before(s.began) || on.Before(off) {
		t.Errorf("BROKEN: the first supply was on again at %v, the second one off at %v", on, off)
	}
}

// Guard: if a board reports off and has switched nothing, that proves nothing while the kubelet is still heard.
func boardLies(t *testing.T, f *fencing) {
	do(t, f.configure(t.Context(), plain))
	defer func() { do(t, f.configure(context.Background(), isolated)) }()
	s := f.tell(t, func(node string) error {
		f.boards[node].bmc.lie(true)
		// The kubelet itself reports that it is not Ready.
		return f.HoldContainerd(t.Context(), node)
	})
	b := f.boards[s.node]
	s.until(t, "the board has said off", func() bool { return !s.saw("proof power").IsZero() })
	s.until(t, "the kubelet is heard all the same, and the proof is contradicted", func() bool { return !s.saw("contradicted").IsZero() })
	s.stays(t, "its kubelet lives", 10*time.Second)
	n := s.now()
	s.table(t, nil)
	if n.Status.Phase != "givenUp" {
		t.Errorf("%+v", n.Status)
	}
	t.Logf("it says: %s", n.Status.Message)
	b.bmc.lie(false)
	do(t, f.FreeContainerd(t.Context(), s.node))
	s.until(t, "the Node is Ready again", func() bool { return f.ready(s.node) })
	kubectl(t, f.Cluster, "delete", "nodefence", "node-fence-"+s.node, "--wait=false")
	s.until(t, "the NodeFence is gone", func() bool { return !s.saw("gone").IsZero() })
	f.judge(t, s.recorder)
}

// Guard: the node that runs an executor dies with it, and another node runs the next attempt. The dead node has no
// power: its board reports that, which is the proof.
func executorDies(t *testing.T, f *fencing) {
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].bmc.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	var on string
	s.until(t, "an executor runs that cuts its power", func() bool {
		n := s.now()
		for _, j := range n.Status.Jobs {
			if j.Method != "bmc-off" || j.Role != "main" || j.State != "running" {
				continue
			}
			pods, err := f.Client.CoreV1().Pods(cluster.ControllerSpace).List(t.Context(), meta.ListOptions{LabelSelector: "job-name=" + j.Name})
			if err == nil && len(pods.Items) == 1 && pods.Items[0].Status.Phase == core.PodRunning {
				on = pods.Items[0].Spec.NodeName
			}
		}
		return on != ""
	})
	other := f.boards[on]
	other.bmc.mu.Lock()
	other.bmc.set(false) // the node's plug was pulled
	other.bmc.mu.Unlock()
	do(t, b.bmc.deaf(false))
	t.Logf("%.1f s: %s has lost its power, and the executor ran on it", time.Since(s.began).Seconds(), on)
	s.ends(t)
	s.table(t, map[string]time.Time{"board: power off": b.bmc.when(false), "the executor's node has no power": other.bmc.when(false), "the executor's node has power": other.bmc.when(true)})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.Method == "bmc-off" && j.Role == "main" {
			t.Logf("try %d on %q: %s: %s", j.Try+1, j.ExecutorNode, j.State, j.Message)
			if j.Try == 0 && j.ExecutorNode != on {
				t.Errorf("nobody has noted where the first try ran")
			}
			if j.Try > 0 && j.ExecutorNode == on {
				t.Errorf("BROKEN: tried again on the node that has died")
			}
		}
	}
}

// Guard: both controllers are killed after each step of the NodeFence, and nothing is lost or done twice.
func controllersKilled(t *testing.T, f *fencing) {
	s := f.tell(t, f.holdKubelet(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	kills := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		last := ""
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			n := s.now()
			now := fmt.Sprint(n.Status.Step, n.Status.Phase, n.Status.Proof != nil, len(n.Status.Jobs))
			if now == last || n.Metadata.UID == "" {
				continue
			}
			last = now
			if _, err := f.Plane.Kubectl(ctx, "", "-n", cluster.ControllerSpace, "delete", "pods", "-l", "app.kubernetes.io/name=fencing-controller", "--grace-period=0", "--force"); err == nil {
				kills++
			}
		}
	}()
	s.ends(t)
	stop()
	<-done
	s.table(t, nil)
	t.Logf("both controllers were killed %d times", kills)
	if kills < 5 {
		t.Errorf("only %d times", kills)
	}
}

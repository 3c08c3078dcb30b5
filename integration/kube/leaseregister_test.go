package kube

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	agentclient "github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum/leasequorumtest"
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
)

func leaseRegister(t *testing.T, p *controlplane.ControlPlane, space, address string, timeout time.Duration) *leaseregister.Register {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(path, address, p.Admin().BearerToken); err != nil {
		t.Fatal(err)
	}
	c, err := agentclient.New(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := leaseregister.New(leaseregister.Config{
		Client: c, Namespace: space, Name: leaseregister.Name("default", "worker"), Timeout: timeout, Clock: boottime.Now,
		OnCompletion: func(leasequorum.Completion) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// do performs an operation and checks its outcome.
func do(t *testing.T, r *leaseregister.Register, op leasequorum.Op, want leasequorum.Outcome) leasequorum.Completion {
	t.Helper()
	c := r.Do(t.Context(), op)
	if c.Outcome != want {
		t.Fatalf("operation %+v: outcome %d, want %d: %v", op, c.Outcome, want, c.Err)
	}
	return c
}

// The API server behaves as the tie-break requires, like the double in the simulations.
func TestLeaseIsARegister(t *testing.T) {
	p := plane(t)
	namespace(t, p, "tie")
	r := leaseRegister(t, p, "tie", p.URL(), 30*time.Second)
	leases := client(t, p.Admin()).CoordinationV1().Leases("tie")
	leasequorumtest.Contract(t, func(op leasequorum.Op) leasequorum.Completion { return r.Do(t.Context(), op) }, func() {
		if err := leases.Delete(t.Context(), leaseregister.Name("default", "worker"), meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// If many replace the same version, only one succeeds.
func TestOneOfManyReplacesAVersion(t *testing.T) {
	p := plane(t)
	namespace(t, p, "many")
	const writers = 6
	base := do(t, leaseRegister(t, p, "many", p.URL(), 30*time.Second), leasequorum.Op{Kind: leasequorum.Create}, leasequorum.Done).Version
	var all sync.WaitGroup
	outcomes := make([]leasequorum.Outcome, writers)
	for i := range writers {
		r := leaseRegister(t, p, "many", p.URL(), 30*time.Second)
		all.Go(func() {
			outcomes[i] = r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: leasequorumtest.GrantTo(uint64(i)+1, "n1")}).Outcome
		})
	}
	all.Wait()
	done := 0
	for _, o := range outcomes {
		if o == leasequorum.Done {
			done++
		} else if o != leasequorum.Conflict {
			t.Errorf("outcome %d", o)
		}
	}
	if done != 1 {
		t.Errorf("%d of %d writes have replaced one version", done, writers)
	}
}

// If the reply to a write is lost, the outcome is unknown, and the write is found by its tag.
func TestLostReplyOfALeaseWrite(t *testing.T) {
	p := plane(t)
	namespace(t, p, "lost-reply")
	x, err := controlplane.NewProxy(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	r := leaseRegister(t, p, "lost-reply", x.URL(), 3*time.Second)
	made := r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Create})
	for made.Outcome == leasequorum.Unknown && t.Context().Err() == nil { // on a busy machine
		made = r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Read})
	}
	x.Fault(controlplane.LoseReplies(func(q *http.Request) bool { return q.Method == http.MethodPut }))
	do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: leasequorumtest.GrantTo(9, "n1")}, leasequorum.Unknown)
	direct := leaseRegister(t, p, "lost-reply", p.URL(), 30*time.Second)
	read := do(t, direct, leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Done)
	if read.Record.Tag.Sequence != 9 {
		t.Errorf("the write has not landed: %+v", read.Record)
	}
	do(t, direct, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: leasequorumtest.GrantTo(10, "n2")}, leasequorum.Conflict)
}

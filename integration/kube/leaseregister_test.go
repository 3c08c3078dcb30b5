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
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
	"github.com/fencing-agent/fencing-agent/netgossip"
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

func grantTo(sequence uint64, node string) leasequorum.Record {
	return leasequorum.Record{
		Instance: 1, Tag: leasequorum.Tag{Boot: 1, Process: 1, Sequence: sequence},
		Grant: leasequorum.Grant{Holders: []leasequorum.Holder{{Node: node, Token: netgossip.Token{Nonce: 1, Counter: 1}}}},
	}
}

// do performs an operation that is to end so.
func do(t *testing.T, r *leaseregister.Register, op leasequorum.Op, want leasequorum.Outcome) leasequorum.Completion {
	t.Helper()
	c := r.Do(t.Context(), op)
	if c.Outcome != want {
		t.Fatalf("operation %+v: outcome %d, want %d: %v", op, c.Outcome, want, c.Err)
	}
	return c
}

// The API server keeps what the tie-break rests on: a write replaces the version it names, and
// nothing else; each write makes a new version; a deleted Lease is not brought back by a write.
func TestLeaseIsARegister(t *testing.T) {
	p := plane(t)
	namespace(t, p, "tie")
	r := leaseRegister(t, p, "tie", p.URL(), 30*time.Second)
	do(t, r, leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Absent)
	made := do(t, r, leasequorum.Op{Kind: leasequorum.Create, Record: leasequorum.Record{Tag: leasequorum.Tag{Sequence: 1}}}, leasequorum.Done)
	do(t, r, leasequorum.Op{Kind: leasequorum.Create, Record: leasequorum.Record{Tag: leasequorum.Tag{Sequence: 2}}}, leasequorum.Conflict)

	first := do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: grantTo(3, "n1")}, leasequorum.Done)
	do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: grantTo(4, "n2")}, leasequorum.Conflict)
	second := do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: first.Version, Record: grantTo(5, "n1")}, leasequorum.Done)
	if second.Version == first.Version {
		t.Error("a renewal is not a new version")
	}
	if read := do(t, r, leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Done); read.Version != second.Version || read.Record.Tag.Sequence != 5 {
		t.Errorf("read %+v", read)
	}

	leases := client(t, p.Admin()).CoordinationV1().Leases("tie")
	name := leaseregister.Name("default", "worker")
	if err := leases.Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Write, Base: second.Version, Record: grantTo(6, "n1")}); c.Outcome != leasequorum.Conflict && c.Outcome != leasequorum.Absent {
		t.Errorf("a write to a deleted Lease: %+v", c)
	}
	do(t, r, leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Absent)
	again := do(t, r, leasequorum.Op{Kind: leasequorum.Create, Record: leasequorum.Record{Tag: leasequorum.Tag{Sequence: 7}}}, leasequorum.Done)
	old := leasequorum.Version{UID: second.Version.UID, Resource: again.Version.Resource}
	do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: old, Record: grantTo(8, "n1")}, leasequorum.Conflict)
}

// Of many who replace the same version, one does.
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
			outcomes[i] = r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: grantTo(uint64(i)+1, "n1")}).Outcome
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

// A write whose reply is lost is unknown, and is found by its tag.
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
	for made.Outcome == leasequorum.Unknown && t.Context().Err() == nil { // a busy machine
		made = r.Do(t.Context(), leasequorum.Op{Kind: leasequorum.Read})
	}
	x.Fault(controlplane.LoseReplies(func(q *http.Request) bool { return q.Method == http.MethodPut }))
	do(t, r, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: grantTo(9, "n1")}, leasequorum.Unknown)
	direct := leaseRegister(t, p, "lost-reply", p.URL(), 30*time.Second)
	read := do(t, direct, leasequorum.Op{Kind: leasequorum.Read}, leasequorum.Done)
	if read.Record.Tag.Sequence != 9 {
		t.Errorf("the write has not landed: %+v", read.Record)
	}
	do(t, direct, leasequorum.Op{Kind: leasequorum.Write, Base: made.Version, Record: grantTo(10, "n2")}, leasequorum.Conflict)
}

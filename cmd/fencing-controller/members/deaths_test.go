package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	boot1   = "024bc581b3a34be3"
	boot2   = "124bc581b3a34be3"
	bootID1 = "024bc581-b3a3-4be2-9d1c-0123456789ab"
)

// desk is an API server in memory with replicas in front of it. Each call names its caller.
type desk struct {
	t        *testing.T
	cluster  *Cluster
	replicas []*Server
	caller   string
}

func newDesk(t *testing.T, nodes ...string) *desk {
	var objects []client.Object
	for _, n := range nodes {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, UID: types.UID("uid-" + n)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID1}}})
	}
	api := fake.NewClientBuilder().WithObjects(objects...).Build()
	d := &desk{t: t, cluster: &Cluster{Reader: api, Writer: api, Namespace: "fencing-controller"}}
	for range 2 {
		d.replicas = append(d.replicas, &Server{Hub: NewHub(), Logger: slog.New(slog.DiscardHandler), Told: d.cluster,
			Review: func(context.Context, string) (string, error) { return d.caller, nil }})
	}
	return d
}

func (d *desk) tell(replica int, node string, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
	d.caller = node
	time.Sleep(tellPause) // in the bubble's time
	return d.replicas[replica].TellDeaths(metadata.NewIncomingContext(d.t.Context(), metadata.Pairs("authorization", "Bearer x")), r)
}

func (d *desk) kept(node string) string {
	r, _, err := d.cluster.Reported(d.t.Context(), node)
	switch {
	case err != nil:
		d.t.Fatal(err)
	case r == nil:
		return "nothing"
	}
	out := ""
	for _, x := range r.Deaths {
		out += x.Node
	}
	return out
}

func report(boot string, at uint64, dead ...string) *fencingv1.DeathsReport {
	r := &fencingv1.DeathsReport{Boot: boot, At: at}
	for _, n := range dead {
		r.Deaths = append(r.Deaths, &fencingv1.ProvenDeath{Node: n, Boot: boot2, Proof: "time", At: 1780000000, Said: boot})
	}
	return r
}

// Guard: a report counts for the node of the token, whatever node the report names, and only in the boot that the Node
// shows.
func TestTellDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1", "n2")
		known, err := d.tell(0, "n1", report(boot1, 1, "n4"))
		if err != nil || len(known.GetDeaths()) != 1 || d.kept("n1") != "n4" || d.kept("n2") != "nothing" || d.kept("n4") != "nothing" {
			t.Errorf("%v, %v; kept %q", known, err, d.kept("n1"))
		}
		if known, err := d.tell(1, "n1", &fencingv1.DeathsReport{Ask: true}); err != nil || len(known.GetDeaths()) != 1 || known.GetDeaths()[0].GetSaid() != boot1 || known.GetDeaths()[0].GetAt() != 1780000000 {
			t.Errorf("asked: %v, %v", known, err)
		}
		if known, err := d.tell(1, "n2", &fencingv1.DeathsReport{Ask: true}); err != nil || len(known.GetDeaths()) != 0 {
			t.Errorf("another node is told: %v, %v", known, err)
		}
		for name, c := range map[string]struct {
			node string
			r    *fencingv1.DeathsReport
			want codes.Code
		}{
			"late":                 {"n1", report(boot1, 1, "n5"), codes.Aborted},
			"of another boot":      {"n1", report(boot2, 2, "n5"), codes.FailedPrecondition},
			"of no boot":           {"n1", report("", 2, "n5"), codes.FailedPrecondition},
			"no such Node":         {"n9", report(boot1, 2, "n5"), codes.FailedPrecondition},
			"a death of nobody":    {"n1", report(boot1, 2, ""), codes.InvalidArgument},
			"too long a name":      {"n1", report(boot1, 2, strings.Repeat("n", 254)), codes.InvalidArgument},
			"too many":             {"n1", report(boot1, 2, slices.Repeat([]string{"n5"}, deaths.Most+1)...), codes.InvalidArgument},
			"the token is of none": {"", report(boot1, 2), codes.Unauthenticated},
		} {
			if _, err := d.tell(0, c.node, c.r); status.Code(err) != c.want || d.kept("n1") != "n4" {
				t.Errorf("%s: %v; kept %q", name, err, d.kept("n1"))
			}
		}
		for _, spoil := range []func(*fencingv1.ProvenDeath){
			func(x *fencingv1.ProvenDeath) { x.Boot = "024B" }, func(x *fencingv1.ProvenDeath) { x.Said = "x" },
			func(x *fencingv1.ProvenDeath) { x.At = -1 }, func(x *fencingv1.ProvenDeath) { x.At = 1 << 40 }, func(x *fencingv1.ProvenDeath) { x.Proof = strings.Repeat("x", 17) },
		} {
			r := report(boot1, 2, "n5")
			spoil(r.GetDeaths()[0])
			if _, err := d.tell(0, "n1", r); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", r, err)
			}
		}
		d.replicas[0].Told = nil
		if _, err := d.tell(0, "n1", report(boot1, 2)); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
	})
}

// Guard: a node that reports without end causes at most one write a second.
func TestANodeMayNotTellWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1", "n2")
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer x"))
		taken := 0
		for i := range uint64(100) {
			d.caller = "n1"
			if _, err := d.replicas[0].TellDeaths(ctx, report(boot1, i+1, "n4")); err == nil {
				taken++
			} else if status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if taken != 10 {
			t.Errorf("%d of 100 in 10 s", taken)
		}
		d.caller = "n2"
		if _, err := d.replicas[0].TellDeaths(ctx, report(boot1, 1, "n4")); err != nil {
			t.Errorf("another node: %v", err)
		}
	})
}

// Of a report and the Node's annotation, only the later one counts, and an agent that asks gets that one.
func TestTellingAndWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1")
		write := func(dead string) {
			n := &corev1.Node{}
			if err := d.cluster.Reader.Get(t.Context(), client.ObjectKey{Name: "n1"}, n); err != nil {
				t.Fatal(err)
			}
			n.Annotations = map[string]string{deaths.Annotation: deaths.Encode([]deaths.Death{{Node: dead, Boot: boot2, Proof: "time", At: time.Now(), Said: boot1}})}
			if err := d.cluster.Writer.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		ask := func() string {
			known, err := d.tell(1, "n1", &fencingv1.DeathsReport{Ask: true})
			if err != nil || len(known.GetDeaths()) != 1 {
				t.Fatalf("%v, %v", known, err)
			}
			return known.GetDeaths()[0].GetNode()
		}
		write("n4")
		first := ask()
		if _, err := d.tell(0, "n1", report(boot1, 1, "n5")); err != nil {
			t.Fatal(err)
		}
		second := ask()
		write("n6")
		if got := first + second + ask(); got != "n4n5n6" {
			t.Errorf("%s", got)
		}
	})
}

// flaky is a store in which any write may conflict with a write of another replica.
type flaky struct {
	ToldStore
	before func()
}

func (f *flaky) Report(ctx context.Context, r *deaths.Report, by Reporter, version string) error {
	if f.before != nil {
		f.before()
	}
	return f.ToldStore.Report(ctx, r, by, version)
}

// Guard: a replica that stood still between reading and writing overwrites nothing later, neither the first report nor
// another one.
func TestTwoReplicasHearOneNode(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, "n1")
			if !first {
				if _, err := d.tell(0, "n1", report(boot1, 1, "n6")); err != nil {
					t.Fatal(err)
				}
			}
			f := &flaky{ToldStore: d.cluster}
			f.before = func() {
				f.before = nil
				if _, err := d.tell(1, "n1", report(boot1, 7, "n5")); err != nil {
					t.Error(err)
				}
			}
			d.replicas[0].Told = f
			if _, err := d.tell(0, "n1", report(boot1, 6, "n4")); status.Code(err) != codes.Aborted || d.kept("n1") != "n5" {
				t.Errorf("%v, kept %q", err, d.kept("n1"))
			}
		})
	}
}

// The test runs any order of agents, replicas, late calls, reboots and lost answers. For each node, the last report
// that has arrived is kept, if it was made in the boot that the Node shows.
func TestRandomReports(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { randomReports(t, seed+run) })
	}
}

func randomReports(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	nodes := []string{"n1", "n2", "n3"}
	d := newDesk(t, nodes...)
	type state struct {
		boot     string
		at       uint64
		kept     string // what the oracle expects to be kept
		keptAt   uint64
		keptBoot string
	}
	states := map[string]*state{}
	for _, n := range nodes {
		states[n] = &state{boot: boot1, kept: "nothing"}
	}
	type late struct {
		node string
		r    *fencingv1.DeathsReport
		what string
	}
	var onWay []late
	for range 40 {
		n := nodes[r.IntN(3)]
		s := states[n]
		switch r.IntN(5) {
		case 0:
			if r.IntN(3) > 0 {
				continue
			}
			id := fmt.Sprintf("%08x-b3a3-4be2-9d1c-0123456789ab", r.Uint32())
			s.boot, s.at = deaths.Boot(id), 0
			var o corev1.Node
			if err := d.cluster.Reader.Get(t.Context(), client.ObjectKey{Name: n}, &o); err != nil {
				t.Fatal(err)
			}
			o.Status.NodeInfo.BootID = id
			if err := d.cluster.Writer.Status().Update(t.Context(), &o); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			s.at += 1 + r.Uint64N(9)
			var dead []string
			what := ""
			for _, x := range []string{"m1", "m2"} {
				if r.IntN(2) == 0 {
					dead, what = append(dead, x), what+x
				}
			}
			onWay = append(onWay, late{n, report(s.boot, s.at, dead...), what})
		default:
			if len(onWay) == 0 {
				continue
			}
			i := r.IntN(len(onWay))
			l := onWay[i]
			if r.IntN(4) > 0 {
				onWay = append(onWay[:i:i], onWay[i+1:]...)
			} // otherwise the report arrives once more
			s := states[l.node]
			_, err := d.tell(r.IntN(2), l.node, l.r)
			if want := l.r.GetBoot() == s.boot && (s.keptBoot != s.boot || l.r.GetAt() > s.keptAt); (err == nil) != want {
				t.Fatalf("seed %d: %s tells %v: %v", seed, l.node, l.r, err)
			} else if want {
				s.kept, s.keptAt, s.keptBoot = l.what, l.r.GetAt(), s.boot
			}
		}
		for _, n := range nodes {
			if got := d.kept(n); got != states[n].kept {
				t.Fatalf("seed %d: kept for %s %q, want %q", seed, n, got, states[n].kept)
			}
		}
	}
}

// A report that cannot be read is not overwritten, and is not taken for an empty one.
func TestReportsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1")
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fencing-controller", Name: deaths.ReportName("n1"), Labels: map[string]string{deaths.ReportLabel: deaths.ReportValue}}, Data: map[string]string{deaths.ReportKey: "{"}}
		if err := d.cluster.Writer.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := d.tell(0, "n1", report(boot1, 1, "n4")); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if _, _, err := d.cluster.Reported(t.Context(), "n1"); !errors.Is(err, deaths.ErrUnreadable) {
			t.Error(err)
		}
	})
}

// Kubernetes deletes the reports of an agent when its Node is gone: they belong to that very Node.
func TestWhatIsToldGoesWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1")
		owner := func() string {
			var m corev1.ConfigMap
			if err := d.cluster.Reader.Get(t.Context(), client.ObjectKey{Namespace: "fencing-controller", Name: deaths.ReportName("n1")}, &m); err != nil {
				t.Fatal(err)
			}
			if len(m.OwnerReferences) != 1 {
				t.Fatalf("owners: %v", m.OwnerReferences)
			}
			o := m.OwnerReferences[0]
			return o.APIVersion + " " + o.Kind + " " + o.Name + " " + string(o.UID)
		}
		if _, err := d.tell(0, "n1", report(boot1, 1, "n2")); err != nil || owner() != "v1 Node n1 uid-n1" {
			t.Errorf("%v, it belongs to %q", err, owner())
		}
		var n corev1.Node // the Node was removed, and came back
		if err := d.cluster.Reader.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
			t.Fatal(err)
		}
		n.UID = "uid-later"
		if err := d.cluster.Writer.Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
		if _, err := d.tell(1, "n1", report(boot1, 2)); err != nil || owner() != "v1 Node n1 uid-later" {
			t.Errorf("%v, it belongs to %q", err, owner())
		}
	})
}

// owned is an API server with the admission plugin OwnerReferencesPermissionEnforcement, for an account without the
// right to delete ConfigMaps.
type owned struct{ client.Client }

func (o owned) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	was := &corev1.ConfigMap{}
	if err := o.Get(ctx, client.ObjectKeyFromObject(obj), was); err != nil {
		return err
	}
	if !reflect.DeepEqual(was.OwnerReferences, obj.GetOwnerReferences()) {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), obj.GetName(), errors.New("cannot set an ownerRef on a resource you can't delete"))
	}
	return o.Client.Update(ctx, obj, opts...)
}

// Guard: deaths are reported even if the owner of the earlier report may not be changed: an older version set none, or
// the Node came back.
func TestDeathsAreToldUnderAnotherOwner(t *testing.T) {
	for _, owners := range [][]metav1.OwnerReference{nil, {{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-before"}}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, "n1")
			if _, err := d.tell(0, "n1", report(boot1, 1)); err != nil {
				t.Fatal(err)
			}
			api := d.cluster.Writer
			var m corev1.ConfigMap
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "fencing-controller", Name: deaths.ReportName("n1")}, &m); err != nil {
				t.Fatal(err)
			}
			m.OwnerReferences = owners
			if err := api.Update(t.Context(), &m); err != nil {
				t.Fatal(err)
			}
			d.cluster.Writer = owned{api}
			if _, err := d.tell(1, "n1", report(boot1, 2, "n2")); err != nil || d.kept("n1") != "n2" {
				t.Errorf("owners %v: %v, kept %s", owners, err, d.kept("n1"))
			}
		})
	}
}

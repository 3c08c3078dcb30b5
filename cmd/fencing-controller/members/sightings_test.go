package members

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

func (d *desk) sees(replica int, node string, r *fencingv1.SightingsReport) error {
	d.caller = node
	time.Sleep(tellPause) // in the bubble's time
	_, err := d.replicas[replica].TellSightings(metadata.NewIncomingContext(d.t.Context(), metadata.Pairs("authorization", "Bearer x")), r)
	return err
}

// object returns the ConfigMap with a node's report; nil: there is none.
func (d *desk) object(node string) *corev1.ConfigMap {
	var m corev1.ConfigMap
	if err := d.cluster.Reader.Get(d.t.Context(), client.ObjectKey{Namespace: "fencing-controller", Name: sightings.KeptName(node)}, &m); err != nil {
		return nil
	}
	return &m
}

func (d *desk) seen(node string) string {
	m := d.object(node)
	if m == nil {
		return "nothing"
	}
	s := sightings.Kept(m.Labels, m.Data)
	if s == nil {
		return "unreadable"
	}
	return fmt.Sprintf("%d %v %v", s.Number, s.SlotMoves, s.SlotStill)
}

func moves(boot string, number uint64, nodes ...string) *fencingv1.SightingsReport {
	return &fencingv1.SightingsReport{Boot: boot, Number: number, SlotMoves: nodes}
}

// Guards: a report is kept for the node of the token, in the boot that its Node shows. It replaces nothing later, and
// is deleted with the Node. Nothing is written if there is nothing to report or to take back.
func TestTellSightings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1", "n2")
		if err := d.sees(0, "n1", moves(boot1, 1)); err != nil || d.object("n1") != nil {
			t.Errorf("nothing to say: %v, %v", err, d.object("n1"))
		}
		if err := d.sees(0, "n1", moves(boot1, 5, "n4")); err != nil || d.seen("n1") != "5 [n4] []" || d.seen("n2") != "nothing" || d.kept("n1") != "nothing" {
			t.Errorf("%v; kept %q", err, d.seen("n1"))
		}
		if o := d.object("n1").OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != "uid-n1" {
			t.Errorf("it belongs to %v", o)
		}
		if !sightings.IsFresh(d.object("n1").Data, time.Now()) {
			t.Errorf("nobody knows when it was heard: %v", d.object("n1").Data)
		}
		before := d.seen("n1")
		long := strings.Repeat("n", 254)
		for name, c := range map[string]struct {
			node string
			r    *fencingv1.SightingsReport
			want codes.Code
		}{
			"late":                 {"n1", moves(boot1, 5, "n5"), codes.Aborted},
			"a late withdrawal":    {"n1", moves(boot1, 4), codes.Aborted},
			"of another boot":      {"n1", moves(boot2, 9, "n5"), codes.FailedPrecondition},
			"of no boot":           {"n1", moves("", 9, "n5"), codes.InvalidArgument},
			"no such Node":         {"n9", moves(boot1, 9, "n5"), codes.FailedPrecondition},
			"of nobody":            {"n1", moves(boot1, 9, ""), codes.InvalidArgument},
			"too long a name":      {"n1", &fencingv1.SightingsReport{Boot: boot1, Number: 9, SlotStill: []string{long}}, codes.InvalidArgument},
			"too many":             {"n1", moves(boot1, 9, strings.Split(strings.Repeat("n ", sightings.Most), " ")...), codes.InvalidArgument},
			"a boot that is none":  {"n1", &fencingv1.SightingsReport{Boot: boot1, Number: 9, Sees: map[string]string{"n4": "x"}}, codes.InvalidArgument},
			"of nobody's boot":     {"n1", &fencingv1.SightingsReport{Boot: boot1, Number: 9, Sees: map[string]string{"": boot2}}, codes.InvalidArgument},
			"the token is of none": {"", moves(boot1, 9), codes.Unauthenticated},
		} {
			if err := d.sees(1, c.node, c.r); status.Code(err) != c.want || d.seen("n1") != before {
				t.Errorf("%s: %v; kept %q", name, err, d.seen("n1"))
			}
		}
		if err := d.sees(1, "n1", moves(boot1, 6)); err != nil || d.seen("n1") == before {
			t.Errorf("it is not taken back: %v, %q", err, d.seen("n1"))
		}
		version := d.object("n1").ResourceVersion
		if err := d.sees(0, "n1", moves(boot1, 7)); err != nil || d.object("n1").ResourceVersion != version {
			t.Errorf("nothing after nothing is written: %v", err)
		}
		m := d.object("n1")
		m.Data = map[string]string{sightings.KeptKey: "{"}
		if err := d.cluster.Writer.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := d.sees(0, "n1", moves(boot1, 8, "n4")); err != nil || !strings.HasPrefix(d.seen("n1"), "8") {
			t.Errorf("what cannot be read stays: %v, %q", err, d.seen("n1"))
		}
	})
}

// Guards: a node that reports without end causes at most one write a second, and its sightings do not delay its deaths.
// A controller that keeps no sightings says so.
func TestSightingsHaveTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1")
		if err := d.sees(0, "n1", moves(boot1, 1, "n4")); err != nil {
			t.Fatal(err)
		}
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer x"))
		if _, err := d.replicas[0].TellSightings(ctx, moves(boot1, 2, "n4")); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("at once: %v", err)
		}
		if _, err := d.replicas[0].TellDeaths(ctx, report(boot1, 1, "n4")); err != nil {
			t.Errorf("deaths wait for sightings: %v", err)
		}
		d.replicas[0].Told = nil
		if _, err := d.replicas[0].TellSightings(ctx, moves(boot1, 3)); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
	})
}

// Guard: a node that is seen to run is kept too, and is taken back like the rest.
func TestTellWhoIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "n1", "n2")
		sees := func() map[string]string {
			m := d.object("n1")
			if m == nil {
				return nil
			}
			return sightings.Kept(m.Labels, m.Data).Sees
		}
		many := map[string]string{}
		for i := range sightings.Most + 1 {
			many[fmt.Sprint("n", i)] = boot2
		}
		if err := d.sees(0, "n1", &fencingv1.SightingsReport{Boot: boot1, Number: 4, Sees: many}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("too many: %v", err)
		}
		time.Sleep(time.Minute)
		if err := d.sees(0, "n1", &fencingv1.SightingsReport{Boot: boot1, Number: 5, Sees: map[string]string{"n2": boot2}}); err != nil || len(sees()) != 1 || sees()["n2"] != boot2 {
			t.Errorf("%v: %v", err, sees())
		}
		time.Sleep(time.Minute)
		if err := d.sees(1, "n1", moves(boot1, 6)); err != nil || len(sees()) > 0 {
			t.Errorf("taken back: %v, %v", err, sees())
		}
	})
}

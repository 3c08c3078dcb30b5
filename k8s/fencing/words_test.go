package fencing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const inGroup = "group"

// says makes the agent of a Node report something there, in the boot that the Node shows.
func (s *stage) says(name string, what sightings.Sighting) {
	s.changeNode(name, func(n *corev1.Node) {
		if what.Boot == "" {
			what.Boot = deaths.Boot(n.Status.NodeInfo.BootID)
		}
		what.Number = uint64(s.version)
		n.Annotations = map[string]string{sightings.Annotation: sightings.Encode(what)}
	})
}

func (s *stage) changeNode(name string, how func(*corev1.Node)) {
	var n corev1.Node
	if err := s.Get(s.t.Context(), clientKey(name), &n); err != nil {
		s.t.Fatal(err)
	}
	how(&n)
	s.put(&n)
}

// grouped returns a stage of four Nodes of one group; n4 is not Ready.
func grouped(t *testing.T, lines ...string) *stage {
	s := newStage(t)
	s.r.GroupLabel, s.r.MaxDeadPercent = inGroup, 100
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		s.changeNode(n, func(n *corev1.Node) { n.Labels = map[string]string{inGroup: "worker"} })
	}
	s.configure(append(lines, "trigger_after=0", "cooldown=0")...)
	return s
}

func slot(n string) sightings.Sighting { return sightings.Sighting{SlotMoves: []string{n}} }

// Agents' reports on their Nodes hold up a NodeFence, which shows that. A stale report does not.
func TestWordsOnNodes(t *testing.T) {
	const silentFor = 155 * time.Second
	for _, c := range []struct {
		name  string
		lines []string
		do    func(s *stage)
		want  string
	}{
		{"nothing", nil, func(*stage) {}, ""},
		{"the slot moves", nil, func(s *stage) { s.says("n1", slot("n4")); s.says("n2", slot("n4")) }, storm.LeaseHeld},
		{"switched off", []string{"skip_storage_lease_held=no"}, func(s *stage) { s.says("n1", slot("n4")); s.says("n2", slot("n4")) }, ""},
		{"in another boot", nil, func(s *stage) {
			for _, n := range []string{"n1", "n2"} {
				s.says(n, sightings.Sighting{Boot: "00000000000000ab", SlotMoves: []string{"n4"}})
			}
		}, ""},
		{"what cannot be read", nil, func(s *stage) {
			s.changeNode("n1", func(n *corev1.Node) { n.Annotations = map[string]string{sightings.Annotation: "{"} })
		}, ""},
		{"by a Node whose Lease has run out", []string{"max_silent_percent=100"}, func(s *stage) {
			s.says("n1", slot("n4"))
			at := metav1.NewMicroTime(s.now.Add(-time.Minute))
			s.put(&coordinationv1.Lease{ObjectMeta: s.meta("n1"), Spec: coordinationv1.LeaseSpec{RenewTime: &at}})
		}, ""},
		{"by a Node of another group", nil, func(s *stage) {
			s.says("n1", slot("n4"))
			s.changeNode("n1", func(n *corev1.Node) { n.Labels = nil })
		}, ""},
		{"the boot is proven dead", nil, func(s *stage) {
			s.says("n1", slot("n4"))
			s.says("n2", slot("n4"))
			s.changeNode("n4", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: recovery.TaintKey, Value: "fenced-" + deaths.Boot(n.Status.NodeInfo.BootID), Effect: corev1.TaintEffectNoExecute}}
			})
		}, ""},
		{"the slot stands still", nil, func(s *stage) { s.says("n1", sightings.Sighting{SlotStill: []string{"n4"}}) }, ""},
		{"the slot stands still, switched on", []string{"skip_storage_disconnected=yes"}, func(s *stage) { s.says("n1", sightings.Sighting{SlotStill: []string{"n4"}}) }, storm.Disconnected},
		{"quorum is lost everywhere", nil, func(s *stage) {
			for _, n := range []string{"n1", "n2", "n3"} {
				s.says(n, sightings.Sighting{QuorumLost: true})
			}
		}, storm.QuorumLost},
		{"quorum is lost, switched off", []string{"only_with_quorum=no"}, func(s *stage) {
			for _, n := range []string{"n1", "n2", "n3"} {
				s.says(n, sightings.Sighting{QuorumLost: true})
			}
		}, ""},
		{"one has quorum", nil, func(s *stage) {
			for _, n := range []string{"n1", "n2"} {
				s.says(n, sightings.Sighting{QuorumLost: true})
			}
		}, ""},
	} {
		s := grouped(t, c.lines...)
		c.do(s)
		if _, err := s.r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if begun := s.fence() != nil; begun != (c.want == "") {
			t.Errorf("%s: begun %v, Events %v", c.name, begun, s.events.reasons)
			continue
		}
		if c.want == "" {
			continue
		}
		counted, shown := testutil.ToFloat64(s.r.Metrics.skipped.WithLabelValues(c.want)), testutil.ToFloat64(s.r.Metrics.sightings.WithLabelValues(c.want))
		if counted != 1 || shown == 0 || len(s.events.reasons) != 1 || s.events.reasons[0] != skippedReason {
			t.Errorf("%s: counted %v, shown %v, Events %v", c.name, counted, shown, s.events.reasons)
		}
		for until := s.now.Add(silentFor); s.now.Before(until); {
			s.round()
		}
		if s.fence() == nil {
			t.Errorf("%s: what is not said again holds it up for ever", c.name)
		}
	}
}

// A NodeFence in progress shows by its condition that the power is not cut. It continues when the report is withdrawn.
func TestWordsHoldUpWhatIsOnItsWay(t *testing.T) {
	s := grouped(t)
	if _, err := s.r.round(t.Context()); err != nil { // it begins, and asks whether the plug is off
		t.Fatal(err)
	}
	for range 60 { // two minutes
		s.says("n1", slot("n4"))
		s.says("n2", slot("n4"))
		s.round()
	}
	f := s.fence()
	if f == nil || f.Status.Held() != storm.LeaseHeld || !s.on {
		t.Fatalf("ran %v: %+v", s.ran, f)
	}
	for _, n := range []string{"n1", "n2"} {
		s.changeNode(n, func(n *corev1.Node) { n.Annotations = nil })
	}
	if s.rounds(15); s.fence().Status.Held() != "" {
		t.Errorf("it waits on: %+v", s.fence().Status)
	}
}

// two makes both other agents report that n4's slot moves.
func (s *stage) two() {
	s.says("n1", slot("n4"))
	s.says("n2", slot("n4"))
}

// A report does not hold up the proof of a crash kernel: without a NodeFence the proof would not be recorded, and no
// pod would be moved.
func TestWordsDoNotHoldUpACrash(t *testing.T) {
	s := grouped(t)
	s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fence-config-n4"}, Data: map[string]string{"config.properties": "node_name=n4\nkdump=true\npower_management=bmc-off bmc-on"}})
	s.r.Crashes = listener(s.r.Now)
	s.changeNode("n4", func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.4"}}
	})
	s.two()
	if s.rounds(3); s.fence() != nil {
		t.Fatal("it begins although its slot moves")
	}
	for range 4 {
		s.two()
		s.r.Crashes.take(kdumpMessage, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 4), Port: 4711})
		s.rounds(3)
	}
	f := s.fence()
	if f == nil || f.Status.Proof == nil || f.Status.Proof.Kind != nodefence.ByKdump || f.Status.Held() != "" {
		t.Fatalf("the crash kernel is heard, and its proof stands nowhere: %+v", f)
	}
}

// A node that its NodeFence has cut off is not heard for that reason, so its power is cut anyway.
func TestWordsDoNotHoldUpWhatIsIsolated(t *testing.T) {
	for _, c := range []struct {
		what sightings.Sighting
		line string
	}{{slot("n4"), "skip_storage_disconnected=no"}, {sightings.Sighting{SlotStill: []string{"n4"}}, "skip_storage_disconnected=yes"}} {
		s := grouped(t, "grace_timeout=4", c.line)
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fence-config-n4"}, Data: map[string]string{"config.properties": "node_name=n4\nisolation=port-off\npower_management=bmc-off bmc-on"}})
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fence-method-port-off-n4"}, Data: map[string]string{"method.properties": "template=fence-method-template-bmc\naction=off"}})
		for range 60 {
			if f := s.fence(); f != nil && f.Status.Isolated {
				s.says("n1", c.what)
				s.says("n2", c.what)
			}
			s.on = true // the port is another device
			s.round()
		}
		if f := s.fence(); f == nil || !f.Status.Isolated || !slices.Contains(s.ran, "bmc-off") {
			t.Errorf("%+v: ran %v: %+v", c.what, s.ran, f)
		}
	}
}

// Guard: an Event with a longer note is refused, and people are not informed.
func TestNotesFit(t *testing.T) {
	s := grouped(t, "max_unhealthy_percent=100")
	long := strings.Repeat("x", 253)
	for i := range 9 {
		name := fmt.Sprintf("%d%s", i, long[1:])
		s.node(name, true, "0", s.now)
		s.changeNode(name, func(n *corev1.Node) { n.Labels = map[string]string{inGroup: "worker"} })
		s.says(name, slot("n4"))
	}
	if s.rounds(1); len(s.events.notes) != 1 || len(s.events.notes[0]) > 1024 || !strings.Contains(s.events.notes[0], "kubectl fence node n4") {
		t.Errorf("%q", s.events.notes)
	}
}

func (s *stage) bootOf(name string) (boot string) {
	s.changeNode(name, func(n *corev1.Node) { boot = deaths.Boot(n.Status.NodeInfo.BootID) })
	return boot
}

// heard is the content that a controller stores when it gets this report now.
func (s *stage) heard(text string) map[string]string {
	return map[string]string{sightings.KeptKey: text, sightings.HeardKey: s.now.Format(time.RFC3339)}
}

// tells makes the agent of a node report to the controller that it follows.
func (s *stage) tells(name string, what sightings.Sighting) {
	if what.Boot == "" {
		what.Boot = s.bootOf(name)
	}
	if what.Number == 0 {
		what.Number = uint64(s.version)
	}
	s.put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: sightings.KeptName(name), Labels: map[string]string{sightings.KeptLabel: sightings.KeptValue}},
		Data:       s.heard(sightings.Encode(what)),
	})
}

// Agents' reports to a controller hold up a NodeFence like reports on their Nodes, and for no longer. Of one agent the
// later report counts.
func TestWordsThatAreTold(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *stage)
		want string
	}{
		{"by two", func(s *stage) { s.tells("n1", slot("n4")); s.tells("n2", slot("n4")) }, storm.LeaseHeld},
		{"quorum is lost, two tell it, one writes it", func(s *stage) {
			s.tells("n1", sightings.Sighting{QuorumLost: true})
			s.tells("n2", sightings.Sighting{QuorumLost: true})
			s.says("n3", sightings.Sighting{QuorumLost: true})
		}, storm.QuorumLost},
		{"long ago", func(s *stage) {
			s.tells("n1", slot("n4"))
			s.tells("n2", slot("n4"))
			s.now = s.now.Add(11 * time.Minute)
		}, ""},
		{"nobody is asked", func(s *stage) { s.tells("n1", slot("n4")); s.r.ToldIn = "" }, ""},
		{"in another boot", func(s *stage) { s.tells("n1", sightings.Sighting{Boot: "00000000000000ab", SlotMoves: []string{"n4"}}) }, ""},
		{"of a Node that does not exist", func(s *stage) { s.tells("n1", slot("n4")); s.r.GroupLabel = "none" }, ""},
		{"and taken back", func(s *stage) { s.says("n1", slot("n4")); s.tells("n1", sightings.Sighting{Number: 1 << 40}) }, ""},
		{"and written later that it is over", func(s *stage) {
			s.tells("n1", sightings.Sighting{Number: 1, SlotMoves: []string{"n4"}})
			s.says("n1", sightings.Sighting{})
		}, ""},
		{"what cannot be read", func(s *stage) {
			s.put(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: sightings.KeptName("n1"), Labels: map[string]string{sightings.KeptLabel: sightings.KeptValue}},
				Data:       s.heard("{"),
			})
		}, ""},
	} {
		s := grouped(t)
		s.r.ToldIn = s.r.Namespace
		c.do(s)
		if _, err := s.r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if begun := s.fence() != nil; begun != (c.want == "") {
			t.Errorf("%s: begun %v, Events %v", c.name, begun, s.events.reasons)
			continue
		}
		for until := s.now.Add(155 * time.Second); c.want != "" && s.now.Before(until); {
			s.round()
		}
		if s.fence() == nil {
			t.Errorf("%s: what is not told again holds it up for ever", c.name)
		}
	}
}

// An agent that reports in both ways is one reporter: it holds a NodeFence up for ten minutes, and no longer.
func TestOneAgentThatTellsAndWritesIsOne(t *testing.T) {
	s := grouped(t)
	s.r.ToldIn = s.r.Namespace
	for until := s.now.Add(9 * time.Minute); s.now.Before(until); {
		s.says("n1", slot("n4"))
		s.tells("n1", sightings.Sighting{Number: uint64(s.version) + 1, SlotMoves: []string{"n4"}})
		if s.round(); s.fence() != nil {
			t.Fatal("it begins at once")
		}
	}
	for until := s.now.Add(2 * time.Minute); s.now.Before(until); {
		s.says("n1", slot("n4"))
		s.tells("n1", sightings.Sighting{Number: uint64(s.version) + 1, SlotMoves: []string{"n4"}})
		s.round()
	}
	if s.fence() == nil {
		t.Error("one agent holds it up for more than ten minutes")
	}
}

// elsewhere has one ConfigMap in another namespace.
type elsewhere struct {
	client.Reader
	m *corev1.ConfigMap
}

func (e elsewhere) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.Namespace != e.m.Namespace {
		return e.Reader.List(ctx, list, opts...)
	}
	if o.LabelSelector == nil || !o.LabelSelector.Matches(labels.Set(e.m.Labels)) {
		return errors.New("all ConfigMaps are read")
	}
	list.(*corev1.ConfigMapList).Items = []corev1.ConfigMap{*e.m}
	return nil
}

// Reports in another namespace than that of the configuration are read there.
func TestWordsThatAreKeptElsewhere(t *testing.T) {
	for _, in := range []string{"", "elsewhere"} {
		s := grouped(t)
		s.r.ToldIn = in
		s.r.Reader = elsewhere{s.r.Reader, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: sightings.KeptName("n1"), Labels: map[string]string{sightings.KeptLabel: sightings.KeptValue}},
			Data:       s.heard(sightings.Encode(sightings.Sighting{Boot: s.bootOf("n1"), Number: 1, SlotMoves: []string{"n4"}})),
		}}
		if _, err := s.r.round(t.Context()); err != nil || (s.fence() != nil) != (in == "") {
			t.Errorf("read in %q: begun %v, %v", in, s.fence() != nil, err)
		}
	}
}

package fencing

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// sanStage returns a stage whose node has a port of a switch besides its power.
func sanStage(t *testing.T) *stage {
	s := newStage(t)
	for name, data := range map[string]string{
		"fence-config-n4": "node_name=n4\nisolation=san-off\npower_management=bmc-off bmc-on\nrecovery=san-on", "fence-method-template-san": "",
		"fence-method-san-off-n4": "template=fence-method-template-san\nplug=4\naction=off", "fence-method-san-on-n4": "template=fence-method-template-san\nplug=4\naction=on",
	} {
		key := "method.properties"
		switch name {
		case "fence-config-n4":
			key = "config.properties"
		case "fence-method-template-san":
			key, data = "template.properties", "agent_name=fence_brocade\nip=192.0.2.9"
		}
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: data}})
	}
	return s
}

// shows changes what the Node says: the out-of-service taint's value, and the annotation of a dispute.
func (s *stage) shows(taint, note string) {
	n := &corev1.Node{}
	if err := s.Get(context.Background(), clientKey("n4"), n); err != nil {
		s.t.Fatal(err)
	}
	n.Spec.Taints = nil
	if taint != "" {
		n.Spec.Taints = []corev1.Taint{{Key: recovery.TaintKey, Value: taint, Effect: corev1.TaintEffectNoExecute}}
	}
	if n.Annotations = nil; note != "" {
		n.Annotations = map[string]string{recovery.NoteKey: note}
	}
	s.put(n)
}

func (s *stage) boot() string {
	n := &corev1.Node{}
	_ = s.Get(context.Background(), clientKey("n4"), n)
	return deaths.Boot(n.Status.NodeInfo.BootID)
}

// disputes returns the ways in which a Node shows that its boot was called dead and was heard after that.
func disputes(boot string) map[string][2]string {
	return map[string][2]string{
		"at first, by the annotation":    {recovery.Fenced(boot), boot},
		"then by both":                   {recovery.Disputed(boot), boot},
		"by the taint, the note refused": {recovery.Disputed(boot), ""},
		"without a barrier":              {"", boot},
	}
}

// Guard (two writers): the storage of a boot that agents called dead, and that was heard after that, is never given
// back, whatever deletes its NodeFence.
func TestADisputeWithdrawsTheAgentsProof(t *testing.T) {
	for how, says := range disputes(newStage(t).boot()) {
		for _, by := range []string{"a remediation that timed out", "a person"} {
			s := sanStage(t)
			if by != "a person" {
				s.configure("begin_by=remediation")
				s.ask("n4", nil)
			}
			for range 40 {
				if s.round(); s.fence() != nil && s.fence().Status.Phase == nodefence.Done {
					break
				}
			}
			s.shows(recovery.Fenced(s.boot()), "")
			s.rounds(2)
			if f := s.fence(); f == nil || !f.Status.Isolated || f.Status.Proof == nil || f.Status.Proof.Kind != nodefence.ByAgents {
				t.Fatalf("%s: %+v", how, f)
			}
			s.now = s.now.Add(time.Minute) // its Lease runs out, or the kubelet that was heard is silent again
			s.rounds(2)
			s.shows(says[0], says[1])
			if by == "a person" {
				f := s.fence()
				now := metav1.NewTime(s.now)
				f.DeletionTimestamp = &now
				s.put(f)
			} else {
				s.change("n4", func(m *FencingRemediation) { m.Annotations = map[string]string{timedOutAnnotation: "1"} })
			}
			s.rounds(60)
			if slices.Contains(s.ran, "san-on") || s.fence() == nil {
				t.Errorf("%s, taken back by %s: %v, %+v", how, by, s.ran, s.fence())
			} else if m := s.fence().Status.Message; !strings.Contains(m, "may run") {
				t.Errorf("%s: nobody is asked: %s", how, m)
			}
			s.node("n4", true, "1", s.now) // the node is back with another boot
			s.rounds(60)
			if !slices.Contains(s.ran, "san-on") {
				t.Errorf("%s, taken back by %s: the next boot has no storage: %v %+v", how, by, s.ran, s.fence())
			}
		}
	}
}

// Guard: a Job that gives storage back, and was recorded before the dispute, is not started after it.
func TestADisputeStopsAJobThatIsRecorded(t *testing.T) {
	s := sanStage(t)
	for range 40 {
		if s.round(); s.fence() != nil && s.fence().Status.Phase == nodefence.Done {
			break
		}
	}
	s.shows(recovery.Fenced(s.boot()), "")
	s.rounds(2)
	s.now = s.now.Add(time.Minute)
	f := s.fence()
	now := metav1.NewTime(s.now)
	f.DeletionTimestamp, f.Status.Step, f.Status.Phase, f.Status.StartedAt = &now, nodefence.Recovery, nodefence.New, s.now
	s.put(f)
	disputed := false
	s.r.Writer = &spy{s.api, func() {
		if g := s.fence(); !disputed && g != nil && len(g.Status.Jobs) > 0 && g.Status.Jobs[len(g.Status.Jobs)-1].Step == nodefence.Recovery {
			disputed = true
			s.shows(recovery.Fenced(s.boot()), s.boot())
		}
	}}
	s.rounds(60)
	if !disputed || slices.Contains(s.ran, "san-on") {
		t.Errorf("recorded %v, ran %v, %+v", disputed, s.ran, s.fence())
	}
}

// Guard: a disputed death lifts no limit of a storm, whatever its proof was.
func TestADisputedDeathLiftsNoLimit(t *testing.T) {
	for how, says := range disputes(newStage(t).boot()) {
		for _, kind := range []string{nodefence.ByAgents, nodefence.ByPower} {
			s := newStage(t)
			boot := s.boot()
			f := NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf("n4")}, Spec: nodefence.Spec{NodeName: "n4"}}
			f.Status = nodefence.Status{Boot: boot, Proof: &nodefence.Proof{Kind: kind, Boot: boot}}
			for _, n := range []string{"n1", "n2", "n3", "n4"} { // all of one group, in which no other node may die
				o := &corev1.Node{}
				_ = s.Get(context.Background(), clientKey(n), o)
				o.Labels = map[string]string{"group": "worker"}
				s.put(o)
			}
			s.r.GroupLabel, s.r.MaxDeadPercent = "group", 0
			c, err := s.r.config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.Cluster.MaxUnhealthy, c.Cluster.MaxSilent = 100, 100
			allowed := func() bool {
				survey, _, err := s.r.survey(t.Context(), c, []NodeFence{f})
				if err != nil {
					t.Fatal(err)
				}
				return survey.Allow("n4", "").Allowed
			}
			if s.shows(recovery.Fenced(boot), ""); !allowed() {
				t.Fatal("what is proven is held up")
			}
			if s.shows(says[0], says[1]); allowed() {
				t.Errorf("%s, by %s: no limit holds", how, kind)
			}
		}
	}
}

// Guard: a remediation has not succeeded while the death is in dispute.
func TestADisputedDeathIsNoSuccess(t *testing.T) {
	for how, says := range disputes(newStage(t).boot()) {
		s := slow(t)
		s.ask("n4", nil)
		s.rounds(3)
		s.shows(recovery.Fenced(s.boot()), "")
		s.rounds(2)
		s.expect("n4", "False BootEnded", "True BootEnded")
		s.shows(says[0], says[1])
		s.rounds(2)
		if m := s.wish("n4"); m.condition("Succeeded") != "False Contradicted" {
			t.Errorf("%s: %+v", how, m.Status)
		}
	}
}

// spy reports each NodeFence that was written.
type spy struct {
	*api
	wrote func()
}

func (p *spy) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	err := p.api.Update(ctx, o, opts...)
	p.wrote()
	return err
}

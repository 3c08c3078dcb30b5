package members

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

// shelf is a PolicyStore in memory.
type shelf struct {
	groups     []Group
	nodeGroups []grouppolicy.Object
	writes     int
	away       error
	conflict   bool
}

func (s *shelf) Policies(context.Context) ([]Group, []grouppolicy.Object, error) {
	return append([]Group(nil), s.groups...), s.nodeGroups, s.away
}

func (s *shelf) WriteStatus(_ context.Context, g *Group, next *grouppolicy.Status) error {
	if s.conflict {
		return ErrConflict
	}
	for i := range s.groups {
		if s.groups[i].Name == g.Name {
			s.groups[i].Status, s.writes = *next, s.writes+1
			return nil
		}
	}
	return errors.New("there is none of that name")
}

func (s *shelf) status(name string) *grouppolicy.Status {
	for i := range s.groups {
		if s.groups[i].Name == name {
			return &s.groups[i].Status
		}
	}
	return nil
}

func groupOf(name, mode, timeout string) Group {
	g := Group{Object: grouppolicy.Object{Name: name, Spec: grouppolicy.Spec{Mode: mode}}}
	g.Spec.Watchdog.Timeout = timeout
	return g
}

func replica(s *shelf, log *strings.Builder, nodes ...string) *Policies {
	h := NewHub()
	for _, n := range nodes {
		h.Seen(n, there("g", nil))
	}
	h.Synced()
	return &Policies{Hub: h, Store: s, Logger: slog.New(slog.NewTextHandler(log, nil))}
}

// follows begins the stream of an agent, and says what it is told first. With mode "" the agent is older than policies.
func follows(t *testing.T, h *Hub, node, mode string) (*pipe, *fencingv1.MembersUpdate) {
	t.Helper()
	p, _ := call(t, h, node, nil)
	r := &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": "10.0.0.1"}}
	if mode != "" {
		r.Running = &fencingv1.GroupPolicy{Mode: mode, WatchdogTimeoutMs: 10000, OnQuorumLoss: "fence"}
	}
	p.reports <- r
	return p, <-p.updates
}

// Agents are told the policy when they come and when it changes; the FencingGroup shows who differs; older agents are served as before, and unknown.
func TestPoliciesAreShown(t *testing.T) {
	var log strings.Builder
	s := &shelf{groups: []Group{groupOf("g", "Watchdog", "10s")}}
	p := replica(s, &log, "n1", "n2", "n3", "n4")
	p.round(t.Context())
	if got := s.status("g"); got.Nodes != 4 || got.Unknown != 4 || s.writes != 1 {
		t.Errorf("%+v, %d writes", got, s.writes)
	}
	one, u := follows(t, p.Hub, "n1", "Watchdog")
	if w := u.GetPolicy(); w.GetMode() != "Watchdog" || w.GetWatchdogTimeoutMs() != 10000 || w.GetOnQuorumLoss() != "" || u.GetPolicyAgeMs() == 0 {
		t.Errorf("%v", u)
	}
	follows(t, p.Hub, "n2", "Notify")
	if _, u := follows(t, p.Hub, "n3", ""); u == nil {
		t.Error("an older agent is told nothing")
	}
	p.round(t.Context())
	got := s.status("g")
	if got.Nodes != 4 || got.Agree != 1 || got.Differ != 1 || got.Unknown != 2 || len(got.Agents) != 2 || got.Agents[1].Node != "n2" || len(got.Agents[1].Differs) != 1 {
		t.Errorf("%+v", got)
	}
	want := `# HELP fencing_controller_members_policy_agents Agents that follow this replica, of groups with a policy, by how they run: agree, differ, or unknown (they do not say).
# TYPE fencing_controller_members_policy_agents gauge
fencing_controller_members_policy_agents{group="g",state="agree"} 1
fencing_controller_members_policy_agents{group="g",state="differ"} 1
fencing_controller_members_policy_agents{group="g",state="unknown"} 1
`
	if err := testutil.CollectAndCompare(NewMetrics(prometheus.NewRegistry(), p.Hub), strings.NewReader(want), "fencing_controller_members_policy_agents"); err != nil {
		t.Error(err)
	}
	writes := s.writes
	p.round(t.Context())
	if s.writes != writes {
		t.Error("it writes what is there")
	}
	s.groups[0].Spec.Mode = "Notify"
	p.round(t.Context())
	if u := <-one.updates; u.GetPolicy().GetMode() != "Notify" || u.GetList() != nil || u.GetNode() != nil {
		t.Errorf("%v", u)
	}
	if got := s.status("g"); got.Agree != 1 || got.Agents[0].Differs == nil || got.Agents[1].Differs != nil {
		t.Errorf("%+v", got)
	}
	s.groups = nil
	p.round(t.Context())
	if u := <-one.updates; u.Policy == nil || u.GetPolicy().GetMode() != "" || u.GetPolicyAgeMs() != 0 {
		t.Errorf("a policy that was deleted stays: %v", u)
	}
}

// Guard: a replica that has not read the Nodes, or cannot read the policies, takes nothing back; and a lost write is no trouble.
func TestPoliciesStandWhileNothingIsKnown(t *testing.T) {
	var log strings.Builder
	told := []grouppolicy.Told{{Node: "n1", Mode: "Watchdog"}}
	s := &shelf{groups: []Group{groupOf("g", "Watchdog", "")}}
	s.groups[0].Status = grouppolicy.Status{Nodes: 1, Agree: 1, Agents: told}
	fresh := &Policies{Hub: NewHub(), Store: s, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	fresh.round(t.Context())
	if s.writes != 0 || !reflect.DeepEqual(s.status("g").Agents, told) {
		t.Errorf("%+v", s.status("g"))
	}
	p := replica(s, &log, "n1")
	one, _ := follows(t, p.Hub, "n1", "Notify")
	s.conflict = true
	p.round(t.Context())
	if u := <-one.updates; u.GetPolicy().GetMode() != "Watchdog" || s.writes != 0 || log.Len() > 0 {
		t.Errorf("%v, %d writes, %s", u, s.writes, log.String())
	}
	s.away = errors.New("away")
	p.round(t.Context())
	p.round(t.Context())
	select {
	case u := <-one.updates:
		t.Errorf("%v", u)
	default:
	}
	if strings.Count(log.String(), "cannot read the policies") != 1 {
		t.Error(log.String())
	}
	s.away, s.conflict = nil, false
	p.round(t.Context())
	if got := s.status("g"); got.Differ != 1 || got.Agents[0].Mode != "Notify" {
		t.Errorf("%+v", got)
	}
}

// An agent that goes from one replica to the other keeps its entry in between, and two replicas do not write each other's entries away.
func TestTwoReplicasShareAStatus(t *testing.T) {
	var log strings.Builder
	s := &shelf{groups: []Group{groupOf("g", "Watchdog", "10s")}}
	a, b := replica(s, &log, "n1", "n2"), replica(s, &log, "n1", "n2")
	follows(t, a.Hub, "n1", "Watchdog")
	follows(t, b.Hub, "n2", "Notify")
	a.round(t.Context())
	b.round(t.Context())
	writes := s.writes
	for range 5 {
		a.round(t.Context())
		b.round(t.Context())
	}
	if got := s.status("g"); s.writes != writes || got.Agree != 1 || got.Differ != 1 {
		t.Errorf("%d writes, %+v", s.writes-writes, got)
	}
	// n2 has gone from b, and has not come to a yet: a stream begins, and nothing has been told on it.
	if _, _, ok := a.Hub.follow("n2", "g"); !ok {
		t.Fatal("n2 may not follow")
	}
	a.round(t.Context())
	if got := s.status("g"); got.Differ != 1 {
		t.Errorf("an entry went with a stream that has told nothing yet: %+v", got)
	}
}

func TestPoliciesTellOfProblems(t *testing.T) {
	var log strings.Builder
	second := groupOf("z", "Notify", "")
	second.Spec.Group = "g"
	s := &shelf{groups: []Group{second, groupOf("g", "watchdog", "")}, nodeGroups: []grouppolicy.Object{{Name: "g", Problem: "spec.fencing: it is a list"}}}
	p := replica(s, &log, "n1")
	p.round(t.Context())
	p.round(t.Context())
	if got := s.status("g").Problem; got != `mode: "watchdog" is not possible; allowed: Watchdog, Notify; NodeGroup: spec.fencing: it is a list` {
		t.Error(got)
	}
	if got := s.status("z").Problem; got != "FencingGroup g speaks of group g, too, and counts: delete one of them" {
		t.Error(got)
	}
	if n := strings.Count(log.String(), "something is wrong with the policy of group g"); n != 1 {
		t.Error(log.String())
	}
}

// A group that no Node is of, as when its name is misspelt, is no group in which nobody differs.
func TestAGroupWithoutNodesIsAProblem(t *testing.T) {
	var log strings.Builder
	s := &shelf{groups: []Group{groupOf("g", "Watchdog", ""), groupOf("wroker", "off", "")}}
	replica(s, &log, "n1").round(t.Context())
	if got := s.status("g").Problem; got != "" {
		t.Error(got)
	}
	if got := s.status("wroker").Problem; !strings.HasPrefix(got, "mode: ") || !strings.HasSuffix(got, `; no Node is of group "wroker": compare it with the Nodes' label`) {
		t.Error(got)
	}
}

// bare is an API server that has NodeGroups, and FencingGroups while err is nil.
type bare struct {
	client.Reader
	err error
}

func (b *bare) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if l, is := list.(*unstructured.UnstructuredList); is {
		l.Items = []unstructured.Unstructured{{Object: map[string]any{
			"metadata": map[string]any{"name": "g"}, "spec": map[string]any{"fencing": map[string]any{"mode": "Watchdog"}},
		}}}
		return nil
	}
	return b.err
}

// Guard: where there is no CustomResourceDefinition the log says what to do, once, and NodeGroups count; an API server that is away takes nothing back.
func TestFencingGroupsThatAreNotServed(t *testing.T) {
	kind := schema.GroupResource{Group: "fencing-agent.io", Resource: "fencinggroups"}
	for _, gone := range []error{&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: kind.Group, Kind: "FencingGroup"}}, apierrors.NewNotFound(kind, "")} {
		var log strings.Builder
		api := &bare{err: gone}
		p := replica(&shelf{}, &log, "n1")
		p.Store = &Groups{Cluster: &Cluster{Reader: api}, Own: true, NodeGroups: true}
		p.round(t.Context())
		p.round(t.Context())
		if n := strings.Count(log.String(), "apply crds/fencinggroups.yaml"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
		_, u := follows(t, p.Hub, "n1", "Notify")
		if u.GetPolicy().GetMode() != "Watchdog" {
			t.Errorf("the NodeGroup does not count: %v", u)
		}
		api.err = apierrors.NewServiceUnavailable("away")
		p.Store.(*Groups).NodeGroups = false
		p.round(t.Context())
		if got := p.Hub.compared()["g"]["differ"]; got != 1 || !strings.Contains(log.String(), "the last ones stand") {
			t.Errorf("%d, %s", got, log.String())
		}
		api.err = gone // as after kubectl delete crd
		p.round(t.Context())
		if got := p.Hub.compared(); len(got) > 0 {
			t.Errorf("policies that are gone stand: %v", got)
		}
	}
}

func TestNodeGroupsAreRead(t *testing.T) {
	object := func(spec any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "worker"}, "spec": spec}}
	}
	o := nodeGroup(object(map[string]any{"nodeType": "Static", "fencing": map[string]any{"mode": "Watchdog", "group": "other", "watchdog": map[string]any{"timeout": "60s"}, "more": true}}))
	if p, bad := o.Spec.Policy(); o.Group() != "worker" || o.Problem != "" || len(bad) > 0 || p != (grouppolicy.Policy{Mode: "Watchdog", Timeout: time.Minute}) {
		t.Errorf("%+v, %+v, %v", o, p, bad)
	}
	if o := nodeGroup(object(map[string]any{"nodeType": "Static"})); o.Problem != "" || o.Spec != (grouppolicy.Spec{}) {
		t.Errorf("%+v", o)
	}
	if o := nodeGroup(object(map[string]any{"fencing": strings.Repeat("x", 1000)})); len(o.Problem) > 220 {
		t.Errorf("%d bytes: %s", len(o.Problem), o.Problem)
	}
	for _, bad := range []any{"text", map[string]any{"fencing": "on"}, map[string]any{"fencing": map[string]any{"mode": int64(1)}}} {
		if o := nodeGroup(object(bad)); o.Name != "worker" || !strings.HasPrefix(o.Problem, "spec.fencing: ") || o.Spec != (grouppolicy.Spec{}) {
			t.Errorf("%v: %+v", bad, o)
		}
	}
}

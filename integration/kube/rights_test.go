package kube

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// right is one verb on one resource.
type right struct{ verb, resource string }

func (r right) String() string { return r.verb + " " + r.resource }

// need describes what an agent cannot do without a right.
type need struct {
	what string
	// provoke gives the agent a reason to use the right; nil: there always is one.
	provoke func(t *testing.T, a *agents, r *realAgent)
	done    func(t *testing.T, a *agents, r *realAgent) bool
}

var needs = map[right]need{
	{"list", "nodes"}:    {"find its members", nil, works},
	{"watch", "nodes"}:   {"see that maintenance begins", beginMaintenance, inMaintenance},
	{"patch", "nodes"}:   {"announce its address", nil, saysItsAddress},
	{"create", "events"}: {"report maintenance", maintenance, reports},
}

func works(_ *testing.T, _ *agents, r *realAgent) bool {
	s, ok := r.status()
	return ok && s.Verdict.Permission == "PERMISSION_FEED"
}

func beginMaintenance(t *testing.T, a *agents, r *realAgent) {
	t.Helper()
	if err := patchNode(a.admin, r.node, annotate(disable, true)); err != nil {
		t.Fatal(err)
	}
}

func inMaintenance(_ *testing.T, _ *agents, r *realAgent) bool {
	s, ok := r.status()
	return ok && s.Verdict.Reason == "REASON_MAINTENANCE" && s.Watchdog.State == "WATCHDOG_STATE_DISARMED"
}

// maintenance begins and ends.
func maintenance(t *testing.T, a *agents, r *realAgent) {
	t.Helper()
	await(t, "the agent is at work", func() bool { return works(t, a, r) })
	beginMaintenance(t, a, r)
	await(t, "maintenance", func() bool { return inMaintenance(t, a, r) })
	if err := patchNode(a.admin, r.node, annotate(disable, false)); err != nil {
		t.Fatal(err)
	}
}

func saysItsAddress(t *testing.T, a *agents, r *realAgent) bool {
	t.Helper()
	n, err := a.admin.CoreV1().Nodes().Get(t.Context(), r.node, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Annotations[ownAnnotation] == r.address
}

func reports(t *testing.T, a *agents, r *realAgent) bool {
	t.Helper()
	all, err := a.admin.CoreV1().Events("default").List(t.Context(), meta.ListOptions{FieldSelector: "involvedObject.name=" + r.node})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		// These agents arm nothing.
		if e := &all.Items[i]; e.Reason == "DryRun" && strings.Contains(e.Message, "would be disarmed") {
			return true
		}
	}
	return false
}

// rules contains the rules of one role of the agents, and a way to replace them.
type rules struct {
	where   string
	space   string // empty: cluster-wide
	granted []rbac.PolicyRule
	replace func(t *testing.T, with []rbac.PolicyRule)
}

// roles returns all roles that the manifests bind to the agents' service account.
func (d *deployment) roles(t *testing.T) []rules {
	t.Helper()
	mine := func(subjects []rbac.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbac.Subject) bool {
			return s.Kind == rbac.ServiceAccountKind && s.Namespace == deployedSpace && s.Name == deployedName
		})
	}
	var all []rules
	api := d.admin.RbacV1()
	wide, err := api.ClusterRoleBindings().List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range wide.Items {
		if b := &wide.Items[i]; mine(b.Subjects) {
			role, err := api.ClusterRoles().Get(t.Context(), b.RoleRef.Name, meta.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rules{"ClusterRole " + role.Name, "", role.Rules, func(t *testing.T, with []rbac.PolicyRule) {
				t.Helper()
				changed := role.DeepCopy()
				changed.Rules, changed.ResourceVersion = with, ""
				if _, err := api.ClusterRoles().Update(t.Context(), changed, meta.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}})
		}
	}
	narrow, err := api.RoleBindings(meta.NamespaceAll).List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range narrow.Items {
		if b := &narrow.Items[i]; mine(b.Subjects) {
			role, err := api.Roles(b.Namespace).Get(t.Context(), b.RoleRef.Name, meta.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rules{"Role " + role.Namespace + "/" + role.Name, role.Namespace, role.Rules, func(t *testing.T, with []rbac.PolicyRule) {
				t.Helper()
				changed := role.DeepCopy()
				changed.Rules, changed.ResourceVersion = with, ""
				if _, err := api.Roles(role.Namespace).Update(t.Context(), changed, meta.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}})
		}
	}
	return all
}

// without returns the rules except for one right.
func without(from []rbac.PolicyRule, x right) []rbac.PolicyRule {
	var out []rbac.PolicyRule
	for _, r := range from {
		rest := *r.DeepCopy()
		if slices.Contains(r.Resources, x.resource) {
			rest.Verbs = slices.DeleteFunc(rest.Verbs, func(v string) bool { return v == x.verb })
		}
		if len(rest.Verbs) > 0 {
			out = append(out, rest)
		}
	}
	return out
}

// takesEffect waits until the server applies a changed role, of which it learns a little later.
func takesEffect(t *testing.T, admin *kubernetes.Clientset, user string, allowed bool, of authorization.ResourceAttributes) {
	t.Helper()
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{User: user, ResourceAttributes: &of}}
	await(t, fmt.Sprintf("%s of %s is allowed: %v", of.Verb, of.Resource, allowed), func() bool {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Allowed == allowed
	})
}

// A whole agent needs each right that the manifests grant. Without a right the server denies a request and something is
// missing; with the right that appears, without a restart.
func TestEachGrantedRightIsNeeded(t *testing.T) {
	d := deploy(t)
	tried := 0
	for _, role := range d.roles(t) {
		for _, rule := range role.granted {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					x := right{verb, resource}
					need, ok := needs[x]
					if !ok {
						t.Errorf("%s grants %v, and no test knows why", role.where, x)
						continue
					}
					tried++
					t.Run("without "+x.String()+" it does not "+need.what, func(t *testing.T) { lacking(t, d, role, x, need) })
				}
			}
		}
	}
	if tried != len(needs) {
		t.Errorf("%d rights were tried, %d are known to be needed", tried, len(needs))
	}
}

// lacking runs an agent in a separate group, first without the right and then with it.
func lacking(t *testing.T, d *deployment, role rules, x right, n need) {
	a := newGroup(t, d, "no-"+x.verb+"-"+x.resource, defaultCheck)
	denied := func() int {
		all, err := a.plane.Requests(func(q controlplane.Request) bool {
			return a.member(q.User.Node()) && q.Verb == x.verb && q.Object.Resource == x.resource && q.Response.Code == http.StatusForbidden
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	provoke := func(r *realAgent) {
		if n.provoke != nil {
			n.provoke(t, a, r)
		}
	}
	role.replace(t, without(role.granted, x))
	defer role.replace(t, role.granted)
	const user = "system:serviceaccount:" + deployedSpace + ":" + deployedName
	of := authorization.ResourceAttributes{Verb: x.verb, Resource: x.resource, Namespace: role.space}
	takesEffect(t, a.admin, user, false, of)
	// The agent must therefore announce its address.
	r := a.join(t, "192.0.2.1")
	r.start(t)
	await(t, "a request is denied", func() bool { return denied() > 0 })
	before := denied()
	provoke(r)
	await(t, "a request is denied again", func() bool { return denied() > before })
	if n.done(t, a, r) {
		t.Error("it was done without the right")
	}
	role.replace(t, role.granted)
	takesEffect(t, a.admin, user, true, of)
	provoke(r)
	await(t, "it is done with the right", func() bool { return n.done(t, a, r) })
}
